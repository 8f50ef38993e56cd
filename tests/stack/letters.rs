//! Dead letters in the stack: its summary, and replays over the API, by invoking the function, and from the command line.

use std::collections::BTreeMap;

use reqwest::Method;
use serde_json::{Value, json};

use super::deployed::{Deployed, eventually};

/// Six jobs that Gemini's filters stop, and a line that is none.
async fn park(stack: &Deployed) {
    stack.sim.send(Method::PUT, "/simulator/faults", Some(&json!({"blocked": 1.0}))).await.unwrap();
    for n in 0..6 {
        // One after the other, so that there is an oldest one.
        let key = format!("stopped-{n}");
        stack.put("jobs.jsonl", json!({"input": n.to_string(), "idempotency_key": key}).to_string()).await;
        eventually("it is parked", async || {
            stack.invoke("tick", &json!({})).await?;
            let summary = stack.invoke("summary", &json!({})).await?;
            if summary["dead_letters"] == n + 1 { Ok(()) } else { Err(summary.to_string()) }
        })
        .await;
    }
    stack.put("bad.jsonl", "no json\n").await;
    eventually("every dead letter has its message", async || {
        stack.invoke("tick", &json!({})).await?;
        let summary = stack.invoke("summary", &json!({})).await?;
        let told = (&summary["dead_letters"], &summary["unsent_messages"]);
        if told == (&json!(7), &json!(0)) { Ok(()) } else { Err(summary.to_string()) }
    })
    .await;
    stack.sim.send(Method::PUT, "/simulator/faults", Some(&json!({}))).await.unwrap();
}

/// A queue that is subscribed to the topic of the stack; its URL.
async fn subscribe(stack: &Deployed) -> String {
    let config = stack.emulator.config();
    let sqs = aws_sdk_sqs::Client::new(&config);
    let url = sqs.create_queue().queue_name("somebody").send().await.unwrap().queue_url.unwrap();
    let topic = stack.outputs.get("SummaryTopic").unwrap();
    let arn = "arn:aws:sqs:us-east-1:000000000000:somebody";
    let sns = aws_sdk_sns::Client::new(&config);
    sns.subscribe().topic_arn(topic).protocol("sqs").endpoint(arn).send().await.unwrap();
    url
}

/// What the subscriber was told: subjects and texts.
async fn told(stack: &Deployed, queue: &str) -> Vec<(String, String)> {
    let sqs = aws_sdk_sqs::Client::new(&stack.emulator.config());
    let received = sqs.receive_message().queue_url(queue).max_number_of_messages(10).send().await.unwrap();
    let told = received.messages.unwrap_or_default().into_iter().map(|message| {
        let told: Value = serde_json::from_str(message.body().unwrap()).unwrap();
        (told["Subject"].as_str().unwrap().to_owned(), told["Message"].as_str().unwrap().to_owned())
    });
    told.collect()
}

fn ids(replayed: &Value) -> Vec<&str> {
    replayed["items"].as_array().unwrap().iter().map(|item| item["id"].as_str().unwrap()).collect()
}

fn from_command_line(stack: &Deployed, arguments: &[&str]) -> Value {
    let ran = stack.gleaner().arg("--json").args(arguments).output().unwrap();
    serde_json::from_slice(&ran.stdout).unwrap_or_else(|_| panic!("{arguments:?}: {ran:?}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dead_letters_are_told_once_a_day_and_replayed_by_every_door() {
    let stack = Deployed::new(&[], &[("TickState", "DISABLED"), ("SummaryState", "DISABLED")]).await;
    let subscriber = subscribe(&stack).await;
    let schedule: Value = serde_json::from_str(include_str!("../../events/summary.json")).unwrap();
    assert_eq!(stack.invoke("summary", &schedule).await.unwrap()["clean"], true);
    assert_eq!(told(&stack, &subscriber).await, [], "there is nothing to say");
    park(&stack).await;
    while !told(&stack, &subscriber).await.is_empty() {}

    // The summary: the answer, the mail, the log, and the same from the command line.
    let before = stack.everything().await;
    let summary = stack.invoke("summary", &schedule).await.unwrap();
    let counts: BTreeMap<&str, u64> = summary["classes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|class| (class["class"].as_str().unwrap(), class["count"].as_u64().unwrap()))
        .collect();
    assert_eq!(counts, BTreeMap::from([("blocked:SAFETY", 6), ("bad_line:json", 1)]));
    assert_eq!(summary["expiries"][0]["what"], "message", "{summary}");
    let mails = told(&stack, &subscriber).await;
    let [(subject, text)] = &mails[..] else { panic!("{mails:?}") };
    assert_eq!(subject, "night: 7 dead letters, mostly blocked:SAFETY, next expiry in 13 days");
    assert!(text.contains("        6  blocked:SAFETY\n"), "{text}");
    let mut own = from_command_line(&stack, &["summary"]);
    assert_eq!(own["classes"], summary["classes"]);
    assert_eq!(own["expiries"].take()[0]["id"], summary["expiries"][0]["id"]);
    let lines = stack.logs("summary").await;
    let metric = |name: &str, class: Option<&str>| {
        lines
            .iter()
            .rev()
            .find(|line| line["_aws"].is_object() && line["Class"].as_str() == class && !line[name].is_null())
    };
    assert_eq!(metric("DeadLetters", Some("blocked:SAFETY")).unwrap()["DeadLetters"], 6);
    assert!(metric("DaysUntilExpiry", None).unwrap()["DaysUntilExpiry"].as_f64().unwrap() > 13.0);

    // Dry runs, by every door: all see the same, oldest first, and nothing changes anywhere.
    let operator = stack.access_key().await;
    let (status, refused) = stack.post_replay(None, "{}").await;
    assert_eq!(status, 403, "{refused}");
    let asked = r#"{"error_class": "blocked", "limit": 4}"#;
    let (status, over_http) = stack.post_replay(Some(&operator), asked).await;
    assert_eq!((status, &over_http["dry_run"]), (200, &json!(true)), "{over_http}");
    assert_eq!(ids(&over_http), ["stopped-0", "stopped-1", "stopped-2", "stopped-3"]);
    assert_eq!(stack.invoke("replay", &serde_json::from_str(asked).unwrap()).await.unwrap(), over_http);
    assert_eq!(
        from_command_line(&stack, &["replay", "--class", "blocked", "--limit", "4"])["items"],
        over_http["items"]
    );
    let event: Value = serde_json::from_str(include_str!("../../events/replay.json")).unwrap();
    let example = stack.invoke("replay", &event).await.unwrap();
    assert_eq!(example["statusCode"], 200, "{example}");
    assert_eq!(stack.everything().await, before, "a dry run changes nothing");
    assert_eq!(stack.post_replay(Some(&operator), r#"{"dry_run": false}"#).await.0, 400, "a real one needs a reason");

    // Real ones: over the API some of them, by invoking the function the rest.
    let real = r#"{"error_class": "blocked", "limit": 4, "dry_run": false, "reason": "the filter was changed"}"#;
    let (status, replayed) = stack.post_replay(Some(&operator), real).await;
    assert_eq!((status, &replayed["scanned"], &replayed["resubmitted"]), (200, &json!(4), &json!(4)), "{replayed}");
    finished(&stack, &["stopped-0", "stopped-1", "stopped-2", "stopped-3"], 3).await;
    let rest = json!({"ids": ["stopped-4", "stopped-5"], "dry_run": false, "reason": "these too"});
    assert_eq!(stack.invoke("replay", &rest).await.unwrap()["resubmitted"], 2);
    let all = ["stopped-0", "stopped-1", "stopped-2", "stopped-3", "stopped-4", "stopped-5"];
    finished(&stack, &all, 1).await;
    let accepted = stack.accepted().await;
    assert!(all.iter().all(|key| accepted[*key] == 2), "each was asked twice, and no more: {accepted:?}");
    let replayed = stack.logs("replay").await;
    let callers: Vec<_> = replayed.iter().filter(|line| line["message"] == "replayed").collect();
    assert!(
        callers.iter().any(|line| line["replay.caller"].as_str().is_some_and(|by| by.ends_with("user/operator"))),
        "{callers:?}"
    );
}

/// Ticks until these jobs have results, and so many dead letters are left.
async fn finished(stack: &Deployed, keys: &[&str], left: u64) {
    let expected: Vec<String> = keys.iter().map(|key| format!("results/{key}.json")).collect();
    eventually("what was replayed has its result", async || {
        stack.invoke("tick", &json!({})).await?;
        let results = stack.names("results/").await;
        let summary = stack.invoke("summary", &json!({})).await?;
        let is_over = results == expected && summary["dead_letters"] == left && summary["unsent_messages"] == 0;
        if is_over { Ok(()) } else { Err(format!("{results:?} {summary}")) }
    })
    .await;
}
