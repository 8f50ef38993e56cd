//! Making a pass: the pure rules of [`crate::domain::pass`] over objects, block by block and on every core.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use serde_json::Value;

use super::blocks::{Block, Blocks, LONGEST};
use super::feed::Outlet;
use crate::app::engine::{Engine, Trouble};
use crate::domain::part::{Counts, File, Intent, Part, Passed, Sending, object};
use crate::domain::pass::{self, Blame, Index, Judged, Oversized, Pass, PassError, Rows, Terms};
use crate::ports::objects::Objects;

/// What came of making one.
#[derive(Debug)]
pub enum Made {
    /// Its files are durable. They count once the part names them.
    Passed(Box<Passed>),
    /// The output has an outcome for so many rows, fewer than were announced. Nothing was written.
    TooFew(u64),
}

impl From<PassError> for Trouble {
    fn from(error: PassError) -> Self {
        Self::NeedsPerson(format!("a pass was stopped, and nothing of it counts: {error}"))
    }
}

/// Makes the pass that a part intends. Whoever makes it, and how often, the same files come of it.
///
/// # Errors
/// Trouble with the objects, or what only a person can mend: objects that are not what they were.
pub async fn make(engine: &Engine, part: &Part, intent: &Intent, expect: Option<Value>) -> Result<Made, Trouble> {
    Making::of(engine, part, intent, false)?.make(expect).await
}

/// The same where the object that the intent names doesn't hold Gemini's output, but outcomes that are known already: see
/// [`Index::known`].
///
/// # Errors
/// As [`make`].
pub(in crate::app) async fn make_known(engine: &Engine, part: &Part, intent: &Intent) -> Result<Made, Trouble> {
    Making::of(engine, part, intent, true)?.make(None).await
}

struct Making<'a> {
    engine: &'a Engine,
    part: &'a Part,
    intent: &'a Intent,
    sending: &'a Sending,
    name: String,
    known: bool,
}

/// The blocks of the input, as they were read first.
type Places = Vec<Range<u64>>;

impl<'a> Making<'a> {
    fn of(engine: &'a Engine, part: &'a Part, intent: &'a Intent, known: bool) -> Result<Self, Trouble> {
        let Some(sending) = part.attempt(intent.attempt) else {
            return Err(Trouble::NeedsPerson(format!("part {} has no attempt {}", part.part, intent.attempt)));
        };
        Ok(Self { engine, part, intent, sending, name: intent.name(&part.passes), known })
    }

    async fn make(&self, expect: Option<Value>) -> Result<Made, Trouble> {
        let (rows, places) = self.rows().await?;
        let (class, message) = self.intent.blame.clone();
        let terms = Terms {
            attempt: self.sending.tries,
            last: self.intent.last,
            late: self.intent.late,
            expect,
            missing: Blame { class, message, passing: true },
        };
        let index = Arc::new(Index::of(rows, terms)?);
        let mut pass = Pass::new(Arc::clone(&index));
        for passed in &self.part.passes {
            let object = passed.object(&self.part.run, &self.part.part, File::Settled);
            pass.settle(&self.engine.objects.get(&object).await?, passed.attempt)?;
        }
        let mut results = self.outlet(File::Results);
        let mut recovered = self.outlet(File::Recovered);
        let judged = match &self.intent.output {
            Some(output) => self.judge(&index, &mut pass, output, &mut results, &mut recovered).await,
            None => Ok(()),
        };
        if let Err(trouble) = judged {
            results.give_up().await;
            recovered.give_up().await;
            return Err(trouble);
        }
        let outcomes = pass.outcomes();
        if outcomes < self.intent.announced.min(self.sending.rows) {
            results.give_up().await;
            recovered.give_up().await;
            return Ok(Made::TooFew(outcomes));
        }
        let (retry, dead) = (self.outlet(File::Retry), self.outlet(File::Dead));
        let (pass, retry_bytes, dead_bytes) = self.rest(pass, places, retry, dead).await?;
        let outcome = pass.finish()?;
        let result_bytes = results.close().await?;
        let recovered_bytes = recovered.close().await?;
        let settled = object(&self.part.run, &self.part.part, self.intent.attempt, &self.name, File::Settled);
        self.engine.objects.put(&settled, Bytes::from(outcome.settled)).await?;
        let mut passed = self.passed(outcome.counts, retry_bytes, dead_bytes, recovered_bytes);
        if self.part.part.is_replay() {
            passed.result_bytes = result_bytes;
        }
        Ok(Made::Passed(Box::new(passed)))
    }

    fn outlet(&self, file: File) -> Outlet {
        let name = object(&self.part.run, &self.part.part, self.intent.attempt, &self.name, file);
        Outlet::new(&self.engine.objects, name)
    }

    /// The attempt's rows.
    async fn rows(&self) -> Result<(Rows, Places), Trouble> {
        let read = blocks(&self.engine.objects, &self.sending.rows_at).map(|block| async {
            match block? {
                Block::Lines { at, bytes } => {
                    let end = at + bytes.len() as u64;
                    let rows = on_a_core(move || Rows::read(at, &bytes)).await??;
                    Ok::<_, Trouble>((rows, at..end))
                }
                Block::Oversized { at, .. } => Err(Trouble::NeedsPerson(format!(
                    "{} has a line at byte {at} that is longer than any row",
                    self.sending.rows_at
                ))),
            }
        });
        let mut read = std::pin::pin!(read.buffered(cores()));
        let (mut all, mut places) = (Rows::default(), Places::new());
        while let Some((rows, place)) = read.try_next().await? {
            all.append(rows)?;
            places.push(place);
        }
        Ok((all, places))
    }

    /// Judges the output, and passes results on.
    async fn judge(
        &self,
        index: &Arc<Index>,
        pass: &mut Pass,
        output: &str,
        results: &mut Outlet,
        recovered: &mut Outlet,
    ) -> Result<(), Trouble> {
        let judged = blocks(&self.engine.objects, output).map(|block| {
            let index = Arc::clone(index);
            async move {
                let judging = Arc::clone(&index);
                let judged = match block? {
                    Block::Lines { at, bytes } if self.known => on_a_core(move || judging.known(at, &bytes)).await??,
                    Block::Lines { at, bytes } => on_a_core(move || judging.judge(at, &bytes)).await?,
                    Block::Oversized { at, length, head, tail } => judging.judge_oversized(&Oversized {
                        at,
                        length,
                        limit: LONGEST as u64,
                        head: &head,
                        tail: &tail,
                    }),
                };
                self.decide(&index, judged).await
            }
        });
        let mut judged = std::pin::pin!(judged.buffered(cores()));
        while let Some(judged) = judged.try_next().await? {
            let merged = pass.merge(judged)?;
            results.write(merged.results).await;
            recovered.write(merged.recovered).await;
        }
        Ok(())
    }

    /// Reads again what rows ask for, where that was too much to be kept.
    async fn decide(&self, index: &Arc<Index>, judged: Judged) -> Result<Judged, Trouble> {
        let places: Vec<Range<u64>> = index.undecided(&judged).collect();
        if places.is_empty() {
            return Ok(judged);
        }
        let mut lines = Vec::new();
        for place in places {
            lines.push(self.engine.objects.read(&self.sending.rows_at, place).await?);
        }
        let index = Arc::clone(index);
        Ok(on_a_core(move || index.decide(judged, &lines)).await??)
    }

    /// What goes out again and what is dead: the input once more, as far as it holds any of it.
    async fn rest(
        &self,
        mut pass: Pass,
        places: Places,
        mut retry: Outlet,
        mut dead: Outlet,
    ) -> Result<(Pass, u64, u64), Trouble> {
        for Range { start, end } in places {
            let rest = if pass.wants(start, end) {
                let block = self.engine.objects.read(&self.sending.rows_at, start..end).await?;
                let (back, rest) = on_a_core(move || {
                    let rest = pass.rest(start, &block);
                    (pass, rest)
                })
                .await?;
                pass = back;
                rest?
            } else {
                Pass::skip(start, end)
            };
            let (retry_lines, dead_lines) = pass.count(rest)?;
            retry.write(retry_lines).await;
            dead.write(dead_lines).await;
        }
        Ok((pass, retry.close().await?, dead.close().await?))
    }

    fn passed(&self, counts: pass::Counts, retry_bytes: u64, dead_bytes: u64, recovered_bytes: u64) -> Passed {
        Passed {
            attempt: self.intent.attempt,
            name: self.name.clone(),
            late: self.intent.late,
            without_output: self.intent.output.is_none(),
            counts: Counts {
                rows: counts.rows,
                succeeded: counts.succeeded,
                retry: counts.retry,
                dead: counts.dead,
                settled_before: counts.settled_before,
                recovered: counts.recovered,
                missing: counts.missing,
                duplicates: counts.duplicates,
                unknown: counts.unknown_keys,
                unreadable: counts.unreadable + counts.without_key,
            },
            classes: counts.dead_by_class,
            told: 0,
            dead_bytes,
            mended: 0,
            recovered_bytes,
            retry_bytes,
            healed: 0,
            result_bytes: 0,
        }
    }
}

/// The blocks of an object as a stream, read in order.
fn blocks(objects: &Arc<dyn Objects>, name: &str) -> impl futures::Stream<Item = Result<Block, Trouble>> + use<> {
    stream::try_unfold(Blocks::of(objects, name), |mut blocks| async move {
        Ok(blocks.next().await?.map(|block| (block, blocks)))
    })
}

/// How many blocks are under way at once: for each core one that it works on, and one that is being read.
fn cores() -> usize {
    std::thread::available_parallelism().map_or(2, |cores| cores.get().min(8)) * 2
}

/// Runs work that keeps a core busy where it holds up nothing else.
async fn on_a_core<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Trouble> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|error| Trouble::NeedsPerson(format!("a pass broke off, which is a fault of this program: {error}")))
}
