//! Looking for a row in objects.

use std::sync::Arc;

use memchr::memmem;

use super::Settling;
use crate::app::batch::lines::{LinesOf, broken};
use crate::app::engine::Trouble;
use crate::domain::part::{File, Part};
use crate::domain::pass::find::lines;
use crate::domain::pass::{KeyName, read_settled};
use crate::ports::objects::Objects;

/// A line that has the key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::app::batch) struct Line {
    pub at: u64,
    pub line: String,
}

/// The line with that key of an object that this program wrote.
pub(in crate::app::batch) async fn find_line(
    objects: &Arc<dyn Objects>,
    object: &str,
    key: &str,
) -> Result<Option<Line>, Trouble> {
    first_line(LinesOf::own(objects, object), key).await
}

/// The first line with that key of Gemini's raw output.
pub(super) async fn find_outcome(objects: &Arc<dyn Objects>, object: &str, key: &str) -> Result<Option<Line>, Trouble> {
    first_line(LinesOf::raw(objects, object), key).await
}

async fn first_line(mut object: LinesOf, key: &str) -> Result<Option<Line>, Trouble> {
    let finder = is_always_written_so(key).then(|| memmem::Finder::new(key));
    while let Some(some) = object.next().await? {
        if finder.as_ref().is_some_and(|finder| finder.find(some.bytes()).is_none()) {
            continue;
        }
        for line in some.iter() {
            if finder.as_ref().is_some_and(|finder| finder.find(line.bytes).is_none()) {
                continue;
            }
            if let Some(found) = lines(line.at, line.bytes, key).next() {
                return Ok(Some(Line { at: found.at, line: found.line.to_owned() }));
            }
        }
    }
    Ok(None)
}

/// Whether nobody who writes JSON writes it in another way, so that lines without it need no closer look.
fn is_always_written_so(key: &str) -> bool {
    !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.:# ".contains(&byte))
}

/// The passes of these parts that settled the row, in the order in which they count.
pub(in crate::app::batch) async fn settled_in<'a>(
    objects: &Arc<dyn Objects>,
    parts: &'a [Part],
    key: &str,
) -> Result<Vec<Settling<'a>>, Trouble> {
    let name = KeyName::of(key);
    let mut settlings = Vec::new();
    for part in parts {
        for passed in part.passes.iter().filter(|passed| passed.counts.succeeded + passed.counts.dead > 0) {
            let object = passed.object(&part.run, &part.part, File::Settled);
            let bytes = objects.get(&object).await?;
            let rows = read_settled(&bytes).map_err(|why| broken(&object, 0, &why))?;
            let mut rows = rows.filter(|(row, _)| *row == name);
            settlings.extend(rows.next().map(|(_, settled)| Settling { part, passed, settled }));
        }
    }
    Ok(settlings)
}

/// Whether the row is one of these parts', which no pass has settled.
pub(super) async fn may_be_open_in(objects: &Arc<dyn Objects>, parts: &[Part], key: &str) -> Result<bool, Trouble> {
    let Some(whole) = parts.first() else { return Ok(false) };
    let settled: u64 = parts
        .iter()
        // What a replay settles was settled before, as dead.
        .filter(|part| !part.part.is_replay())
        .map(|part| {
            let tally = part.tally();
            tally.succeeded + tally.recovered + tally.dead
        })
        .sum();
    if settled >= whole.rows {
        return Ok(false);
    }
    Ok(find_line(objects, &whole.rows_at, key).await?.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_may_be_escaped_are_looked_for_in_every_line() {
        for (key, plain) in [("row-1 a", true), ("", false), ("日本", false), ("a/b", false), ("a<b", false)] {
            assert_eq!(is_always_written_so(key), plain, "{key}");
        }
    }
}
