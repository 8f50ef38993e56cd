//! The folder in which the simulator keeps files: those that were uploaded, and what batches read and write.
//!
//! Beside a journal, so that files outlive the process and are shared with others on the same journal; else a
//! temporary folder. Everything about a file is on disk and nothing in memory, however large it is.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

use super::super::faults::hash;
use crate::domain::job::KeyId;
use crate::domain::time::Millis;

/// How long Gemini keeps an uploaded file.
pub(in super::super) const KEPT: Duration = Duration::from_secs(48 * 3600);
/// The ending of a file's description, which makes the file be there.
const DESCRIBED: &str = "file.json";

/// An uploaded file, or one that is being uploaded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in super::super) struct Stored {
    pub(in super::super) id: String,
    pub(in super::super) display_name: Option<String>,
    pub(in super::super) mime: String,
    /// What it weighs, or what the start of its upload announced.
    pub(in super::super) bytes: Option<u64>,
    pub(in super::super) created: Millis,
    pub(in super::super) key: KeyId,
    /// Of the bytes, once all are there.
    pub(in super::super) sha256: Option<String>,
}

#[derive(Debug)]
pub(in super::super) struct Shelf {
    folder: PathBuf,
    /// Removes the folder in the end.
    _temporary: Option<TempDir>,
    seed: u64,
    writer: String,
    given: AtomicU64,
}

impl Shelf {
    /// Beside that journal, or in a temporary folder.
    pub(in super::super) fn open(journal: Option<&Path>, seed: u64, writer: &str) -> io::Result<Self> {
        let (folder, temporary) = match journal {
            Some(journal) => {
                let mut folder = journal.as_os_str().to_owned();
                folder.push(".files");
                (PathBuf::from(folder), None)
            }
            None => {
                let temporary = tempfile::tempdir()?;
                (temporary.path().to_owned(), Some(temporary))
            }
        };
        fs::create_dir_all(&folder)?;
        Ok(Self { folder, _temporary: temporary, seed, writer: writer.to_owned(), given: AtomicU64::new(0) })
    }

    /// Where the file `id` has its part `what`.
    pub(in super::super) fn path(&self, id: &str, what: &str) -> PathBuf {
        self.folder.join(format!("{id}.{what}"))
    }

    /// Begins an upload, under an id of its own unless it has one.
    ///
    /// # Errors
    /// `AlreadyExists` when there is a file, or an upload, of the id that was asked for.
    pub(in super::super) fn begin(&self, mut file: Stored) -> io::Result<Stored> {
        let asked = !file.id.is_empty();
        loop {
            if !asked {
                let count = self.given.fetch_add(1, Ordering::Relaxed);
                file.id = letters(|part| hash(self.seed, &format!("file/{}", self.writer), count, &[part]), 12);
            }
            if self.path(&file.id, DESCRIBED).exists() {
                if asked {
                    return Err(io::ErrorKind::AlreadyExists.into());
                }
                continue;
            }
            match OpenOptions::new().append(true).create_new(true).open(self.path(&file.id, "part")) {
                Ok(_) => break,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && !asked => {}
                Err(error) => return Err(error),
            }
        }
        self.write(&file.id, "upload.json", &serde_json::to_vec(&file)?)?;
        Ok(file)
    }

    /// The upload of that id, and how many bytes of it are here. None when there is none.
    pub(in super::super) fn under_way(&self, id: &str) -> io::Result<Option<(Stored, u64)>> {
        let Some(file) = self.read(id, "upload.json")? else { return Ok(None) };
        let arrived = found(fs::metadata(self.path(id, "part")))?;
        Ok(arrived.map(|part| (file, part.len())))
    }

    /// Ends an upload whose bytes are all here.
    pub(in super::super) fn finish(&self, mut file: Stored, arrived: u64) -> io::Result<Stored> {
        let part = self.path(&file.id, "part");
        file.sha256 = Some(base64(&sha256(&part)?));
        file.bytes = Some(arrived);
        fs::rename(&part, self.path(&file.id, "data"))?;
        self.write(&file.id, DESCRIBED, &serde_json::to_vec(&file)?)?;
        fs::remove_file(self.path(&file.id, "upload.json"))?;
        Ok(file)
    }

    /// Ends an upload of which no file will come.
    pub(in super::super) fn give_up(&self, id: &str) -> io::Result<()> {
        for what in ["upload.json", "part"] {
            found(fs::remove_file(self.path(id, what)))?;
        }
        Ok(())
    }

    /// The file of that id, unless it has expired.
    pub(in super::super) fn get(&self, id: &str, now: Millis) -> io::Result<Option<Stored>> {
        let file: Option<Stored> = self.read(id, DESCRIBED)?;
        Ok(file.filter(|file| now.since(file.created) < KEPT))
    }

    /// All files that have not expired, newest first.
    pub(in super::super) fn list(&self, now: Millis) -> io::Result<Vec<Stored>> {
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let name = entry?.file_name();
            let id = name.to_str().and_then(|name| name.strip_suffix(DESCRIBED)?.strip_suffix('.'));
            if let Some(id) = id {
                files.extend(self.get(id, now)?);
            }
        }
        files.sort_by(|one, other| (other.created, &other.id).cmp(&(one.created, &one.id)));
        Ok(files)
    }

    /// Removes a file. What batches took of it stays.
    pub(in super::super) fn delete(&self, id: &str) -> io::Result<()> {
        for what in [DESCRIBED, "data"] {
            found(fs::remove_file(self.path(id, what)))?;
        }
        Ok(())
    }

    /// Keeps the bytes of an uploaded file as a batch's input, whatever becomes of the file.
    pub(in super::super) fn keep(&self, file: &str, batch: &str) -> io::Result<()> {
        let (data, input) = (self.path(file, "data"), self.path(batch, "input"));
        // Not every file system has hard links.
        fs::hard_link(&data, &input).or_else(|_| fs::copy(&data, &input).map(|_| ()))
    }

    /// Writes a small part, whole or not at all.
    pub(in super::super) fn write(&self, id: &str, what: &str, bytes: &[u8]) -> io::Result<()> {
        let mut file = tempfile::NamedTempFile::new_in(&self.folder)?;
        file.write_all(bytes)?;
        self.put(id, what, file)
    }

    /// An empty file that can be [put](Self::put) in place when it is written.
    pub(in super::super) fn blank(&self) -> io::Result<tempfile::NamedTempFile> {
        tempfile::NamedTempFile::new_in(&self.folder)
    }

    /// Puts a written file in its place.
    pub(in super::super) fn put(&self, id: &str, what: &str, file: tempfile::NamedTempFile) -> io::Result<()> {
        file.persist(self.path(id, what)).map(|_| ()).map_err(|error| error.error)
    }

    /// Reads a small part.
    pub(in super::super) fn read<T: DeserializeOwned>(&self, id: &str, what: &str) -> io::Result<Option<T>> {
        let bytes = found(fs::read(self.path(id, what)))?;
        bytes.map(|bytes| serde_json::from_slice(&bytes).map_err(io::Error::from)).transpose()
    }
}

fn found<T>(outcome: io::Result<T>) -> io::Result<Option<T>> {
    match outcome {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn sha256(path: &Path) -> io::Result<Vec<u8>> {
    let (mut file, mut hash, mut buffer) = (File::open(path)?, Sha256::new(), vec![0; 1 << 16]);
    loop {
        let length = file.read(&mut buffer)?;
        if length == 0 {
            return Ok(hash.finalize().to_vec());
        }
        hash.update(buffer.get(..length).unwrap_or_default());
    }
}

fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let bits = (0..3).fold(0, |bits, n| (bits << 8) | u32::from(three.get(n).copied().unwrap_or(0)));
        for n in 0..4_usize {
            let place = usize::try_from((bits >> (18 - 6 * n)) & 63).ok();
            let letter = place.and_then(|place| ALPHABET.get(place)).filter(|_| n <= three.len());
            text.push(letter.map_or('=', |letter| char::from(*letter)));
        }
    }
    text
}

/// So many lower-case letters and digits, made of hashes.
pub(in super::super) fn letters(word: impl Fn(u64) -> u64, count: usize) -> String {
    const ALPHABET: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";
    let digits = (0..).flat_map(|part| {
        let mut bits = word(part);
        std::iter::repeat_with(move || {
            let place = usize::try_from(bits % 36).unwrap_or(0);
            bits /= 36;
            ALPHABET.get(place).map_or('0', |letter| char::from(*letter))
        })
        .take(12)
    });
    digits.take(count).collect()
}

/// Whether it can be a name in the shelf's folder.
pub(in super::super) fn is_id(id: &str) -> bool {
    !id.is_empty() && id.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_as_everywhere() {
        for (bytes, text) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("fooba?>", "Zm9vYmE/Pg==")] {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
    }

    #[test]
    fn ids_are_of_letters_and_digits() {
        let id = letters(|part| hash(1, "x", 2, &[part]), 36);
        assert!(id.len() == 36 && id.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit()), "{id}");
    }
}
