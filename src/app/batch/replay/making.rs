//! A part of replayed rows while it is made: first an empty one under a lease, then its rows, then it is finished under its
//! rev. Who loses it has put no row anywhere: a part that is never finished is settled with nothing in it.

use bytes::Bytes;
use tracing::info;

use crate::app::batch::feed::Outlet;
use crate::app::batch::items;
use crate::app::engine::{Engine, Trouble};
use crate::domain::item::Item;
use crate::domain::job::{Lease, State};
use crate::domain::moves::Now;
use crate::domain::part::{Part, PartId};
use crate::domain::time::Millis;
use crate::ports::ledger::CreateError;

/// What the rows of a part have in common.
#[derive(Debug, Clone)]
pub(super) struct Alike<'a> {
    pub run: &'a str,
    pub root: PartId,
    /// Attempts that they have used.
    pub used: u32,
    /// Another model.
    pub model: Option<&'a str>,
    pub maybe_paid: bool,
    /// The class of the group that they had their dead letter in.
    pub of_group: Option<&'a str>,
    /// Whether they go out as plain calls.
    pub by_call: bool,
}

/// A part that is being made here.
#[derive(Debug)]
pub(super) struct Making<'a> {
    engine: &'a Engine,
    part: Part,
    rows: u64,
    outlet: Outlet,
    lost: bool,
}

impl<'a> Making<'a> {
    /// Begins one, empty and leased. Its number is taken from its root first, so that no two have the same.
    pub async fn begin(engine: &'a Engine, alike: &Alike<'_>) -> Result<Self, Trouble> {
        let count = |part: &mut Part, _: Now<'_>| {
            part.replays = part.replays.saturating_add(1);
            true
        };
        let root = items::settle(engine, alike.run, &alike.root, count).await?;
        let id = root.part.replay(root.replays);
        let now = engine.now();
        let until = now.policy.lease_from(now.at);
        let part = Part {
            rev: engine.rev(),
            state: State::Waiting,
            since: now.at,
            due_at: Some(until),
            lease: Some(Lease { holder: engine.ids.token(), until }),
            model: alike.model.map_or_else(|| root.model.clone(), str::to_owned),
            rows_at: String::new(),
            rows: 0,
            bytes: 0,
            upto: None,
            used: alike.used,
            granted: alike.used,
            replays: 0,
            maybe_paid: alike.maybe_paid,
            of_group: alike.of_group.map(str::to_owned),
            by_call: alike.by_call,
            attempts: Vec::new(),
            intent: None,
            passes: Vec::new(),
            halved: false,
            discarded: 0,
            run: root.run,
            intake: root.intake,
            part: id,
        };
        match engine.create(&Item::Part(Box::new(part.clone()))).await {
            Ok(()) => {}
            Err(CreateError::Exists(found)) => {
                return Err(Trouble::NeedsPerson(format!(
                    "{} is in the ledger although nobody may have made it; nothing was replayed",
                    found.id()
                )));
            }
            Err(CreateError::Ledger(error)) => return Err(error.into()),
        }
        let outlet = Outlet::new(&engine.objects, format!("runs/{}/{}.jsonl", part.run, part.part));
        Ok(Self { engine, part, rows: 0, outlet, lost: false })
    }

    pub fn part(&self) -> &Part {
        &self.part
    }

    /// When its lease ends.
    pub fn until(&self) -> Millis {
        self.part.lease.as_ref().map_or(Millis(0), |lease| lease.until)
    }

    /// Keeps the lease. False: the part is somebody else's by now, and nothing more is to be done for it.
    pub async fn stay(&mut self) -> Result<bool, Trouble> {
        let now = self.engine.now();
        if self.lost || self.until().since(now.at) > now.policy.submit_lease / 3 * 2 {
            return Ok(!self.lost);
        }
        let until = now.policy.lease_from(now.at);
        let mut next = self.part.clone();
        next.due_at = Some(until);
        if let Some(lease) = &mut next.lease {
            lease.until = until;
        }
        match items::replace(self.engine, &self.part, next).await? {
            Some(part) => self.part = part,
            None => self.lost = true,
        }
        Ok(!self.lost)
    }

    /// Puts a row's line in.
    pub async fn put(&mut self, line: impl Into<Bytes>) {
        self.rows += 1;
        self.outlet.write(line).await;
    }

    /// Finishes it: its rows go out. False: it was somebody else's by then, and its rows are in no part.
    pub async fn finish(self) -> Result<bool, Trouble> {
        if self.lost {
            self.outlet.give_up().await;
            return Ok(false);
        }
        let bytes = self.outlet.close().await?;
        let now = self.engine.clock.now();
        let mut next = self.part.clone();
        next.rows_at = format!("runs/{}/{}.jsonl", next.run, next.part);
        next.rows = self.rows;
        next.bytes = bytes;
        if self.rows == 0 {
            // All of its rows were settled meanwhile.
            next.enter(State::Settled, None, now);
        } else {
            next.enter(State::Waiting, Some(now), now);
        }
        let finished = items::replace(self.engine, &self.part, next).await?;
        if let Some(part) = &finished {
            info!(run = part.run, part = %part.part, part.rows = part.rows, part.model = part.model, "rows are replayed");
        }
        Ok(finished.is_some())
    }

    /// Nothing is to go into it after all.
    pub async fn give_up(self) -> Result<(), Trouble> {
        self.outlet.give_up().await;
        let mut next = self.part.clone();
        next.enter(State::Discarded, None, self.engine.clock.now());
        items::replace(self.engine, &self.part, next).await.map(drop)
    }
}
