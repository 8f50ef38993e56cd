//! What stands for a row where its key is too long to be kept.

use std::fmt;

use sha2::{Digest, Sha256};

/// What stands for a key in memory and in `settled` objects: the first 16 bytes of its text's sha256.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyName(pub [u8; 16]);

impl KeyName {
    /// The name of a key.
    #[must_use]
    pub fn of(key: &str) -> Self {
        Self::of_bytes(key.as_bytes())
    }

    /// The name of a key whose bytes are UTF-8.
    pub(super) fn of_bytes(key: &[u8]) -> Self {
        Self(first_half(Sha256::digest(key).into()))
    }

    /// Where a table of `2^bits` places would put it.
    pub(super) fn place(self, bits: u32) -> usize {
        let [a, b, c, d, e, f, g, h, ..] = self.0;
        let spread = u64::from_be_bytes([a, b, c, d, e, f, g, h]);
        // The table is never larger than memory, so the number fits.
        usize::try_from(spread >> (64 - bits.clamp(1, 63))).unwrap_or(usize::MAX)
    }
}

impl fmt::Display for KeyName {
    /// 32 hex digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

/// The name of a dead row's item: 32 hex digits of sha256 over its run, its key and the attempt in which it died.
/// Each text goes in with its length, so that no two of them can run into one another.
#[must_use]
pub fn row_id(run: &str, key: &str, attempt: u32) -> String {
    let mut hash = Sha256::new();
    hash.update(b"gleaner row\0");
    for text in [run, key] {
        hash.update((text.len() as u64).to_be_bytes());
        hash.update(text.as_bytes());
    }
    hash.update(attempt.to_be_bytes());
    hex::encode(first_half(hash.finalize().into()))
}

fn first_half(digest: [u8; 32]) -> [u8; 16] {
    let mut half = [0; 16];
    half.iter_mut().zip(digest).for_each(|(to, from)| *to = from);
    half
}
