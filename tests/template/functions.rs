//! The functions: what runs them, how long they may take, and what they are told.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use gleaner::app::settings::{NAMES, Settings, Webhook};
use gleaner::domain::webhook::EVENT_LEASE;
use gleaner::lambda::{Environment, Function, Parts};
use serde_json::{Value, json};

use crate::{Given, TEMPLATE, of_type, properties, text_given};

/// Settings that functions have no use for: keys come from a secret, there is no folder, and no command is run.
const NOT_IN_LAMBDA: [&str; 3] = ["GEMINI_API_KEY", "GLEANER_DATA", "GLEANER_ON_RESULT_TIMEOUT"];

/// Settings of who receives events, and of nobody else.
const OF_THE_WEBHOOK: [&str; 2] = ["GLEANER_WEBHOOK_KEYS", "GLEANER_WEBHOOK_AUDIENCE"];

/// What is no setting of the program: where it is, and how it logs.
const OF_THE_STACK: [&str; 7] = [
    "GLEANER_STACK",
    "GLEANER_LOG",
    "GLEANER_TABLE",
    "GLEANER_BUCKET",
    "GLEANER_WORK_QUEUE",
    "GLEANER_DEAD_LETTERS",
    "GLEANER_GEMINI_SECRET",
];

/// The same of a single function each.
const OF_ONE: [&str; 2] = ["GLEANER_WEBHOOK_SECRET", "GLEANER_SUMMARY_TOPIC"];

/// The functions that work on the whole stack.
const WORKING: [&str; 3] = ["tick", "worker", "replay"];

/// Where the stack's events are to be sent.
const OWN_WEBHOOK: &str = "https://api.example/webhook";

/// The functions' properties by their handlers.
fn functions() -> BTreeMap<&'static str, &'static Value> {
    let all = of_type("AWS::Lambda::Function").into_values().map(|function| &function["Properties"]);
    all.map(|function| (function["Handler"].as_str().unwrap(), function)).collect()
}

/// What a function is told, with the defaults of parameters.
fn variables(function: &Value) -> BTreeMap<String, String> {
    variables_given(function, &[])
}

/// The same with these parameters.
fn variables_given(function: &Value, given: Given<'_>) -> BTreeMap<String, String> {
    let all = function["Environment"]["Variables"].as_object().unwrap().iter();
    all.map(|(name, value)| (name.clone(), text_given(value, given))).collect()
}

fn seconds(function: &Value) -> Duration {
    Duration::from_secs(function["Timeout"].as_u64().unwrap())
}

#[test]
fn there_is_a_function_for_every_handler() {
    let functions = functions();
    let handlers: BTreeSet<_> = Function::ALL.into_iter().map(Function::handler).collect();
    assert_eq!(functions.keys().copied().collect::<BTreeSet<_>>(), handlers);
    for (name, function) in functions {
        assert_eq!(function["Runtime"], "provided.al2023", "{name}");
        assert_eq!(function["Architectures"], json!([{"Ref": "Architecture"}]), "{name}");
        assert_eq!(function["MemorySize"], 512, "{name}");
        assert!(function["TracingConfig"].is_null(), "{name}");
    }
    assert_eq!(TEMPLATE["Parameters"]["Architecture"]["Default"], "x86_64");
}

#[test]
fn all_are_the_same_build() {
    let builds: BTreeSet<_> =
        of_type("AWS::Lambda::Function").into_values().map(|function| function["Metadata"].to_string()).collect();
    assert_eq!(builds.len(), 1, "{builds:?}");
    let expected = json!({"BuildMethod": "rust-cargolambda", "BuildProperties": {"Binary": "bootstrap"}});
    assert_eq!(builds.first().unwrap(), &expected.to_string());
}

#[test]
fn each_logs_json_of_all_levels_into_a_group_that_is_emptied() {
    let groups = of_type("AWS::Logs::LogGroup");
    for (name, function) in functions() {
        let logging = &function["LoggingConfig"];
        // At its default, INFO, Lambda would drop what GLEANER_LOG=debug asks for.
        assert_eq!((&logging["LogFormat"], &logging["ApplicationLogLevel"]), (&json!("JSON"), &json!("TRACE")));
        let group = logging["LogGroup"]["Ref"].as_str().unwrap();
        assert_eq!(
            groups[group]["Properties"]["LogGroupName"]["Fn::Sub"],
            format!("/aws/lambda/${{AWS::StackName}}-{name}")
        );
    }
    for (name, group) in groups {
        assert_eq!(group["Properties"]["RetentionInDays"], json!({"Ref": "LogRetentionDays"}), "{name}");
    }
}

#[test]
fn every_environment_is_what_the_program_reads() {
    for (name, function) in functions() {
        let mut variables = variables(function);
        let of_the_stack = |name: &&String| OF_THE_STACK.contains(&name.as_str()) || OF_ONE.contains(&name.as_str());
        for unknown in variables.keys().filter(|name| !of_the_stack(name)) {
            assert!(NAMES.iter().any(|(known, ..)| known == unknown), "{name} is told {unknown}");
            assert!(!NOT_IN_LAMBDA.contains(&unknown.as_str()), "{name} is told {unknown}");
        }
        variables.insert("_HANDLER".to_owned(), name.to_owned());
        let read = Environment::of(&|name| variables.get(name).cloned()).unwrap();
        assert_eq!(read.function.handler(), name);
        let url = WORKING.contains(&name).then(|| OWN_WEBHOOK.to_owned());
        let expected = Settings { webhook: Webhook { url, ..Webhook::default() }, ..Settings::default() };
        assert_eq!(read.settings, expected, "a parameter's default is not the program's");
        match (name, &read.parts) {
            ("tick" | "worker" | "replay", Parts::All(_)) | ("webhook", Parts::Door(_)) => {}
            ("summary", Parts::Desk(names)) => assert_eq!(names.topic.as_deref(), Some("SummaryTopic")),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn every_setting_reaches_who_works_and_the_command_line() {
    let settings: BTreeMap<String, String> = NAMES
        .iter()
        .filter(|(name, ..)| !NOT_IN_LAMBDA.contains(name) && !OF_THE_WEBHOOK.contains(name) && *name != "GLEANER_LOG")
        .map(|(name, default, _)| ((*name).to_owned(), (*default).to_owned()))
        .collect();
    let functions = functions();
    // Its default is the program's where the stack's own address is no default.
    let given: Given = &[("WebhookEvents", "registered")];
    let output = TEMPLATE["Outputs"]["Settings"]["Value"]["Fn::Sub"][0].as_str().unwrap();
    let output: BTreeMap<String, String> = serde_json::from_str(output).unwrap();
    for worker in WORKING {
        let mut variables = variables_given(functions[worker], given);
        for name in OF_THE_STACK {
            assert!(variables.remove(name).is_some(), "{worker} is not told {name}");
        }
        assert_eq!(variables, settings, "{worker}");
        for (name, reference) in functions[worker]["Environment"]["Variables"].as_object().unwrap() {
            if settings.contains_key(name) && name != "GLEANER_WEBHOOK_URL" {
                assert_eq!(output[name], format!("${{{}}}", reference["Ref"].as_str().unwrap()));
            }
        }
    }
    assert_eq!(output.keys().collect::<Vec<_>>(), settings.keys().collect::<Vec<_>>());
}

#[test]
fn each_job_asks_for_its_event_or_none_does_and_the_command_line_as_the_functions() {
    let functions = functions();
    assert_eq!(TEMPLATE["Parameters"]["WebhookEvents"]["AllowedValues"], json!(["each-job", "registered"]));
    for (chosen, expected) in [("each-job", OWN_WEBHOOK), ("registered", "")] {
        let given: Given = &[("WebhookEvents", chosen)];
        let output = text_given(&TEMPLATE["Outputs"]["Settings"]["Value"], given);
        let output: BTreeMap<String, String> = serde_json::from_str(&output).unwrap();
        assert_eq!(output["GLEANER_WEBHOOK_URL"], expected);
        for worker in WORKING {
            assert_eq!(variables_given(functions[worker], given)["GLEANER_WEBHOOK_URL"], expected, "{worker}");
        }
        assert!(!variables_given(functions["webhook"], given).contains_key("GLEANER_WEBHOOK_URL"));
    }
    assert_eq!(text_given(&TEMPLATE["Outputs"]["WebhookUrl"]["Value"], &[]), OWN_WEBHOOK);
}

#[test]
fn who_receives_events_is_told_whose_keys_to_believe() {
    let given: Given = &[
        ("WebhookKeys", "https://keys.example/set"),
        ("WebhookAudience", "us"),
        ("GeminiBaseUrl", "https://gemini.example"),
    ];
    let mut told = variables_given(functions()["webhook"], given);
    told.insert("_HANDLER".to_owned(), "webhook".to_owned());
    let read = Environment::of(&|name| told.get(name).cloned()).unwrap().settings;
    assert_eq!(read.webhook.keys.as_deref(), Some("https://keys.example/set"));
    assert_eq!((read.webhook.audience.as_deref(), read.base_url.as_str()), (Some("us"), "https://gemini.example"));
    for other in ["tick", "worker", "replay", "summary"] {
        let told = variables(functions()[other]);
        assert!(OF_THE_WEBHOOK.iter().all(|name| !told.contains_key(*name)), "{other}");
        assert!(!told.contains_key("GLEANER_WEBHOOK_SECRET"), "{other}");
    }
}

/// A parameter's pattern must not let through what breaks the JSON of the output `Settings`.
#[test]
fn settings_are_text_that_json_can_hold() {
    let output = TEMPLATE["Outputs"]["Settings"]["Value"]["Fn::Sub"][0].as_str().unwrap();
    for (name, parameter) in TEMPLATE["Parameters"].as_object().unwrap() {
        assert!(!parameter["Description"].as_str().unwrap().is_empty(), "{name}");
        if output.contains(&format!("${{{name}}}"))
            && parameter["Type"] == "String"
            && parameter["AllowedValues"].is_null()
        {
            let pattern = parameter["AllowedPattern"].as_str().unwrap();
            assert!(pattern.starts_with('^') && pattern.ends_with('$'), "{name}");
            assert!(!pattern.contains(['"', '.']) || ["GeminiBaseUrl", "Model"].contains(&name.as_str()), "{name}");
            assert!(!pattern.contains('"') && !pattern.contains(".*") && !pattern.contains("[^"), "{name}");
        }
    }
}

#[test]
fn time_outs_leave_time_for_what_is_under_way() {
    let functions = functions();
    let worker = seconds(functions["worker"]);
    assert!(worker <= Duration::from_secs(900), "Lambda's own limit");
    let hidden = Duration::from_secs(properties("WorkQueue")["VisibilityTimeout"].as_u64().unwrap());
    assert!(hidden >= 6 * worker, "a message that is being worked on must not be received again");
    // The tick begins work for 50 s at most; then one request may time out, and what it brought is written down.
    let longest = Duration::from_secs(100);
    assert_eq!(TEMPLATE["Parameters"]["HttpTimeout"]["AllowedPattern"], "^([1-9][0-9]{0,4}ms|[1-9][0-9]?s|100s|1m)$");
    // The worker makes plain calls, each of which may take ten minutes, and a margin.
    assert!(worker > Duration::from_secs(600) + Duration::from_secs(20));
    assert!(seconds(functions["tick"]) >= Duration::from_secs(50) + longest + Duration::from_secs(20));
    // A direct invocation begins replays for a while; over HTTP the function itself sees to it that it answers in time.
    assert!(seconds(functions["replay"]) >= longest + Duration::from_secs(20) + Duration::from_secs(60));
    assert_eq!(properties("ReplayIntegration")["TimeoutInMillis"], 30_000, "API Gateway waits no longer");
    assert_eq!(properties("ReplayFunctionEventInvokeConfig")["MaximumRetryAttempts"], 0);
    // One that hangs is over before its event's lease is, and the API waits for it to say so.
    assert!(2 * seconds(functions["webhook"]) <= EVENT_LEASE);
    let waits = Duration::from_millis(properties("WebhookIntegration")["TimeoutInMillis"].as_u64().unwrap());
    assert!(waits > seconds(functions["webhook"]));
}

#[test]
fn the_tick_runs_every_minute_and_its_failed_events_are_kept() {
    let rule = properties("TickFunctionEveryMinute");
    assert_eq!((&rule["ScheduleExpression"], &rule["State"]), (&json!("rate(1 minute)"), &json!({"Ref": "TickState"})));
    assert_eq!(rule["Targets"][0]["Arn"], json!({"Fn::GetAtt": ["TickFunction", "Arn"]}));
    assert!(rule["Targets"][0]["Input"].is_null(), "the rule's own event is passed on");
    let invoked = properties("TickFunctionEventInvokeConfig");
    assert_eq!((&invoked["MaximumRetryAttempts"], &invoked["MaximumEventAgeInSeconds"]), (&json!(2), &json!(6 * 3600)));
    let kept_in = &invoked["DestinationConfig"]["OnFailure"]["Destination"];
    assert_eq!(*kept_in, json!({"Fn::GetAtt": ["TickFailed", "Arn"]}));
    let daily = properties("SummaryFunctionDaily");
    assert_eq!(daily["State"], json!({"Ref": "SummaryState"}));
    assert_eq!(TEMPLATE["Parameters"]["SummaryState"]["Default"], "ENABLED");
}

#[test]
fn the_worker_takes_one_message_at_a_time_and_names_those_that_failed() {
    let source = properties("WorkerFunctionWork");
    assert_eq!(source["EventSourceArn"], json!({"Fn::GetAtt": ["WorkQueue", "Arn"]}));
    assert_eq!(source["BatchSize"], 1);
    assert_eq!(source["FunctionResponseTypes"], json!(["ReportBatchItemFailures"]));
}

#[test]
fn the_stack_tells_where_its_parts_are() {
    let outputs: BTreeSet<_> = TEMPLATE["Outputs"].as_object().unwrap().keys().map(String::as_str).collect();
    for name in [
        "Table",
        "Bucket",
        "Inbox",
        "WorkQueue",
        "DeadLetters",
        "GeminiSecret",
        "WebhookSecret",
        "WebhookUrl",
        "ReplayUrl",
        "Settings",
        "TickFunction",
        "WorkerFunction",
        "WebhookFunction",
        "ReplayFunction",
        "SummaryFunction",
        "SummaryTopic",
    ] {
        assert!(outputs.contains(name), "{name}");
    }
}

#[test]
fn the_summary_has_a_topic_that_an_address_is_subscribed_to_when_there_is_one() {
    let topics = of_type("AWS::SNS::Topic");
    assert_eq!(topics.keys().collect::<Vec<_>>(), [&"SummaryTopic"]);
    let subscriptions = of_type("AWS::SNS::Subscription");
    let [(_, subscription)] = subscriptions.iter().collect::<Vec<_>>()[..] else { panic!("{subscriptions:?}") };
    assert_eq!(subscription["Condition"], "HasSummaryEmail");
    assert!(
        !crate::holds("HasSummaryEmail", &[]) && crate::holds("HasSummaryEmail", &[("SummaryEmail", "a@b.example")])
    );
    let of = &subscription["Properties"];
    assert_eq!(
        (&of["TopicArn"], &of["Protocol"], &of["Endpoint"]),
        (&json!({"Ref": "SummaryTopic"}), &json!("email"), &json!({"Ref": "SummaryEmail"}))
    );
}
