//! The table `dead_letter`.

use gleaner::app::replay::{Outcome, Replay};
use gleaner::app::report::{Dead, dead};
use gleaner::app::summary::summary;
use gleaner::domain::job::{Job, Mode, State};
use gleaner::domain::moves::Now;
use serde_json::Value;

use super::{count, made, take_over};
use crate::replays::{apply, replay_by};
use crate::world::World;

fn label(id: &str) -> bool {
    id.starts_with("article-")
}

#[tokio::test]
async fn every_parked_one_is_listed_with_what_the_script_knew_and_can_be_tried_again() {
    let world = World::new(&[]).await;
    let file = world.text_of("dlq.db");
    let letters = made(&["letters", &file, "24"]).await["letters"].clone();
    let letters = letters.as_array().unwrap();
    let imported = take_over(&world.engine, file.as_ref()).await;
    assert_eq!(imported.dead_letters, [("bad_payload", 6), ("parked", 16), ("recovered", 2)].into());
    assert_eq!(imported.unsent, ["tone"]);
    let items = world.items().await;
    assert_eq!(count(&take_over(&world.engine, file.as_ref()).await.dead_letters, "before"), 24);
    assert_eq!(world.items().await, items, "twice is the same as once");

    let listed: Vec<Dead> = dead(&world.engine, None, None, usize::MAX).await.unwrap();
    let parked: Vec<&Value> = letters.iter().filter(|letter| letter["status"] == "parked").collect();
    assert_eq!(listed.len(), parked.len());
    for (letter, listed) in parked.iter().zip(&listed) {
        let id = letter["job_id"].as_str().unwrap();
        if label(id) {
            assert_eq!(listed.id, id, "in the order of the script's replay");
        }
        let payload: Value = serde_json::from_str(letter["payload"].as_str().unwrap()).unwrap();
        let (class, message) = (letter["class"].as_str().unwrap(), letter["message"].as_str().unwrap());
        if payload["text"].is_null() {
            assert_eq!((listed.class.as_str(), listed.message.as_str()), (class, message));
        } else {
            assert_eq!(listed.class, "import:bad_payload");
            assert!(listed.message.contains(class) && listed.message.contains(message), "{}", listed.message);
        }
        assert_eq!(u64::from(listed.attempts), letter["attempts"].as_u64().unwrap());
        let first_seen = jiff::Timestamp::from_second(letter["first_seen"].as_f64().unwrap() as i64).unwrap();
        assert_eq!(listed.first_seen, first_seen.to_string());
        let job = world.job_of(&listed.id).await;
        let object = format!("intakes/{}.jsonl", job.input.intake);
        let range = job.input.offset..job.input.offset + job.input.length;
        let line: Value = serde_json::from_slice(&world.engine.objects.read(&object, range).await.unwrap()).unwrap();
        assert_eq!(line["dead_letter"]["job_id"], id, "the script's own name is shown");
        assert_eq!(job.has_no_line(), !payload["text"].is_null());
        if job.has_no_line() {
            assert_eq!(line["dead_letter"]["payload"], payload, "the payload is kept");
        } else {
            let (line, _) = world.engine.line_of(&job).await.unwrap();
            assert_eq!((line.mode, job.mode, job.model.as_str()), (Mode::Call, Mode::Call, "gemini-flash-latest"));
        }
    }

    let before = world.accepted().await;
    for letter in &listed {
        let again = |job: &mut Job, now: Now<'_>| {
            job.max_attempts = job.attempts + 4;
            job.replays += 1;
            job.enter(State::Retryable, Some(now.at), now.at);
        };
        world.engine.change(&world.job_of(&letter.id).await, again).await.unwrap().unwrap();
    }
    for _ in 0..20 {
        world.tick().await;
        world.skip().await;
    }
    for letter in &listed {
        let job = world.job_of(&letter.id).await;
        let expected = if job.has_no_line() { State::Parked } else { State::Recovered };
        assert_eq!(job.state, expected, "{job:?}");
    }
    let paid = world.requests("generate").await;
    assert!(paid == 16 || world.accepted().await == before + 16, "each was called once: {paid}");
}

#[tokio::test]
async fn one_whose_payload_cannot_be_sent_is_left_as_it_is() {
    let world = World::new(&[]).await;
    let file = world.text_of("dlq.db");
    made(&["letters", &file, "24"]).await;
    take_over(&world.engine, file.as_ref()).await;
    let items = world.items().await;
    let class = || Some("import:bad_payload".to_owned());
    for asked in [Replay::default(), apply()] {
        let replayed = replay_by(&world.engine, &Replay { error_class: class(), ..asked }).await;
        assert_eq!((replayed.scanned, replayed.trouble), (6, None));
        for item in &replayed.items {
            assert_eq!(item.outcome, Outcome::Left, "{item:?}");
            assert!(
                item.why.as_deref().unwrap().contains("hand in a corrected line, and discard this one"),
                "{item:?}"
            );
        }
    }
    assert_eq!(world.items().await, items, "its class too");
    let summary = summary(&*world.engine.ledger, world.now(), None).await.unwrap();
    assert!(
        summary.files.iter().all(|file| file.file == "imported") && summary.files.len() == 1,
        "{:?}",
        summary.files
    );
}

#[tokio::test]
async fn a_model_that_no_url_can_be_made_of_is_told_and_never_called() {
    let world = World::new(&[]).await;
    let path = world.path("models.db");
    let db = rusqlite::Connection::open(&path).unwrap();
    db.execute_batch(
        "CREATE TABLE dead_letter (job_id TEXT PRIMARY KEY, payload_json TEXT NOT NULL, model TEXT, error_class TEXT, \
         error_message TEXT, attempts INTEGER NOT NULL, first_seen REAL NOT NULL, last_seen REAL NOT NULL, \
         status TEXT NOT NULL); \
         INSERT INTO dead_letter VALUES ('a-1', '{\"prompt\": \"Why?\"}', 'models/..', 'permanent:400', 'no', 1, \
         1795900000.0, 1795900001.0, 'parked')",
    )
    .unwrap();
    drop(db);
    let imported = take_over(&world.engine, &path).await;
    assert_eq!(imported.dead_letters, [("bad_payload", 1)].into());
    let listed: Vec<Dead> = dead(&world.engine, None, None, usize::MAX).await.unwrap();
    assert_eq!(listed[0].class, "import:bad_payload");
    assert!(listed[0].message.contains("model: no URL can be made"), "{}", listed[0].message);
    assert!(world.job_of("a-1").await.has_no_line());
}
