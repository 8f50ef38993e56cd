//! The table `rows`: a batch run, made as if it had been taken in and partly gone through.
//!
//! Rows of as many attempts make one part. Where the last attempt said something of them, the part has that attempt, and a
//! pass over it that was made like any other, of outcomes that are known; so results, dead letters and sums are where they
//! are in every run. The intake comes first and is no run to work on before all of its parts are there: it is `reading`,
//! and never due.

pub(super) mod prepare;

use std::path::Path;

use sha2::{Digest, Sha256};
use tokio::io::AsyncReadExt as _;
use tracing::info;

use self::prepare::{BadRow, Group, RowsPlan};
use super::{ImportError, Imported, stored};
use crate::app::batch::part::{Out, bring_on, planned};
use crate::app::batch::pass::{Made, make_known};
use crate::app::engine::{Engine, Trouble};
use crate::domain::intake::{Cursor, HELD_BY_IMPORT, Held, Intake, Run, run_key};
use crate::domain::item::{BadLine, Item, ItemId};
use crate::domain::job::{Job, MESSAGE_BYTES, State, clip};
use crate::domain::letter::Letter;
use crate::domain::moves::Now;
use crate::domain::part::{Intent, Part, PartId, Passed, Sending, attempt_key};
use crate::ports::ledger::CreateError;

/// Why a run is held that has open rows.
const WHY_HELD: &str = "its rows may be in a batch that the script has sent and not reconciled: let that end and reconcile \
                        it by the script, and import again into a new folder; or, when none is under way, let the run go on";

/// How often a part is brought on at most until its dead letters are made: each time does one thing.
const STEPS: usize = 4;

pub(super) async fn import(
    engine: &Engine,
    plan: RowsPlan,
    file: &str,
    imported: &mut Imported,
) -> Result<(), ImportError> {
    let (sha256, _) = stored(engine, &plan.intake_at).await?;
    let (intake, is_whole) = intake(engine, &plan, &sha256, file).await?;
    let Some(run) = intake.run.clone() else {
        return Err(Trouble::NeedsPerson(format!("the intake {sha256} is there already, and is no run")).into());
    };
    imported.run = Some(run.key.clone());
    if is_whole {
        // It may have broken off on the way.
        imported.unfinished = tell(engine, &run, run.parts).await?;
        imported.held = run.held.is_some();
        imported.rows = [("before", plan.outcomes.values().sum())].into();
        return Ok(());
    }
    for bad in &plan.bad {
        bad_line(engine, bad, &intake).await?;
    }
    for (number, group) in (1..).zip(&plan.groups) {
        part(engine, &intake, &run, PartId::numbered(number), group).await?;
    }
    let parts = u32::try_from(plan.groups.len()).unwrap_or(u32::MAX);
    let change = |intake: &mut Intake, now: Now<'_>| {
        let Some(run) = intake.run.as_mut().filter(|_| intake.state == State::Reading) else { return false };
        run.parts = parts;
        intake.state = State::Read;
        intake.since = now.at;
        intake.due_at = None;
        true
    };
    let intake = engine.settle_intake(intake, change).await?;
    imported.held = intake.run.as_ref().is_some_and(|run| run.held.is_some());
    imported.unfinished = tell(engine, &run, parts).await?;
    info!(run = run.key, parts, "taken over");
    imported.rows = plan.outcomes;
    Ok(())
}

/// The intake's item, made if it isn't there; and whether the whole run is there.
async fn intake(engine: &Engine, plan: &RowsPlan, sha256: &str, file: &str) -> Result<(Intake, bool), Trouble> {
    let now = engine.clock.now();
    let settings = &engine.settings;
    let is_open = ["pending", "retryable"].iter().any(|state| plan.outcomes.contains_key(state));
    let held = is_open.then(|| Held { class: HELD_BY_IMPORT.to_owned(), message: WHY_HELD.to_owned(), since: now });
    let lines = plan.lines.saturating_sub(1);
    let fresh = Intake {
        sha256: sha256.to_owned(),
        rev: engine.rev(),
        state: State::Reading,
        since: now,
        // Nobody but an import makes its parts.
        due_at: None,
        lease: None,
        file: file.to_owned(),
        bytes: plan.bytes,
        lines,
        landed_at: now,
        mixed: false,
        mode: None,
        calls: false,
        on_result: None,
        run: Some(Run {
            key: run_key(sha256),
            model: settings.model.clone(),
            max_attempts: settings.max_attempts,
            deadline_s: settings.deadline.as_secs().max(1),
            parts: 0,
            held,
            let_go: Vec::new(),
        }),
        cancelled: None,
        cursor: end_of(plan),
    };
    match engine.create(&Item::Intake(fresh.clone())).await {
        Ok(()) => Ok((fresh, false)),
        Err(CreateError::Exists(found)) => match *found {
            Item::Intake(found) => {
                let is_whole = found.state != State::Reading || found.due_at.is_some();
                Ok((found, is_whole))
            }
            other => Err(Trouble::NeedsPerson(format!("the ledger item {} is no intake", other.id()))),
        },
        Err(CreateError::Ledger(error)) => Err(error.into()),
    }
}

/// Behind the last line.
fn end_of(plan: &RowsPlan) -> Cursor {
    Cursor { offset: plan.bytes, line: plan.lines, jobs: plan.rows, repeats: 0, bad_lines: plan.bad.len() as u64 }
}

async fn bad_line(engine: &Engine, bad: &BadRow, intake: &Intake) -> Result<(), Trouble> {
    let now = engine.clock.now();
    let mut place = bad.place.clone();
    place.intake.clone_from(&intake.sha256);
    let item = BadLine {
        rev: engine.rev(),
        state: State::Parked,
        since: now,
        due_at: Some(now),
        input: place,
        file: intake.file.clone(),
        class: bad.error.class.to_owned(),
        message: clip(&bad.error.message, MESSAGE_BYTES),
        excerpt: bad.excerpt.clone(),
        first_seen: now,
        letter: Letter::default(),
    };
    match engine.create(&Item::BadLine(item)).await {
        Ok(()) | Err(CreateError::Exists(_)) => Ok(()),
        Err(CreateError::Ledger(error)) => Err(error.into()),
    }
}

/// Makes a part of rows that have used as many attempts.
async fn part(engine: &Engine, intake: &Intake, run: &Run, id: PartId, group: &Group) -> Result<(), ImportError> {
    let name = format!("runs/{}/{id}.import.{}.jsonl", run.key, digest_of(&group.lines_at).await?);
    put(engine, &name, &group.lines_at).await?;
    let now = engine.clock.now();
    let mut part = Part {
        run: run.key.clone(),
        part: id,
        rev: engine.rev(),
        state: State::Waiting,
        since: now,
        due_at: Some(now),
        lease: None,
        intake: intake.sha256.clone(),
        model: run.model.clone(),
        rows_at: name,
        rows: group.rows,
        bytes: group.bytes,
        upto: Some(intake.cursor),
        used: group.tried,
        granted: 0,
        replays: 0,
        maybe_paid: false,
        of_group: None,
        by_call: false,
        attempts: Vec::new(),
        intent: None,
        passes: Vec::new(),
        halved: false,
        discarded: 0,
    };
    if let Some(known_at) = &group.known_at {
        // The attempt that brought what is known.
        part.used = group.tried.saturating_sub(1);
        part.attempts.push(Sending {
            number: 1,
            rows_at: part.rows_at.clone(),
            rows: part.rows,
            bytes: part.bytes,
            tries: group.tried,
            free: false,
            ended: None,
        });
        let passed = pass(engine, run, &part, known_at).await?;
        part.passes.push(passed);
    }
    let fresh = part.clone();
    match engine.create(&Item::Part(Box::new(part))).await {
        Ok(()) => Ok(()),
        Err(CreateError::Exists(found)) => match *found {
            Item::Part(found) if is_same(&found, &fresh) => Ok(()),
            other => Err(Trouble::NeedsPerson(format!(
                "the ledger item {} is of an import of this file that broke off, and the file has changed since. Nothing of \
                 that run is sent; cancel it (gleaner cancel {}), and import the file into another data folder",
                other.id(),
                intake.sha256
            ))
            .into()),
        },
        Err(CreateError::Ledger(error)) => Err(Trouble::from(error).into()),
    }
}

/// Whether a part is there that was made of the same; what it has come to since is its own matter.
fn is_same(found: &Part, fresh: &Part) -> bool {
    let first = |part: &Part| part.passes.first().map(|passed| passed.name.clone());
    found.rows_at == fresh.rows_at && (fresh.passes.is_empty() || first(found) == first(fresh))
}

/// The pass over what is known, and the closed job of the attempt that it is of.
async fn pass(engine: &Engine, run: &Run, part: &Part, known_at: &Path) -> Result<Passed, ImportError> {
    let key = attempt_key(&part.run, &part.part, 1);
    let known = format!("answers/{key}.import.{}.jsonl", digest_of(known_at).await?);
    put(engine, &known, known_at).await?;
    let missing = "the script says nothing of it".to_owned();
    let intent = Intent {
        attempt: 1,
        output: Some(known.clone()),
        download: 0,
        late: false,
        blame: ("missing".to_owned(), missing),
        announced: 0,
        last: false,
    };
    let Made::Passed(passed) = make_known(engine, part, &intent).await? else {
        return Err(Trouble::NeedsPerson("a pass over known outcomes came short of them".to_owned()).into());
    };
    if let Some(sending) = part.latest() {
        let mut job: Job = planned(engine, part, run, sending);
        job.attempts = 1;
        job.answer = Some(known);
        job.enter(State::Consumed, None, engine.clock.now());
        match engine.create(&Item::Job(job)).await {
            Ok(()) | Err(CreateError::Exists(_)) => {}
            Err(CreateError::Ledger(error)) => return Err(Trouble::from(error).into()),
        }
    }
    Ok(*passed)
}

/// Makes the dead letters of dead rows, as a tick would. True: somebody else is at it, or was ended in the middle, and a
/// tick makes the rest when that one's lease is over.
async fn tell(engine: &Engine, run: &Run, parts: u32) -> Result<bool, Trouble> {
    let mut unfinished = false;
    for number in 1..=parts {
        let id = ItemId::part(&run.key, &PartId::numbered(number));
        for _ in 0..STEPS {
            let Some(Item::Part(part)) = engine.ledger.get(&id).await? else { break };
            let is_told = part.passes.iter().all(Passed::is_told);
            let is_at_work = part.is_out() || part.intent.is_some() || part.rows_left().is_some();
            let is_leased = part.lease.as_ref().is_some_and(|lease| lease.until > engine.clock.now());
            if is_leased || (is_told && (part.state.is_closed() || is_at_work)) {
                unfinished |= !is_told;
                break;
            }
            bring_on(engine, *part, &mut Out::default()).await?;
        }
    }
    Ok(unfinished)
}

/// The first digits of a file's sha256.
async fn digest_of(path: &Path) -> Result<String, ImportError> {
    let mut file = tokio::fs::File::open(path).await?;
    let (mut hash, mut buffer) = (Sha256::new(), vec![0; 1 << 20]);
    loop {
        let read = file.read(&mut buffer).await?;
        let fresh = buffer.get(..read).unwrap_or_default();
        if fresh.is_empty() {
            return Ok(hex::encode(hash.finalize()).chars().take(12).collect());
        }
        hash.update(fresh);
    }
}

async fn put(engine: &Engine, name: &str, path: &Path) -> Result<(), ImportError> {
    let mut file = tokio::fs::File::open(path).await?;
    engine.objects.put_stream(name, &mut file).await.map_err(Trouble::from)?;
    Ok(())
}
