//! Lines of mode `call`, from the file to the result.

use gleaner::domain::job::{Mode, State};
use serde_json::{Value, json};

use super::script::{Answer, Script};
use crate::world::{World, tick_of};

/// A file of calls: one for each input.
pub fn calls(inputs: impl IntoIterator<Item = String>) -> String {
    let lines = inputs.into_iter().map(|input| format!("{}\n", json!({"input": input})));
    format!("{{\"gleaner\": {{\"mode\": \"call\"}}}}\n{}", lines.collect::<String>())
}

/// `count` of them, every third of which asks for JSON.
pub fn many(count: usize) -> String {
    let schema = json!({"type": "object", "required": ["title"], "properties": {"title": {"type": "string"}}});
    let config = json!({"responseMimeType": "application/json", "responseJsonSchema": schema});
    let line = |n: usize| match n % 3 {
        0 => json!({"input": format!("Rate chapter {n}."), "generationConfig": config}),
        1 => json!({"contents": [{"role": "user", "parts": [{"text": format!("第{n}章")}]}]}),
        _ => json!({"input": format!("Chapter {n}?"), "system_instruction": "Be brief.", "date": n}),
    };
    let lines: String = (0..count).map(|n| format!("{}\n", line(n))).collect();
    format!("{{\"gleaner\": {{\"mode\": \"call\"}}}}\n{lines}")
}

#[tokio::test]
async fn a_file_of_calls_is_answered_in_one_tick() {
    let world = World::new(&[]).await;
    let intake = world.land(many(30)).await;
    let ticked = world.tick().await;
    assert_eq!((ticked.submitted.first, ticked.consumed()), (30, 30));
    let tally = world.until_over(&intake).await.tally;
    assert_eq!((tally.jobs, tally.consumed, tally.possible_duplicates), (30, 30, 0));
    assert_eq!((world.accepted().await, world.hands.count(), world.requests("generate").await), (30, 30, 30));
    for job in world.jobs().await {
        assert_eq!((job.mode, job.attempts, job.handles.len()), (Mode::Call, 1, 0));
        let result: Value =
            serde_json::from_slice(&std::fs::read(world.data().join(format!("results/{}.json", job.key))).unwrap())
                .unwrap();
        assert_eq!(result["model"], "gemini-flash-latest");
        assert!(result["usage"]["totalTokenCount"].is_u64() && result["response"]["candidates"].is_array(), "{result}");
        let states: Vec<State> = job.history.iter().map(|moment| moment.1).collect();
        assert_eq!(states, [State::Reserving, State::Done, State::Consumed]);
    }
}

#[tokio::test]
async fn the_mode_can_be_named_beside_the_file_and_stays() {
    let world = World::new(&[]).await;
    let path = world.path("plain.jsonl");
    std::fs::write(&path, "{\"input\": \"a\"}\n{\"input\": \"b\", \"mode\": \"interaction\"}\n").unwrap();
    let land = async |mode| gleaner::app::land::land(&world.engine, &path, mode).await;
    let landed = land(Some(Mode::Call)).await.unwrap();
    assert!(landed.intake.calls && landed.intake.mixed);
    let error = land(Some(Mode::Interaction)).await.unwrap_err().to_string();
    assert!(error.contains("taken in before as plain calls"), "{error}");
    assert!(land(Some(Mode::Call)).await.unwrap().before && land(None).await.unwrap().before);
    let tally = world.until_over(&landed.intake.sha256).await.tally;
    assert_eq!(tally.consumed, 2);
    assert_eq!((world.requests("generate").await, world.requests("create").await), (1, 1));
    let other = world.path("other.jsonl");
    std::fs::write(&other, "{\"input\": \"c\"}\n").unwrap();
    gleaner::app::land::land(&world.engine, &other, None).await.unwrap();
    let error = gleaner::app::land::land(&world.engine, &other, Some(Mode::Call)).await.unwrap_err().to_string();
    assert!(error.contains("taken in before as interactions"), "{error}");
}

#[tokio::test]
async fn a_wait_that_gemini_names_is_honoured_and_the_next_try_succeeds() {
    let retry = |delay: &str| {
        let details = json!([{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay}]);
        json!({"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "slow down", "details": details}})
    };
    let good =
        json!({"candidates": [{"content": {"parts": [{"text": "ok"}]}, "finishReason": "STOP"}], "responseId": "r1"});
    for (body, headers, wait) in [
        (retry("19s"), vec![], 19_000),
        (retry("45.25s"), vec![], 45_250),
        (retry("52758s"), vec![], 52_758_000),
        (json!({"error": {"code": 429}}), vec!["retry-after: 33"], 33_000),
        (retry("0.5s"), vec![], 2_000),
    ] {
        let (refusal, good) = (body.to_string(), good.to_string());
        let script = Script::start(move |asked| match asked.nth {
            0 => Answer::Http(429, headers.clone(), refusal.clone()),
            _ => Answer::Http(200, vec![], good.clone()),
        })
        .await;
        let world = World::new(&[]).await;
        world.land(calls(["a".to_owned()])).await;
        let engine = world.with_gemini_at(&script.url);
        tick_of(&engine).await.unwrap();
        let job = world.job().await;
        assert_eq!((job.state, job.class.as_deref(), job.attempts), (State::Retryable, Some("retryable:429"), 1));
        let waits = job.due_at.unwrap().since(world.now()).as_millis();
        // A back-off of 2 s and up to 1 s of jitter, or the delay when that is longer.
        assert!(waits == wait || (wait == 2_000 && (2_000..3_000).contains(&waits)), "{waits} for {wait}");
        world.advance(job.due_at.unwrap().since(world.now()) - std::time::Duration::from_millis(1));
        tick_of(&engine).await.unwrap();
        assert_eq!(script.posts(), 1, "asked before its time");
        world.advance(std::time::Duration::from_millis(1));
        tick_of(&engine).await.unwrap();
        let job = world.job().await;
        assert_eq!((job.state, job.attempts, job.possible_duplicates, script.posts()), (State::Consumed, 2, 0, 2));
    }
}
