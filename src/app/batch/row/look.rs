//! Looking for a row in objects.

use memchr::memmem;

use super::Settling;
use crate::app::batch::blocks::{Blocks, broken};
use crate::app::engine::Trouble;
use crate::domain::part::{File, Part};
use crate::domain::pass::find::lines;
use crate::domain::pass::{KeyName, read_settled};
use crate::ports::objects::Objects;

/// A line that has the key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line {
    pub at: u64,
    pub line: String,
}

/// The first line of an object with that key.
pub(super) async fn find_line(objects: &dyn Objects, object: &str, key: &str) -> Result<Option<Line>, Trouble> {
    Ok(find_lines(objects, object, key, 1).await?.pop())
}

/// The first lines of an object with that key, `most` at most.
pub(super) async fn find_lines(
    objects: &dyn Objects,
    object: &str,
    key: &str,
    most: usize,
) -> Result<Vec<Line>, Trouble> {
    let finder = is_always_written_so(key).then(|| memmem::Finder::new(key));
    let mut found = Vec::new();
    let mut blocks = Blocks::of(objects, object);
    while let Some(block) = blocks.next().await? {
        if finder.as_ref().is_some_and(|finder| finder.find(&block.bytes).is_none()) {
            continue;
        }
        for line in block.lines() {
            if finder.as_ref().is_some_and(|finder| finder.find(line.bytes).is_none()) {
                continue;
            }
            found.extend(lines(line.at, line.bytes, key).map(|one| Line { at: one.at, line: one.line.to_owned() }));
            if found.len() >= most {
                found.truncate(most);
                return Ok(found);
            }
        }
    }
    Ok(found)
}

/// Whether nobody who writes JSON writes it in another way, so that lines without it need no closer look.
fn is_always_written_so(key: &str) -> bool {
    !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.:# ".contains(&byte))
}

/// The passes of these parts that settled the row, in the order in which they count.
pub(super) async fn settled_in<'a>(
    objects: &dyn Objects,
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
pub(super) async fn may_be_open_in(objects: &dyn Objects, parts: &[Part], key: &str) -> Result<bool, Trouble> {
    let Some(whole) = parts.first() else { return Ok(false) };
    let settled: u64 = parts
        .iter()
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
