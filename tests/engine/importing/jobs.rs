//! The table `jobs`.

use std::collections::BTreeMap;

use gleaner::app::report::dead;
use gleaner::domain::job::{Fate, State};
use rusqlite::Connection;
use serde_json::{Value, json};

use super::{count, made, take_over, try_import};
use crate::world::{KEY, MINUTE, World, json_line, key_id, key_of, text};

/// Ticks on until nothing that is under way is left.
async fn collect_all(world: &World) {
    for _ in 0..100 {
        world.tick().await;
        let open = |job: &gleaner::domain::job::Job| !job.state.is_ended();
        if !world.jobs().await.iter().any(open) {
            return;
        }
        world.skip().await;
    }
    panic!("it never ends: {:?}", world.jobs().await);
}

fn by_status(jobs: &Value, status: &str) -> Vec<String> {
    let of = |job: &&Value| job["status"] == status;
    jobs.as_array().unwrap().iter().filter(of).map(|job| job["key"].as_str().unwrap().to_owned()).collect()
}

/// A database with a table `jobs` of these rows: key, handle, status.
fn jobs_file(world: &World, rows: &[(&str, Option<&str>, &str)]) -> std::path::PathBuf {
    let path = world.path("jobs.db");
    let db = Connection::open(&path).unwrap();
    db.execute_batch(
        "CREATE TABLE IF NOT EXISTS jobs (idem TEXT PRIMARY KEY, handle TEXT, status TEXT NOT NULL, submitted_at REAL, updated_at REAL NOT NULL)",
    )
    .unwrap();
    for (idem, handle, status) in rows {
        let sql = "INSERT OR REPLACE INTO jobs VALUES (?1, ?2, ?3, 1795900000.25, 1795900001.5)";
        db.execute(sql, (idem, handle, status)).unwrap();
    }
    path
}

/// Has the simulator work on something, as the script would; its handle.
async fn sent(world: &World, line: &str) -> String {
    let mut body: Value = serde_json::from_str(line).unwrap();
    body["model"] = json!("gemini-flash-latest");
    body["background"] = json!(true);
    let (status, answer) = world.sim.send(reqwest::Method::POST, "/v1beta/interactions", Some(&body)).await.unwrap();
    assert_eq!(status, 200, "{}", String::from_utf8_lossy(&answer));
    serde_json::from_slice::<Value>(&answer).unwrap()["id"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_open_job_is_collected_and_nothing_is_sent_twice() {
    let world = World::new(&[]).await;
    let file = world.text_of("reclaim_ledger.db");
    let jobs = made(&["jobs", &file, &world.sim.running.base_url()]).await["jobs"].clone();
    let paid = world.accepted().await;
    let imported = take_over(&world.engine, file.as_ref()).await;
    let told: BTreeMap<&str, u64> = [("submitted", 7), ("consumed", 2), ("failed", 1), ("no_payload", 2)].into();
    assert_eq!(imported.jobs, told);
    for job in jobs.as_array().unwrap() {
        let key = job["key"].as_str().unwrap();
        assert_eq!(key_of(&job["line"].to_string()).0, key, "the same key as the script's");
        let taken = world.job_of(key).await;
        let handle = job["handle"].as_str().map(|handle| handle.trim_start_matches("interactions/").to_owned());
        assert_eq!(taken.handles.first().map(|handle| handle.id.clone()), handle, "{taken:?}");
        let expected = match job["status"].as_str().unwrap() {
            "submitted" | "done" => (State::Submitted, None),
            "consumed" => (State::Consumed, Some("import:consumed")),
            "failed" => (State::Parked, Some("import:failed")),
            _ => (State::Parked, Some("import:no_payload")),
        };
        assert_eq!((taken.state, taken.class.as_deref()), expected, "{taken:?}");
        assert!(taken.handles.iter().all(|handle| handle.key == key_id(KEY) && handle.attempt == 1));
    }
    let letters = dead(&world.engine, Some("import"), None, usize::MAX).await.unwrap();
    assert_eq!(letters.len(), 3);

    let items = world.items().await;
    let again = take_over(&world.engine, file.as_ref()).await;
    assert_eq!((count(&again.jobs, "before"), again.jobs.len()), (12, 1));
    assert_eq!(world.items().await, items, "twice is the same as once");

    collect_all(&world).await;
    for key in by_status(&jobs, "submitted").into_iter().chain(by_status(&jobs, "done")) {
        assert_eq!(world.job_of(&key).await.state, State::Consumed, "{key}");
        let result = std::fs::read(world.data().join(format!("results/{key}.json"))).unwrap();
        let result: Value = serde_json::from_slice(&result).unwrap();
        assert_eq!(result["idempotency_key"], key);
        assert!(result["value"].is_string(), "{result}");
    }
    assert_eq!(world.hands.count(), 7, "what the script had consumed is not handed on again");
    world.hands.assert_each(1);
    assert_eq!(world.accepted().await, paid, "nothing was submitted");
    take_over(&world.engine, file.as_ref()).await;
    assert_eq!(world.hands.count(), 7);

    // Every line is handed in: the reservations go on, and nothing else is sent.
    let lines: String = jobs.as_array().unwrap().iter().map(|job| format!("{}\n", job["line"])).collect();
    let intake = world.land(&lines).await;
    collect_all(&world).await;
    let log = world.log().await;
    let mut ours: Vec<&str> = log[paid..].iter().map(|entry| entry["labels"]["gleaner"].as_str().unwrap()).collect();
    ours.sort_unstable();
    let mut waited = by_status(&jobs, "reserving");
    waited.sort();
    assert_eq!(ours, waited);
    for key in &waited {
        let job = world.job_of(key).await;
        assert_eq!((job.state, job.attempts, job.possible_duplicates), (State::Consumed, 2, 1), "{job:?}");
        assert_eq!(job.input.intake, intake);
    }
    let progress = world.progress(&intake).await;
    assert_eq!(progress.wrong_sums(), None);
    // The two, and the one that had failed, which can be replayed now; the others had ended without their lines.
    assert_eq!((progress.tally.jobs, progress.tally.repeats, progress.tally.parked), (3, 9, 1));
    assert!(progress.is_over());
    let items = world.items().await;
    take_over(&world.engine, file.as_ref()).await;
    assert_eq!(world.items().await, items, "once more, after all of that went on");
}

#[tokio::test]
async fn a_line_makes_an_open_job_be_judged_by_it_and_is_not_sent() {
    let world = World::new(&[]).await;
    let (plain, asks) = (text("one"), json_line("two"));
    let (one, two) = (key_of(&plain), key_of(&asks));
    let handles = [sent(&world, &plain).await, sent(&world, &asks).await];
    let file = jobs_file(&world, &[(&one.0, Some(&handles[0]), "submitted"), (&two.0, Some(&handles[1]), "submitted")]);
    take_over(&world.engine, &file).await;
    let intake = world.land(format!("{plain}{asks}")).await;
    let until = world.now().plus(MINUTE);
    gleaner::app::submit::submit_intake(&world.engine, &intake, until).await.unwrap();
    assert_eq!(world.job_of(&two.0).await.state, State::Submitted);
    collect_all(&world).await;
    assert_eq!(world.accepted().await, 2);
    let result = std::fs::read(world.data().join(format!("results/{two}.json"))).unwrap();
    let result: Value = serde_json::from_slice(&result).unwrap();
    assert!(result["value"]["score"].is_i64(), "it was judged by its schema: {result}");
    let progress = world.progress(&intake).await;
    assert_eq!((progress.wrong_sums(), progress.tally.consumed, progress.is_over()), (None, 2, true));
}

#[tokio::test]
async fn one_that_fails_waits_for_its_line_and_is_never_sent_without() {
    let world = World::new(&["failed-silent=1"]).await;
    let plain = text("one");
    let key = key_of(&plain);
    let handle = sent(&world, &plain).await;
    let file = jobs_file(&world, &[(&key.0, Some(&handle), "submitted"), ("gone", Some("v1_gone"), "submitted")]);
    take_over(&world.engine, &file).await;
    world.pass(MINUTE * 60, MINUTE).await;
    let job = world.job_of(&key.0).await;
    assert_eq!((job.state, job.attempts), (State::Parked, 1), "{job:?}");
    assert!(job.class.as_deref().unwrap().starts_with("exhausted:"), "{job:?}");
    let gone = world.job_of("gone").await;
    assert_eq!((gone.state, gone.class.as_deref()), (State::Parked, Some("exhausted:not_found")), "{gone:?}");
    // A person has it tried again all the same: it can't be.
    let again = |job: &mut gleaner::domain::job::Job, now: gleaner::domain::moves::Now<'_>| {
        job.max_attempts += 4;
        job.replays += 1;
        job.enter(State::Retryable, Some(now.at), now.at);
    };
    world.engine.change(&job, again).await.unwrap().unwrap();
    world.tick().await;
    let job = world.job_of(&key.0).await;
    assert_eq!((job.state, job.class.as_deref()), (State::Parked, Some("import:no_payload")), "{job:?}");
    assert_eq!(world.accepted().await, 1);
    // With its line it is.
    world.set_faults(&["failed-silent=0"]).await;
    world.land(&plain).await;
    collect_all(&world).await;
    assert_eq!((world.job_of(&key.0).await.state, world.accepted().await), (State::Consumed, 2));
}

#[tokio::test]
async fn what_the_script_does_after_an_import_counts_at_the_next_one() {
    let world = World::new(&[]).await;
    let (one, two, three) = (text("one"), text("two"), text("three"));
    let keys = [key_of(&one), key_of(&two), key_of(&three)];
    let handles = [sent(&world, &one).await, sent(&world, &two).await, sent(&world, &three).await];
    let rows = |statuses: [(Option<usize>, &'static str); 3]| {
        let row = |n: usize| (keys[n].0.as_str(), statuses[n].0.map(|n| handles[n].as_str()), statuses[n].1);
        [row(0), row(1), row(2)]
    };
    let file = jobs_file(&world, &rows([(None, "reserving"), (Some(1), "submitted"), (None, "reserving")]));
    take_over(&world.engine, &file).await;
    jobs_file(&world, &rows([(Some(0), "submitted"), (Some(1), "consumed"), (Some(2), "consumed")]));
    take_over(&world.engine, &file).await;
    let job = world.job_of(&keys[0].0).await;
    assert_eq!((job.state, job.possible_duplicates), (State::Submitted, 0), "its handle is taken: {job:?}");
    collect_all(&world).await;
    for key in &keys {
        assert!(matches!(world.job_of(&key.0).await.state, State::Consumed | State::Recovered), "{key}");
    }
    assert_eq!((world.hands.count(), world.accepted().await), (1, 3), "the others were consumed by the script");
    assert_eq!(world.job_of(&keys[0].0).await.handles[0].fate, Fate::Won);
}

#[tokio::test]
async fn rows_that_cannot_be_taken_over_are_told_and_nothing_else_is_lost() {
    let world = World::new(&[]).await;
    let file = jobs_file(
        &world,
        &[
            ("Article 7", None, "reserving"),
            ("a", None, "lost"),
            ("b", None, "reserving"),
            ("c", Some(""), "submitted"),
        ],
    );
    let imported = try_import(&world.engine, &file).await.unwrap();
    let told: Vec<String> = imported
        .refused
        .iter()
        .map(|refused| format!("{} {}: {}", refused.table, refused.key.as_deref().unwrap_or_default(), refused.why))
        .collect();
    assert_eq!(
        told,
        [
            "jobs Article 7: idem: must be 1 to 63 of a-z 0-9 _ -, as the script's own keys are",
            "jobs a: status: \"lost\" is none of the script's",
        ]
    );
    assert_eq!(imported.jobs, [("no_payload", 2)].into());
}
