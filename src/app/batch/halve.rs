//! Halving a part that Gemini will not take whole (design, section 5).

use tracing::warn;

use super::blocks::{Block, Blocks};
use super::feed::Outlet;
use super::items;
use crate::app::engine::{Engine, Trouble};
use crate::domain::item::Item;
use crate::domain::job::State;
use crate::domain::part::{Part, Rows};
use crate::ports::ledger::CreateError;

/// Makes two parts of the open rows of one, each with half of them; the whole is settled with what it has settled itself.
/// That it is halved is written first: whatever comes between, a cancel too, the halves are made and then go their own way.
///
/// # Errors
/// Trouble; it is made again.
pub(super) async fn halve(engine: &Engine, mut part: Part, rows: &Rows) -> Result<bool, Trouble> {
    if !part.halved {
        let mut next = part.clone();
        next.halved = true;
        match items::replace(engine, &part, next).await? {
            Some(halved) => part = halved,
            None => return Ok(false),
        }
    }
    let first = rows.rows / 2;
    let ids = part.part.halves();
    let names = ids.each_ref().map(|id| format!("runs/{}/{id}.jsonl", part.run));
    let [mut left, mut right] = names.each_ref().map(|name| Outlet::new(&engine.objects, name.clone()));
    let mut blocks = Blocks::of(&engine.objects, &rows.at);
    let mut seen = 0;
    while let Some(block) = blocks.next().await? {
        let Block::Lines { bytes, .. } = block else {
            return Err(Trouble::NeedsPerson(format!("{} has a line that is longer than any row", rows.at)));
        };
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            if line.trim_ascii().is_empty() {
                continue;
            }
            let side = if seen < first { &mut left } else { &mut right };
            side.write(bytes.slice_ref(line)).await;
            seen += 1;
        }
    }
    if seen != rows.rows {
        left.give_up().await;
        right.give_up().await;
        return Err(Trouble::NeedsPerson(format!("{} has {seen} rows where {} were", rows.at, rows.rows)));
    }
    let bytes = [left.close().await?, right.close().await?];
    let now = engine.clock.now();
    let counts = [first, rows.rows - first];
    for (((id, name), bytes), rows) in ids.into_iter().zip(names).zip(bytes).zip(counts) {
        let half = Part {
            part: id,
            rev: engine.rev(),
            state: State::Waiting,
            since: now,
            due_at: Some(now),
            lease: None,
            rows_at: name,
            rows,
            bytes,
            upto: None,
            used: part.tries(),
            granted: part.granted,
            replays: 0,
            maybe_paid: part.maybe_paid,
            of_group: part.of_group.clone(),
            by_call: part.by_call,
            attempts: Vec::new(),
            intent: None,
            passes: Vec::new(),
            halved: false,
            discarded: 0,
            run: part.run.clone(),
            intake: part.intake.clone(),
            model: part.model.clone(),
        };
        match engine.create(&Item::Part(Box::new(half))).await {
            Ok(()) | Err(CreateError::Exists(_)) => {}
            Err(CreateError::Ledger(error)) => return Err(error.into()),
        }
    }
    warn!(run = part.run, part = %part.part, rows = rows.rows, "Gemini does not take it whole: it goes out in halves");
    let mut next = part.clone();
    next.enter(State::Settled, None, now);
    Ok(items::replace(engine, &part, next).await?.is_some())
}
