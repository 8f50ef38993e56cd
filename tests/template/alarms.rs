//! Alarms look at what is really measured.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::{listed, of_type};

/// The program's own text of what it measures.
const METRICS: &str = include_str!("../../src/lambda/metrics.rs");

const DASHBOARD: &str = include_str!("../../infra/dashboard.yaml");

fn alarms() -> impl Iterator<Item = (&'static str, &'static Value)> {
    of_type("AWS::CloudWatch::Alarm").into_iter().map(|(name, alarm)| (name, &alarm["Properties"]))
}

#[test]
fn every_metric_of_the_programs_own_is_one_that_it_prints() {
    let mut watched = BTreeSet::new();
    for (name, alarm) in alarms().filter(|(_, alarm)| alarm["Namespace"] == "gleaner") {
        let metric = alarm["MetricName"].as_str().unwrap();
        assert!(METRICS.contains(&format!("\"{metric}\"")), "{name} looks at {metric}, which nobody prints");
        assert_eq!(alarm["Dimensions"], json!([{"Name": "Stack", "Value": {"Ref": "AWS::StackName"}}]), "{name}");
        watched.insert(metric);
    }
    assert!(METRICS.contains(r#"const NAMESPACE: &str = "gleaner";"#));
    for needed in [
        "OldestOpenItemAge",
        "OldestDoneAge",
        "DeadLetters",
        "HeldRuns",
        "TickTroubles",
        "RefusedFiles",
        "EventsRefused",
    ] {
        assert!(watched.contains(needed), "nobody watches {needed}");
    }
}

#[test]
fn the_dashboard_shows_what_is_printed() {
    let shown: BTreeSet<&str> =
        DASHBOARD.split("[\"gleaner\", \"").skip(1).map(|rest| rest.split('"').next().unwrap()).collect();
    assert!(shown.len() > 10, "{shown:?}");
    for metric in &shown {
        assert!(METRICS.contains(&format!("\"{metric}\"")), "the dashboard shows {metric}, which nobody prints");
    }
    for needed in ["EventsTaken", "EventsUnknown", "EventsRefused", "EventsDuplicate", "EventsNotTaken", "Consumed"] {
        assert!(shown.contains(needed), "{needed}");
    }
}

#[test]
fn errors_throttles_and_queues_of_failures_are_watched() {
    let mut watched: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for (name, alarm) in alarms() {
        let dimensions = listed(&alarm["Dimensions"]);
        let [dimension] = dimensions[..] else { panic!("{name}") };
        let of = dimension["Value"]["Ref"].as_str().or_else(|| dimension["Value"]["Fn::GetAtt"][0].as_str()).unwrap();
        watched.entry(alarm["MetricName"].as_str().unwrap()).or_default().insert(of.to_owned());
    }
    let functions = |names: &[&str]| names.iter().map(|name| format!("{name}Function")).collect::<BTreeSet<_>>();
    assert_eq!(watched["Errors"], functions(&["Tick", "Worker", "Webhook", "Replay", "Summary"]));
    assert_eq!(watched["Throttles"], functions(&["Tick", "Worker", "Webhook"]));
    assert_eq!(watched["Invocations"], functions(&["Tick"]));
    let queues = &watched["ApproximateNumberOfMessagesVisible"];
    assert_eq!(*queues, BTreeSet::from(["TickFailed".to_owned(), "WorkFailed".to_owned()]));
    assert_eq!(watched["5xx"], BTreeSet::from(["Api".to_owned()]));
}

#[test]
fn every_alarm_tells_the_topic_if_there_is_one_and_says_what_to_do() {
    let told = json!({"Fn::If": ["HasAlarmTopic", [{"Ref": "AlarmTopic"}], {"Ref": "AWS::NoValue"}]});
    for (name, alarm) in alarms() {
        assert_eq!((&alarm["AlarmActions"], &alarm["OKActions"]), (&told, &told), "{name}");
        assert!(alarm["AlarmDescription"].as_str().unwrap().len() > 20, "{name}");
        // Silence is what a stack in order sounds like, but for the tick, which runs every minute.
        let silence = if name == "NoTickAlarm" { "breaching" } else { "notBreaching" };
        assert_eq!(alarm["TreatMissingData"], silence, "{name}");
    }
}
