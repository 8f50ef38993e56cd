//! Objects in a folder, which several processes may use at once.
//!
//! An object is written to a file in `tmp/`, made durable, and then given its name in one step that never replaces
//! another; at last the folder that holds the name is made durable. So an object is whole or not there at all,
//! whenever the machine stops, and who is told that it is there can rely on it.

mod fault;
mod folders;
mod name;

use std::fs::{File, Metadata};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use tempfile::NamedTempFile;
use tokio::io::{AsyncRead, AsyncReadExt};

pub(super) use self::fault::fault;
use self::folders::Folders;
use crate::adapters::system::from_system;
use crate::domain::time::Millis;
use crate::ports::objects::{ObjectError, Objects, Put, broke_off};

/// The folder of files that are being written.
const TMP: &str = "tmp";

/// What the names of files that are being written begin with.
const PREFIX: &str = "put-";

/// A file that is being written and hasn't changed for this long was left by a process that is no more.
const LEFT_BEHIND: Duration = Duration::from_secs(3600);

/// How much of a stream is held in memory.
const PIECE: usize = 1 << 20;

/// Objects in the folder `root`. Names whose first part is `tmp` are its own and are refused.
///
/// When the last step fails (the disk breaks while the folder is made durable), the whole object may stay under its
/// name although the call says that a person must act; the next write of it makes the folder durable first.
#[derive(Debug)]
pub struct FolderObjects {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    root: PathBuf,
    folders: Folders,
}

impl FolderObjects {
    /// Opens the folder `root`, made if it isn't there, and removes what killed processes have left half written an
    /// hour ago or earlier. `now` is the clock's. Blocks.
    ///
    /// # Errors
    /// [`ObjectError::NeedsPerson`] for a file in its place, a folder that can't be written, a full disk.
    pub fn open(root: impl AsRef<Path>, now: Millis) -> Result<Self, ObjectError> {
        let root = std::path::absolute(root.as_ref()).map_err(|error| fault(&error, root.as_ref()))?;
        let folders = Folders::open(&root)?;
        let objects = Self { inner: Arc::new(Inner { root, folders }) };
        objects.make_folder(TMP)?;
        objects.inner.sweep(now)?;
        // Whether files can be made here is better known now than when the first result is paid for.
        objects.inner.temporary()?.close().map_err(|error| fault(&error, &objects.inner.root))?;
        Ok(objects)
    }

    /// The folder.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.inner.root
    }

    /// Makes a folder for objects, durably, so that people find it before anything is in it.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn make_folder(&self, name: &str) -> Result<(), ObjectError> {
        self.inner.folders.make(&self.inner.root.join(name))
    }

    /// Runs what blocks on a thread for that.
    async fn blocking<T, W>(&self, work: W) -> Result<T, ObjectError>
    where
        T: Send + 'static,
        W: FnOnce(&Inner) -> Result<T, ObjectError> + Send + 'static,
    {
        let inner = Arc::clone(&self.inner);
        let done = tokio::task::spawn_blocking(move || work(&inner)).await;
        done.map_err(|error| ObjectError::Busy(format!("the work was not done: {error}")))?
    }
}

impl Inner {
    /// Where the object of that name lies.
    fn place(&self, name: &str) -> Result<PathBuf, ObjectError> {
        name::check(name)?;
        Ok(self.root.join(name))
    }

    fn tmp(&self) -> PathBuf {
        self.root.join(TMP)
    }

    fn temporary(&self) -> Result<NamedTempFile, ObjectError> {
        let tmp = self.tmp();
        let mut builder = tempfile::Builder::new();
        builder.prefix(PREFIX);
        // Readable for everybody whom the umask allows, as any other file; the default is the owner alone.
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
        match builder.tempfile_in(&tmp) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                // Somebody has tidied up.
                self.folders.forget(&tmp);
                self.folders.make(&tmp)?;
                builder.tempfile_in(&tmp).map_err(|error| fault(&error, &tmp))
            }
            made => made.map_err(|error| fault(&error, &tmp)),
        }
    }

    /// Removes what was left behind.
    fn sweep(&self, now: Millis) -> Result<(), ObjectError> {
        let tmp = self.tmp();
        for entry in std::fs::read_dir(&tmp).map_err(|error| fault(&error, &tmp))? {
            let entry = entry.map_err(|error| fault(&error, &tmp))?;
            if !entry.file_name().to_string_lossy().starts_with(PREFIX) {
                continue;
            }
            let path = entry.path();
            let left = entry.metadata().and_then(|metadata| metadata.modified());
            let removed = match left {
                Ok(modified) if now.since(from_system(modified)) > LEFT_BEHIND => std::fs::remove_file(&path),
                other => other.map(drop),
            };
            match removed {
                // Another process that opens the folder was faster, or the one that writes has ended.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                settled => settled.map_err(|error| fault(&error, &path))?,
            }
        }
        Ok(())
    }

    /// Whether an object is there; then it is made sure that it will be there after a power cut too.
    fn is_there(&self, place: &Path) -> Result<bool, ObjectError> {
        match place.symlink_metadata() {
            Ok(found) if found.is_dir() => Err(folder_in_the_way(place)),
            Ok(_) => self.folders.settle(place).map(|()| true),
            Err(error) if is_absence(&error) => Ok(false),
            Err(error) => Err(fault(&error, place)),
        }
    }

    /// Gives a written file its name.
    fn publish(&self, written: NamedTempFile, place: &Path) -> Result<Put, ObjectError> {
        written.as_file().sync_all().map_err(|error| fault(&error, written.path()))?;
        self.folders.make_for(place)?;
        let put = match written.persist_noclobber(place) {
            Ok(_) => Put::Written,
            Err(refused) if refused.error.kind() == io::ErrorKind::AlreadyExists => {
                if self.is_there(place)? {
                    return Ok(Put::AlreadyThere);
                }
                return Err(ObjectError::Busy(format!("{} was there and is gone", place.display())));
            }
            Err(refused) if refused.error.kind() == io::ErrorKind::NotFound => {
                // Somebody has removed the folder, or the file in `tmp`: the next call makes them anew.
                self.folders.forget_for(place);
                return Err(ObjectError::Busy(format!("{}: {}", place.display(), refused.error)));
            }
            Err(refused) => return Err(fault(&refused.error, place)),
        };
        self.folders.settle(place)?;
        Ok(put)
    }

    fn put(&self, place: &Path, bytes: &[u8]) -> Result<Put, ObjectError> {
        if self.is_there(place)? {
            return Ok(Put::AlreadyThere);
        }
        let mut file = self.temporary()?;
        file.write_all(bytes).map_err(|error| fault(&error, file.path()))?;
        self.publish(file, place)
    }
}

/// Opens an object; a folder is none.
fn open(name: &str, place: &Path) -> Result<(File, Metadata), ObjectError> {
    let opened = File::open(place).and_then(|file| file.metadata().map(|metadata| (file, metadata)));
    match opened {
        Ok((file, metadata)) if metadata.is_file() => Ok((file, metadata)),
        Ok(_) => Err(ObjectError::NotFound(name.to_owned())),
        Err(error) if is_absence(&error) => Err(ObjectError::NotFound(name.to_owned())),
        Err(error) => Err(fault(&error, place)),
    }
}

fn read(name: &str, place: &Path, range: &Range<u64>) -> Result<Bytes, ObjectError> {
    let (mut file, metadata) = open(name, place)?;
    let length = range.end.min(metadata.len()).saturating_sub(range.start);
    if length == 0 {
        return Ok(Bytes::new());
    }
    let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or_default());
    file.seek(SeekFrom::Start(range.start))
        .and_then(|_| file.take(length).read_to_end(&mut bytes))
        .map_err(|error| fault(&error, place))?;
    Ok(bytes.into())
}

/// Nothing of that name, or a name within an object as if that were a folder.
fn is_absence(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn folder_in_the_way(place: &Path) -> ObjectError {
    ObjectError::NeedsPerson(format!(
        "{} is a folder, and an object must be written there; move it away",
        place.display()
    ))
}

#[async_trait]
impl Objects for FolderObjects {
    async fn put(&self, name: &str, bytes: Bytes) -> Result<Put, ObjectError> {
        let place = self.inner.place(name)?;
        self.blocking(move |inner| inner.put(&place, &bytes)).await
    }

    /// An object that is there already is answered without reading `source`.
    async fn put_stream(&self, name: &str, source: &mut (dyn AsyncRead + Send + Unpin)) -> Result<Put, ObjectError> {
        let place = self.inner.place(name)?;
        let begun = self.blocking({
            let place = place.clone();
            move |inner| if inner.is_there(&place)? { Ok(None) } else { inner.temporary().map(Some) }
        });
        let Some(mut file) = begun.await? else { return Ok(Put::AlreadyThere) };
        let mut piece = Vec::with_capacity(PIECE);
        loop {
            piece.clear();
            while piece.len() < PIECE && read_some(name, source, &mut piece).await? > 0 {}
            if piece.is_empty() {
                return self.blocking(move |inner| inner.publish(file, &place)).await;
            }
            (file, piece) = self
                .blocking(move |_| {
                    file.write_all(&piece).map_err(|error| fault(&error, file.path()))?;
                    Ok((file, piece))
                })
                .await?;
        }
    }

    async fn get(&self, name: &str) -> Result<Bytes, ObjectError> {
        self.read(name, 0..u64::MAX).await
    }

    async fn read(&self, name: &str, range: Range<u64>) -> Result<Bytes, ObjectError> {
        let (name, place) = (name.to_owned(), self.inner.place(name)?);
        self.blocking(move |_| read(&name, &place, &range)).await
    }

    async fn size(&self, name: &str) -> Result<Option<u64>, ObjectError> {
        let place = self.inner.place(name)?;
        self.blocking(move |_| match place.metadata() {
            Ok(found) => Ok(found.is_file().then_some(found.len())),
            Err(error) if is_absence(&error) => Ok(None),
            Err(error) => Err(fault(&error, &place)),
        })
        .await
    }
}

/// Reads what comes next, up to the end of `piece`. 0: the end.
async fn read_some(
    name: &str,
    source: &mut (dyn AsyncRead + Send + Unpin),
    piece: &mut Vec<u8>,
) -> Result<usize, ObjectError> {
    let room = PIECE.saturating_sub(piece.len());
    let read = source.take(room as u64).read_buf(piece).await;
    read.map_err(|error| broke_off(name, error))
}

#[cfg(test)]
mod tests;
