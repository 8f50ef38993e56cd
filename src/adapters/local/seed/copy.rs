//! A copy of one moment.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::ports::seed::SeedError;

/// How often it is tried while somebody writes.
const TRIES: u32 = 5;

/// What may lie beside a database and belong to it (<https://www.sqlite.org/tempfiles.html>).
const BESIDE: [&str; 3] = ["", "-wal", "-journal"];

/// Copies a database, with what lies beside it, into `folder`. Returns the copy's path.
///
/// # Errors
/// It is no file that can be read; it changes while it is being read; the copy can't be written.
pub(super) fn copy(path: &Path, folder: &Path) -> Result<PathBuf, SeedError> {
    let unusable = |why: &str| SeedError::Unusable(format!("{}: {why}", path.display()));
    let meta = std::fs::metadata(path).map_err(|error| unusable(&in_words(&error)))?;
    if !meta.is_file() {
        return Err(unusable("it is no file; name a database that a seed script wrote"));
    }
    if meta.len() == 0 {
        return Err(unusable("the file is empty"));
    }
    let to = folder.join("seed.db");
    for _ in 0..TRIES {
        let copied = pass(path, Some(&to))?;
        if pass(path, None)? == copied {
            return Ok(to);
        }
    }
    Err(unusable("it is being written: end the script that writes it first, and let it send nothing more"))
}

/// Reads all files once, and copies them if `to` says where to; the digest of each, none where there is no file.
fn pass(path: &Path, to: Option<&Path>) -> Result<Vec<Option<[u8; 32]>>, SeedError> {
    let mut digests = Vec::new();
    for end in BESIDE {
        let from = beside(path, end);
        let to = to.map(|to| beside(to, end));
        let source = match File::open(&from) {
            Ok(source) => source,
            Err(error) if error.kind() == io::ErrorKind::NotFound && !end.is_empty() => {
                // It may be there from the try before.
                if let Some(to) = to.filter(|to| to.exists()) {
                    std::fs::remove_file(to)?;
                }
                digests.push(None);
                continue;
            }
            Err(error) => return Err(SeedError::Unusable(format!("{}: {}", from.display(), in_words(&error)))),
        };
        let copy = to.map(File::create).transpose()?;
        digests.push(Some(digest(&from, source, copy)?));
    }
    Ok(digests)
}

fn digest(from: &Path, mut source: File, mut copy: Option<File>) -> Result<[u8; 32], SeedError> {
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        let read = source
            .read(&mut buffer)
            .map_err(|error| SeedError::Unusable(format!("{}: {}", from.display(), in_words(&error))))?;
        let fresh = buffer.get(..read).unwrap_or_default();
        if fresh.is_empty() {
            return Ok(hash.finalize().into());
        }
        hash.update(fresh);
        if let Some(copy) = &mut copy {
            copy.write_all(fresh)?;
        }
    }
}

fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(end);
    PathBuf::from(name)
}

fn in_words(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "there is no such file".to_owned(),
        io::ErrorKind::PermissionDenied => "the file may not be read (permissions)".to_owned(),
        _ => error.to_string(),
    }
}
