//! Which parts and attempts a row was in.

use std::sync::Arc;

use super::Settling;
use super::look::find_line;
use crate::app::engine::Trouble;
use crate::domain::part::{Part, Sending};
use crate::domain::pass::SettledAs;
use crate::ports::objects::Objects;

/// A part with its halves and those of its replayed rows, one of whose rows is looked for.
pub(super) struct Family<'a> {
    pub objects: &'a Arc<dyn Objects>,
    /// The part, then its halves, each before its own; then those of its replayed rows, oldest first.
    pub parts: &'a [Part],
    /// Where the row was settled.
    pub settlings: Vec<Settling<'a>>,
    pub key: &'a str,
}

impl<'a> Family<'a> {
    /// The pass that settled the row so, the last one: a row that is replayed may die again.
    pub fn settled_as(&self, settled: SettledAs) -> Option<&Settling<'a>> {
        self.settlings.iter().rfind(|settling| settling.settled == settled)
    }

    /// Whether a replay has the row, and hasn't settled it.
    pub fn is_open_in(&self, part: &Part) -> bool {
        let whole = part.part.whole();
        whole.is_replay() && !self.settlings.iter().any(|settling| settling.part.part.whole() == whole)
    }

    /// The parts that the row was in: the part, each of its replays, and a half of each that was halved while it was open.
    pub async fn parts_with_row(&self) -> Result<Vec<&'a Part>, Trouble> {
        let mut with = Vec::new();
        for parts in self.parts.chunk_by(|part, next| part.part.whole() == next.part.whole()) {
            if let Some(whole) = parts.first()
                && (!whole.part.is_replay() || self.is_in_replay(whole).await?)
            {
                with.push(whole);
                self.add_halves(&mut with).await?;
            }
        }
        Ok(with)
    }

    async fn is_in_replay(&self, whole: &Part) -> Result<bool, Trouble> {
        if whole.rows == 0 {
            return Ok(false);
        }
        Ok(!self.is_open_in(whole) || self.has_row(&whole.rows_at).await?)
    }

    async fn add_halves(&self, with: &mut Vec<&'a Part>) -> Result<(), Trouble> {
        while let Some(whole) = with.last().filter(|whole| whole.halved) {
            let halves = whole.part.halves();
            let mut next = None;
            for half in self.parts.iter().filter(|part| halves.contains(&part.part)) {
                if self.is_in_half(whole, half).await? {
                    next = Some(half);
                    break;
                }
            }
            match next {
                Some(half) => with.push(half),
                None => break,
            }
        }
        Ok(())
    }

    async fn is_in_half(&self, whole: &Part, half: &Part) -> Result<bool, Trouble> {
        if self.settlings.iter().any(|settling| settling.part.part.is_within(&half.part)) {
            return Ok(true);
        }
        // A part is halved when its latest attempt is over: what was settled in time is in no half of it.
        if self.settlings.iter().any(|settling| settling.part.part == whole.part && !settling.passed.late) {
            return Ok(false);
        }
        self.has_row(&half.rows_at).await
    }

    /// The attempts of a part with the row that the row was in.
    pub async fn attempts_of(&self, part: &'a Part) -> Result<Vec<&'a Sending>, Trouble> {
        let own = || self.settlings.iter().filter(|settling| settling.part.part == part.part);
        let mut attempts = Vec::new();
        for sending in &part.attempts {
            let is_in = if own().any(|settling| settling.passed.attempt >= sending.number) {
                true
            } else if own().any(|settling| !settling.passed.late) {
                false
            } else if own().next().is_none() {
                // Every attempt has what is open, and it was open as long as it was in this part.
                true
            } else {
                // A late result settled it: before or after this attempt was made.
                self.has_row(&sending.rows_at).await?
            };
            if is_in {
                attempts.push(sending);
            }
        }
        Ok(attempts)
    }

    async fn has_row(&self, object: &str) -> Result<bool, Trouble> {
        Ok(find_line(self.objects, object, self.key).await?.is_some())
    }
}
