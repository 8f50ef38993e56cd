//! `settled` objects: which rows of a part a pass settled. Binary, 16 bytes a row.
//!
//! `gleaner settled 1\n`, the numbers of rows that succeeded and that died (8 bytes each, the highest first), then
//! their names, those that succeeded first, each kind in the order of the attempt's input.

use super::name::KeyName;

const MAGIC: &[u8] = b"gleaner settled 1\n";
const NAME: usize = 16;

/// What an earlier pass made of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// It has a result.
    Succeeded,
    /// It is dead.
    Died,
}

/// The object of those rows.
pub(super) fn write(succeeded: impl Iterator<Item = KeyName>, died: impl Iterator<Item = KeyName>) -> Vec<u8> {
    let head = MAGIC.len() + 16;
    let mut object = vec![0; head];
    let mut counts = [0_u64; 2];
    let [good, dead] = &mut counts;
    for name in succeeded {
        *good += 1;
        object.extend_from_slice(&name.0);
    }
    for name in died {
        *dead += 1;
        object.extend_from_slice(&name.0);
    }
    let front: Vec<u8> = MAGIC.iter().copied().chain(counts.into_iter().flat_map(u64::to_be_bytes)).collect();
    object.iter_mut().zip(front).for_each(|(to, from)| *to = from);
    object
}

/// The rows of an object.
///
/// # Errors
/// What is wrong with it, in words.
pub fn read(object: &[u8]) -> Result<impl Iterator<Item = (KeyName, Kind)> + '_, String> {
    let rest = object.strip_prefix(MAGIC).ok_or("it does not begin as such a list of this version does")?;
    let (good, rest) = rest.split_first_chunk::<8>().ok_or("it is cut")?;
    let (dead, rest) = rest.split_first_chunk::<8>().ok_or("it is cut")?;
    let (good, dead) = (u64::from_be_bytes(*good), u64::from_be_bytes(*dead));
    let (names, extra) = rest.as_chunks::<NAME>();
    let announced = good.checked_add(dead);
    if !extra.is_empty() || announced != Some(names.len() as u64) {
        return Err(format!("it announces {good} and {dead} rows and has {} bytes of names", rest.len()));
    }
    Ok((0..)
        .zip(names)
        .map(move |(number, name)| (KeyName(*name), if number < good { Kind::Succeeded } else { Kind::Died })))
}
