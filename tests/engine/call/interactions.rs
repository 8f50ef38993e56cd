//! The same table for interactions: what a refused create means, and how the interaction ended.

use gleaner::domain::job::State;
use serde_json::{Value, json};

use super::script::{Answer, Script};
use super::table::{bare, error};
use crate::world::{World, tick_of};

/// The class of a job's end, and its attempts, when its creates are answered so, and its interactions end so.
async fn end_of(line: &Value, created: Option<Answer>, ended: Value) -> (String, u32) {
    let script = Script::start(move |asked| match (&created, asked.method.as_str()) {
        (Some(answer), "POST") => answer.clone(),
        (None, "POST") => {
            Answer::Http(200, vec![], json!({"id": format!("v1_{}", asked.nth), "status": "in_progress"}).to_string())
        }
        _ => {
            let mut body = ended.clone();
            body["id"] = json!(asked.path.rsplit('/').next().unwrap());
            Answer::Http(200, vec![], body.to_string())
        }
    })
    .await;
    let world = World::new(&[]).await;
    let engine = world.with_gemini_at(&script.url);
    world.land(format!("{line}\n")).await;
    for _ in 0..40 {
        tick_of(&engine).await.unwrap();
        let job = world.job().await;
        if job.state == State::Parked {
            assert_eq!(u64::from(job.attempts), script.posts());
            return (job.class.unwrap(), job.attempts);
        }
        if job.attempts == 0 {
            assert_eq!(job.state, State::Retryable);
            return (job.class.unwrap(), 0);
        }
        world.clock.set(job.due_at.unwrap().max(world.now()));
    }
    panic!("it never ends: {:?}", world.job().await)
}

fn line() -> Value {
    json!({"input": "a", "model": "m"})
}

#[tokio::test]
async fn a_refused_create() {
    for (answer, class, attempts) in [
        (bare(400), "permanent:400", 1),
        (bare(403), "permanent:403", 1),
        (bare(404), "permanent:404", 1),
        (bare(422), "permanent:422", 1),
        (error(400, &json!({"code": "invalid_request", "message": "x"})), "permanent:400", 1),
        (error(404, &json!({"code": "model_not_found", "message": "x"})), "permanent:404", 1),
        (error(400, &json!({"code": "invalid_request", "message": "Request blocked due to x"})), "blocked:PROMPT", 1),
        (bare(429), "queue:429", 0),
        (error(429, &json!({"code": "quota_exceeded", "message": "x"})), "queue:429", 0),
        // Unclear, whatever it says: it may have been created.
        (bare(500), "exhausted:unclear", 4),
        (bare(503), "exhausted:unclear", 4),
        (bare(408), "exhausted:unclear", 4),
        (error(409, &json!({"code": "aborted", "message": "x"})), "exhausted:unclear", 4),
        (Answer::Nothing, "exhausted:unclear", 4),
    ] {
        assert_eq!(end_of(&line(), Some(answer.clone()), json!({})).await, (class.to_owned(), attempts), "{answer:?}");
    }
}

#[tokio::test]
async fn how_an_interaction_ended() {
    let failed = |error: Value| json!({"status": "failed", "errors": [error]});
    let by_step = |code: i64| json!({"status": "failed", "steps": [{"type": "model_output", "error": {"code": code, "message": "x"}}]});
    let completed = |text: &str| json!({"status": "completed", "steps": [{"type": "model_output", "content": [{"type": "text", "text": text}]}]});
    for (ended, class, attempts) in [
        (failed(json!({"code": "api_error", "message": "x"})), "exhausted:500", 4),
        (failed(json!({"code": "service_unavailable"})), "exhausted:503", 4),
        (failed(json!({"code": "deadline_exceeded"})), "exhausted:504", 4),
        (failed(json!({"code": "rate_limit_exceeded"})), "exhausted:429", 4),
        (failed(json!({"code": 13})), "exhausted:500", 4),
        (failed(json!({"code": "invalid_request"})), "permanent:400", 1),
        (failed(json!({"code": "safety"})), "blocked:SAFETY", 1),
        (failed(json!({"message": "Blocked: SAFETY"})), "blocked:SAFETY", 1),
        (by_step(4), "exhausted:504", 4),
        (by_step(8), "exhausted:429", 4),
        (by_step(14), "exhausted:503", 4),
        (by_step(3), "permanent:400", 1),
        (json!({"status": "failed"}), "exhausted:unknown", 4),
        (json!({"status": "incomplete"}), "truncated", 1),
        (json!({"status": "budget_exceeded"}), "truncated", 1),
        (json!({"status": "requires_action"}), "requires_action", 1),
        (completed(""), "exhausted:empty", 4),
        (json!({"status": "completed", "steps": [{"type": "thought"}]}), "exhausted:empty", 4),
        (json!({"status": "completed"}), "exhausted:empty", 4),
    ] {
        assert_eq!(end_of(&line(), None, ended.clone()).await, (class.to_owned(), attempts), "{ended}");
    }
    let schema = json!({"type": "object", "required": ["a"]});
    let format = json!({"type": "text", "mime_type": "application/json", "schema": schema});
    let asked = json!({"input": "a", "model": "m", "response_format": format});
    assert_eq!(end_of(&asked, None, completed("no JSON")).await, ("extract:json".to_owned(), 1));
    assert_eq!(end_of(&asked, None, completed("{}")).await, ("extract:schema".to_owned(), 1));
}
