//! Taking lines: whatever happens on the way, every line becomes exactly one thing.

use std::collections::BTreeSet;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use async_trait::async_trait;
use gleaner::app::engine::Engine;
use gleaner::app::land::source::{Reader, Source};
use gleaner::app::land::{LandError, land_from};
use gleaner::app::report::dead;
use gleaner::domain::job::State;
use gleaner::ports::ids::Ids;
use gleaner::ports::testing::TestIds;
use gleaner::simulator::Config;
use serde_json::json;

use super::world::{GRACE, HOUR, LEASE, MINUTE, Maker, World, eventually, json_line, key_of, lines, text, tick_of};

/// A future that is left alone after it was polled `left` times: a process that is killed there, or stalls.
struct Killed<F> {
    work: F,
    left: u32,
}

impl<F: Future + Unpin> Future for Killed<F> {
    type Output = bool;

    /// True: it came to its end before.
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<bool> {
        if self.left == 0 {
            return Poll::Ready(false);
        }
        self.left -= 1;
        Pin::new(&mut self.work).poll(context).map(|_| true)
    }
}

/// One tick that is killed at its `polls`th moment. True: it ended before.
pub async fn killed_tick(engine: &Engine, polls: u32) -> bool {
    killed(tick_of(engine), polls).await
}

/// Work that is killed at its `polls`th moment. True: it ended before.
pub async fn killed(work: impl Future, polls: u32) -> bool {
    pin!(Killed { work: Box::pin(work), left: polls }).await
}

/// Work that stalls at its `polls`th moment, and may be gone on with. True: it ended before.
pub async fn stalled<F: Future>(work: &mut Pin<Box<F>>, polls: u32) -> bool {
    pin!(Killed { work, left: polls }).await
}

/// Kills ticks at moments that `seed` chooses, the `longest`th at the latest, until the intake is over; each tick is
/// of a process of its own. Returns how many were killed.
async fn killed_many_times(seed: u64, count: usize, longest: u32) -> u32 {
    let mut maker = Maker::default();
    maker.settings.concurrency = 4;
    // A job whose sender is killed each time would reach the cap, as it should.
    maker.settings.max_attempts = 100;
    let world = World::with(&[], Config::default(), maker).await;
    let intake = world.land(lines(count)).await;
    let dice = TestIds::new(seed * 7919);
    let mut kills = 0;
    while kills < 40 && !world.progress(&intake).await.is_over() {
        let engine = world.second();
        let polls = 1 + (dice.fraction() * f64::from(longest)) as u32;
        kills += u32::from(!killed_tick(&engine, polls).await);
        drop(engine);
        world.check().await;
        world.advance(if dice.fraction() < 0.5 { LEASE } else { GRACE });
    }
    let tally = world.until_over(&intake).await.tally;
    assert_eq!((tally.jobs, tally.repeats, tally.bad_lines), (count as u64, 0, 0));
    // A job whose consumer was killed five times is a dead letter with its result, as it should.
    let parked = world.jobs().await.into_iter().filter(|job| job.state == State::Parked);
    for job in parked {
        assert_eq!((job.class.as_deref(), job.consume_tries), (Some("internal:consume"), 5), "{job:?}");
    }
    let accepted = world.accepted().await as u64;
    assert!(accepted <= count as u64 + tally.possible_duplicates, "seed {seed}: {accepted} accepted, {tally:?}");
    // The same result may be handed on again after a kill, and then it is the same. Who was consumed was handed on; a
    // dead letter's consumers may all have been killed before they came to it.
    let results: BTreeSet<_> = world.hands.taken.lock().unwrap().iter().cloned().collect();
    let handed: BTreeSet<_> = results.iter().map(|(key, _)| key.clone()).collect();
    assert_eq!(results.len(), handed.len(), "seed {seed}: one result with two contents");
    for job in world.jobs().await.into_iter().filter(|job| job.state == State::Consumed) {
        assert!(handed.contains(&job.key), "seed {seed}: consumed and never handed on: {job:?}");
    }
    assert!(tally.consumed + tally.parked == count as u64 && tally.parked <= 5, "seed {seed}: {tally:?}");
    kills
}

#[tokio::test]
async fn killed_at_its_first_moments_no_line_is_lost_or_sent_twice() {
    let mut kills = 0;
    for seed in 1..=6 {
        kills += killed_many_times(seed, 20, 25).await;
    }
    assert!(kills >= 10, "only {kills} ticks were killed");
}

#[tokio::test]
async fn killed_at_any_moment_no_line_is_lost_or_sent_twice() {
    let mut kills = 0;
    for seed in 7..=12 {
        kills += killed_many_times(seed, 60, 80).await;
    }
    assert!(kills >= 10, "only {kills} ticks were killed");
}

#[tokio::test]
async fn killed_at_each_single_moment_of_a_small_tick() {
    for polls in 1..60 {
        let world = World::new(&[]).await;
        let intake = world.land(lines(3)).await;
        let ended = killed_tick(&world.second(), polls).await;
        world.check().await;
        world.advance(LEASE);
        let tally = world.until_over(&intake).await.tally;
        assert_eq!((tally.jobs, tally.consumed), (3, 3), "killed at {polls}");
        assert!(world.accepted().await as u64 <= 3 + tally.possible_duplicates, "killed at {polls}: {tally:?}");
        if ended {
            return;
        }
    }
    panic!("a tick of three lines has more than 60 moments");
}

#[tokio::test]
async fn two_engines_share_one_intake() {
    let world = World::new(&[]).await;
    let intake = world.land(lines(200)).await;
    let second = world.second();
    let tally = world.until_over_by(&[&world.engine, &second], &intake).await.tally;
    assert_eq!((tally.jobs, tally.consumed, tally.possible_duplicates), (200, 200, 0));
    assert_eq!((world.accepted().await, world.hands.count()), (200, 200));
}

#[tokio::test]
async fn a_holder_that_lost_the_intake_sends_no_line_that_others_took() {
    let world = World::with(&["create-delay=1"], Config { late: HOUR, ..Config::default() }, Maker::default()).await;
    let intake = world.land(lines(60)).await;
    let (first, _clock) = world.paused();
    let first = tokio::spawn(async move { tick_of(&first).await });
    eventually("its hands are full", async || world.accepted().await == 16).await;
    world.set_faults(&[]).await;
    world.advance(LEASE);
    world.tick().await;
    assert_eq!((world.accepted().await, world.progress(&intake).await.waiting()), (60, 0));
    world.advance(HOUR);
    first.await.unwrap().unwrap();
    assert_eq!(world.requests("create").await, 60, "the first holder went on with lines of others");
    let tally = world.until_over(&intake).await.tally;
    assert_eq!((tally.jobs, tally.consumed, tally.repeats, tally.possible_duplicates), (60, 60, 0, 0));
    assert_eq!((world.accepted().await, world.hands.count()), (60, 60));
}

#[tokio::test]
async fn a_file_that_is_handed_in_again_submits_nothing_twice() {
    let world = World::new(&[]).await;
    let intake = world.land(lines(10)).await;
    world.until_over(&intake).await;
    let revs = world.revs().await;
    let again = world.try_land("other-name.jsonl", lines(10)).await.unwrap();
    assert!(again.before && again.intake.sha256 == intake);
    world.tick().await;
    assert_eq!((world.revs().await, world.accepted().await), (revs, 10));
}

#[tokio::test]
async fn overlapping_files_and_repeated_lines_are_repeats() {
    let world = World::new(&[]).await;
    let first = world.land(lines(10)).await;
    world.tick().await;
    // Six lines of the first file, four new ones, one of those three times in all, and one line written otherwise.
    let all = lines(14);
    let line = |n: usize| all.lines().nth(n).unwrap().to_owned() + "\n";
    let spaced = line(0).replace(':', " :  ");
    let file: String = (4..14).map(line).chain([line(12), spaced, line(12)]).collect();
    let second = world.try_land("second.jsonl", file).await.unwrap().intake.sha256;
    let tally = world.until_over(&second).await.tally;
    assert_eq!((tally.jobs, tally.repeats, tally.bad_lines), (4, 9, 0));
    world.until_over(&first).await;
    assert_eq!((world.accepted().await, world.hands.count()), (14, 14));
    world.hands.assert_each(1);
}

#[tokio::test]
async fn one_key_for_two_contents_is_a_bad_line() {
    let world = World::new(&[]).await;
    let named = |input: &str| json!({"input": input, "idempotency_key": "mine"}).to_string() + "\n";
    let intake = world.land(named("One.") + &text("Two.") + &named("Three.") + &named("One.")).await;
    let tally = world.until_over(&intake).await.tally;
    assert_eq!((tally.jobs, tally.repeats + tally.bad_lines, tally.consumed), (2, 2, 2));
    let again = world.try_land("again.jsonl", named("Four.")).await.unwrap().intake.sha256;
    let tally = world.until_over(&again).await.tally;
    assert_eq!((tally.jobs, tally.repeats, tally.bad_lines), (0, 0, 1));
    let letters = dead(&world.engine, Some("bad_line:key_taken"), None, 10).await.unwrap();
    assert!(letters.iter().any(|letter| letter.message.contains("again.jsonl line 1")), "{letters:?}");
    assert_eq!(world.accepted().await, 2);
}

#[tokio::test]
async fn bad_lines_of_every_kind_leave_the_good_ones_alone() {
    let world = World::new(&[]).await;
    let bad: [(&str, Vec<u8>); 10] = [
        ("bad_line:utf8", b"{\"input\": \"\xff\xfe\"}".to_vec()),
        ("bad_line:json", b"{\"input\": \"cut".to_vec()),
        ("bad_line:json", b"no JSON at all".to_vec()),
        ("bad_line:not_an_object", b"[1, 2]".to_vec()),
        ("bad_line:duplicate_name", br#"{"input": "a", "input": "b"}"#.to_vec()),
        ("bad_line:number", br#"{"input": "a", "n": 1e999}"#.to_vec()),
        ("bad_line:field", br#"{"input": "a", "background": true}"#.to_vec()),
        ("bad_line:row", br#"{"key": "r", "request": {"contents": []}}"#.to_vec()),
        ("bad_line:too_long", format!(r#"{{"input": "{}"}}"#, "x".repeat(21_000_000)).into_bytes()),
        ("bad_line:field", br#"{"input": "a", "mode": "batch"}"#.to_vec()),
    ];
    let mut file = b"\xef\xbb\xbf".to_vec();
    file.extend(text("The first, after a byte order mark.").into_bytes());
    for (n, (_, line)) in bad.iter().enumerate() {
        file.extend(line);
        file.extend(b"\r\n\r\n   \n");
        file.extend(text(&format!("Good {n}, 良い.")).trim_end().bytes());
        file.extend(b"\r\n");
    }
    file.extend(text("The last, without an end.").trim_end().bytes());
    let landed = world.try_land("mixed.jsonl", file).await.unwrap();
    assert_eq!((landed.bad_lines, landed.bad.len(), landed.intake.lines), (10, 10, 22));
    let tally = world.until_over(&landed.intake.sha256).await.tally;
    assert_eq!((tally.jobs, tally.consumed, tally.bad_lines, tally.repeats), (12, 12, 10, 0));
    assert_eq!(world.accepted().await, 12);
    let letters = dead(&world.engine, None, None, 100).await.unwrap();
    let classes: Vec<&str> = letters.iter().map(|letter| letter.class.as_str()).collect();
    for (class, _) in &bad {
        assert!(classes.contains(class), "{class} in {classes:?}");
    }
    for (n, (class, _)) in bad.iter().enumerate() {
        let place = format!("mixed.jsonl line {}:", 2 + 4 * n);
        let letter = letters.iter().find(|letter| letter.message.starts_with(&place));
        assert_eq!(letter.map(|letter| letter.class.as_str()), Some(*class), "{place}");
    }
    let keys: Vec<_> = world.jobs().await.into_iter().map(|job| job.key).collect();
    assert!(keys.contains(&key_of(&text("The last, without an end."))), "{keys:?}");
    assert!(keys.contains(&key_of(&text("The first, after a byte order mark."))), "{keys:?}");
}

#[tokio::test]
async fn a_headers_options_are_for_every_line_and_it_is_no_line_itself() {
    let world = World::new(&["create-503-refused=1"]).await;
    let header = json!({"gleaner": {"model": "from-header", "max_attempts": 2, "deadline": "3h",
        "request": {"system_instruction": "Be short."}}});
    let file = format!("\n{header}\n{}\n{}", text("One."), text("Two."));
    let landed = world.try_land("header.jsonl", file).await.unwrap();
    assert_eq!((landed.intake.lines, landed.bad_lines), (2, 0));
    let tally = world.until_over(&landed.intake.sha256).await.tally;
    assert_eq!((tally.jobs, tally.parked, tally.bad_lines), (2, 2, 0));
    for job in world.jobs().await {
        assert_eq!((job.model.as_str(), job.attempts, job.max_attempts), ("from-header", 2, 2));
        assert_eq!(job.deadline(), HOUR * 3);
    }
}

#[tokio::test]
async fn what_can_not_be_a_file_of_jobs_is_refused_and_nothing_is_sent() {
    let world = World::new(&[]).await;
    for (name, content, why) in [
        ("empty.jsonl", "", "the file is empty"),
        ("blank.jsonl", "\n  \r\n\n", "the file holds no jobs"),
        ("only-header.jsonl", r#"{"gleaner": {}}"#, "the file holds no jobs"),
        ("bad-option.jsonl", "{\"gleaner\": {\"modle\": 1}}\n{\"input\": \"a\"}\n", "gleaner.modle"),
        ("broken-header.jsonl", "{\"gleaner\": {\n{\"input\": \"a\"}\n", "broken-header.jsonl:1:"),
        (
            "call.jsonl",
            "{\"gleaner\": {\"mode\": \"call\", \"request\": {\"agent\": \"a\"}}}\n{\"input\": \"a\"}\n",
            "agents run as",
        ),
    ] {
        let error = world.try_land(name, content).await.unwrap_err();
        assert!(matches!(&error, LandError::Unusable(text) if text.contains(why) && text.contains(name)), "{error}");
    }
    world.tick().await;
    assert_eq!((world.revs().await.len(), world.requests("create").await), (0, 0));
}

#[tokio::test]
async fn a_small_concurrency_takes_every_line() {
    let mut maker = Maker::default();
    maker.settings.concurrency = 1;
    let world = World::with(&[], Config::default(), maker).await;
    let intake = world.land(lines(12)).await;
    let tally = world.until_over(&intake).await.tally;
    assert_eq!((tally.consumed, world.accepted().await), (12, 12));
}

#[tokio::test]
async fn a_person_who_stops_loses_nothing() {
    let world = World::with(&["create-delay=1"], Config { late: MINUTE, ..Config::default() }, Maker::default()).await;
    let intake = world.land(lines(60)).await;
    let engine = world.engine.clone();
    let stopping = Arc::clone(&engine.stopping);
    let ticking = tokio::spawn(async move { tick_of(&engine).await });
    eventually("its hands are full", async || world.accepted().await == 16).await;
    stopping.store(true, std::sync::atomic::Ordering::Relaxed);
    world.set_faults(&[]).await;
    world.advance(MINUTE);
    ticking.await.unwrap().unwrap();
    assert_eq!(world.accepted().await, 16, "nothing new is begun");
    assert!(world.jobs().await.iter().all(|job| job.state == State::Submitted));
    stopping.store(false, std::sync::atomic::Ordering::Relaxed);
    let tally = world.until_over(&intake).await.tally;
    assert_eq!((tally.consumed, tally.possible_duplicates, world.accepted().await), (60, 0, 60));
}

#[tokio::test]
async fn one_job_whose_file_is_gone_holds_up_neither_the_others_nor_new_work() {
    let world = World::with(&[], Config { polls_until_done: 0, ..Config::default() }, Maker::default()).await;
    let gone = world.land(text("whose file goes")).await;
    let stays = world.land(text("whose file stays")).await;
    world.tick().await;
    std::fs::remove_file(world.data().join(format!("intakes/{gone}.jsonl"))).unwrap();
    // Headers are read once a process; another one has to read the file.
    let engine = world.second();
    let new = world.try_land("new.jsonl", text("a new one")).await.unwrap().intake.sha256;
    world.advance(MINUTE);
    let trouble = tick_of(&engine).await.unwrap_err().to_string();
    assert!(trouble.contains(&gone), "{trouble}");
    assert_eq!(world.progress(&stays).await.tally.consumed, 1, "the others are collected");
    assert_eq!(world.progress(&new).await.tally.jobs, 1, "new lines are taken");
    assert_eq!(world.accepted().await, 3);
}

#[tokio::test]
async fn one_job_that_cannot_be_sent_again_keeps_no_new_line_from_being_taken() {
    let world = World::new(&["create-429=1"]).await;
    let files = [text("whose file goes"), json_line("of another model")].concat();
    let gone = world.land(files.replace("of another model\"", "of another model\", \"model\": \"m2\"")).await;
    world.tick().await;
    assert!(world.jobs().await.iter().all(|job| job.state == State::Retryable), "put aside for the gate");
    std::fs::remove_file(world.data().join(format!("intakes/{gone}.jsonl"))).unwrap();
    world.set_faults(&["create-429=0"]).await;
    let new = world.try_land("new.jsonl", text("a new one")).await.unwrap().intake.sha256;
    let engine = world.second();
    world.advance(HOUR);
    let trouble = tick_of(&engine).await.unwrap_err().to_string();
    assert!(trouble.contains(&gone), "{trouble}");
    for _ in 0..5 {
        world.advance(MINUTE);
        tick_of(&engine).await.unwrap_err();
    }
    assert_eq!(world.progress(&new).await.tally.jobs, 1, "new lines are taken");
}

#[tokio::test]
async fn a_long_file_is_recounted_as_the_ledger_counts_it() {
    let world = World::new(&[]).await;
    let mut file = lines(1203);
    file.push_str(&lines(3));
    file.push_str("no json\n");
    let intake = world.land(file).await;
    world.tick().await;
    let progress = world.progress(&intake).await;
    assert_eq!((progress.tally.jobs, progress.tally.repeats, progress.tally.bad_lines), (1203, 3, 1));
    world.check().await;
}

/// A source that has other bytes the second time.
struct Changing(AtomicUsize);

#[async_trait]
impl Source for Changing {
    fn shown(&self) -> String {
        "changing.jsonl".to_owned()
    }
    fn file(&self) -> String {
        self.shown()
    }
    async fn open(&self) -> Result<Reader, LandError> {
        let times = self.0.fetch_add(1, Ordering::SeqCst);
        Ok(Box::new(std::io::Cursor::new(text(&format!("version {times}")))))
    }
    fn broken(&self, error: std::io::Error) -> LandError {
        LandError::Unusable(error.to_string())
    }
}

#[tokio::test]
async fn a_file_that_changes_while_it_is_read_is_refused_and_leaves_nothing() {
    let world = World::new(&[]).await;
    let refused = land_from(&world.engine, &Changing(AtomicUsize::new(0)), None).await.unwrap_err().to_string();
    assert!(refused.contains("changing.jsonl: the file changed while it was being read"), "{refused}");
    assert!(world.objects("intakes").is_empty() && world.revs().await.is_empty());
}
