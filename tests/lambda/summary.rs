//! The summary function, on parked jobs, with a topic that somebody has subscribed to.

use gleaner::lambda::Function::{Summary, Tick};
use reqwest::Method;
use serde_json::{Value, json};

use super::emulator::proxy::{Answer, Verdict};
use super::world::World;
use super::{key, schedule};

/// Brings a job that Gemini's filters stop, and a line that is none, to their ends.
pub async fn park(world: &World) {
    world.sim.send(Method::PUT, "/simulator/faults", Some(&json!({"blocked": 1.0}))).await.unwrap();
    world.put("inbox/a.jsonl", "{\"input\": \"x\", \"idempotency_key\": \"blocked-job\"}\nno json\n").await;
    for _ in 0..20 {
        world.invoke(Tick, &schedule()).await.unwrap();
        let summary = world.invoke(Summary, &json!({})).await.unwrap();
        if summary["dead_letters"] == 2 {
            world.sim.send(Method::PUT, "/simulator/faults", Some(&json!({}))).await.unwrap();
            world.take_told().await;
            return;
        }
    }
    panic!("nothing was parked");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_told_when_there_is_nothing_to_say_and_all_is_when_there_is() {
    let world = World::new(&key()).await;
    let clean = world.invoke(Summary, &schedule()).await.unwrap();
    assert_eq!(
        (&clean["clean"], &clean["dead_letters"], &clean["days_until_expiry"]),
        (&json!(true), &json!(0), &Value::Null)
    );
    assert_eq!(world.take_told().await, []);

    park(&world).await;
    let before = world.table().await;
    let told = world.invoke(Summary, &schedule()).await.unwrap();
    assert_eq!(world.table().await, before, "it changes nothing");
    assert_eq!(
        (&told["clean"], &told["dead_letters"], &told["parked"]),
        (&json!(false), &json!(2), &json!(2)),
        "{told}"
    );
    let classes: Vec<_> = told["classes"].as_array().unwrap().iter().map(|class| &class["class"]).collect();
    assert_eq!(classes, ["bad_line:json", "blocked:SAFETY"]);
    assert_eq!((&told["modes"], &told["files"][0]["file"]), (&json!({"interaction": 1, "line": 1}), &json!("a.jsonl")));
    let messages = world.take_told().await;
    let [(subject, text)] = &messages[..] else { panic!("{messages:?}") };
    assert!(subject.starts_with("gleaner: 2 dead letters, mostly "), "{subject}");
    assert!(text.contains("        1  blocked:SAFETY\n") && text.contains("gleaner --stack gleaner dead\n"), "{text}");

    let without = world.process_with(Summary, &[("GLEANER_SUMMARY_TOPIC", "")]);
    super::world::invoke(&without, Summary, &schedule(), std::time::Duration::from_secs(60)).await.unwrap();
    assert_eq!(world.take_told().await, []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_summary_that_cannot_be_made_or_told_fails_and_says_why() {
    let world = World::new(&key()).await;
    park(&world).await;
    world.proxy.judge(|seen| match seen.body.starts_with(b"Action=Publish&") {
        true => {
            let body = "<ErrorResponse><Error><Type>Sender</Type><Code>AuthorizationError</Code><Message>no</Message>\
                        </Error></ErrorResponse>";
            Verdict::Answer(Answer::new(403, "text/xml", body.to_owned()))
        }
        false => Verdict::Pass,
    });
    let failed = world.invoke(Summary, &schedule()).await.unwrap_err().error_message;
    assert!(failed.contains("publishing to arn:aws:sns:") && failed.contains("AuthorizationError"), "{failed}");
    world.proxy.judge(|seen| match seen.operation() {
        "Query" => Verdict::Answer(Answer::json_error(400, "AccessDeniedException")),
        _ => Verdict::Pass,
    });
    let failed = world.invoke(Summary, &schedule()).await.unwrap_err().error_message;
    assert!(failed.contains("AccessDenied"), "{failed}");
}
