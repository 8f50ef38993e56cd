//! Making folders, and the names in them, durable; many at once share one `fsync`.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::fault::fault;
use crate::ports::objects::ObjectError;

/// The folders under a root that are known to be durable themselves, each with its own turns of `fsync`.
#[derive(Debug)]
pub struct Folders {
    root: PathBuf,
    known: Mutex<HashMap<PathBuf, Arc<Turns>>>,
}

impl Folders {
    /// Makes the root folder and what is above it.
    pub fn open(root: &Path) -> Result<Self, ObjectError> {
        let missing: Vec<&Path> = root.ancestors().take_while(|folder| folder.symlink_metadata().is_err()).collect();
        std::fs::create_dir_all(root).map_err(|error| fault(&error, root))?;
        for made in missing {
            sync_parent(made)?;
        }
        let folders = Self { root: root.to_owned(), known: Mutex::default() };
        lock(&folders.known).insert(root.to_owned(), Arc::default());
        Ok(folders)
    }

    /// Makes `folder` and those between it and the root, so that they outlive a power cut.
    pub fn make(&self, folder: &Path) -> Result<(), ObjectError> {
        self.turns(folder).map(drop)
    }

    /// Makes the folder of the object at `place`.
    pub fn make_for(&self, place: &Path) -> Result<(), ObjectError> {
        self.make(parent(place))
    }

    /// Returns once the name of the object at `place`, given before this call, outlives a power cut.
    pub fn settle(&self, place: &Path) -> Result<(), ObjectError> {
        let folder = parent(place);
        self.turns(folder)?.take(|| sync(folder)).map_err(|error| fault(&error, folder))
    }

    /// Forgets what is known of a folder that has gone away.
    pub fn forget(&self, folder: &Path) {
        lock(&self.known).remove(folder);
    }

    /// The same for the folders of the object at `place`.
    pub fn forget_for(&self, place: &Path) {
        let mut known = lock(&self.known);
        for folder in place.ancestors().skip(1).take_while(|folder| *folder != self.root) {
            known.remove(folder);
        }
    }

    /// The turns of a folder that is durable.
    ///
    /// A folder that is there but that this process doesn't know may have been made by another one a moment ago:
    /// its name is made durable here before anything in it is relied on.
    fn turns(&self, folder: &Path) -> Result<Arc<Turns>, ObjectError> {
        if let Some(turns) = lock(&self.known).get(folder) {
            return Ok(Arc::clone(turns));
        }
        if folder != self.root {
            self.make(parent(folder))?;
        }
        match std::fs::create_dir(folder) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && folder.is_dir() => {}
            made => made.map_err(|error| fault(&error, folder))?,
        }
        sync_parent(folder)?;
        Ok(Arc::clone(lock(&self.known).entry(folder.to_owned()).or_default()))
    }
}

/// Turns of one `fsync` at a time. One that began before a name was given may have missed it; so who comes while
/// one is under way waits for it to end, and the next one serves everybody who has come by then.
#[derive(Debug, Default)]
struct Turns {
    state: Mutex<Turn>,
    ended: Condvar,
}

#[derive(Debug, Default)]
struct Turn {
    /// Whether a turn is under way.
    running: bool,
    /// Turns that have begun.
    begun: u64,
    /// The last turn that has succeeded.
    succeeded: u64,
}

impl Turns {
    /// Returns after a whole turn of `sync` that began after this call, by this or by another thread, has succeeded.
    fn take(&self, sync: impl Fn() -> io::Result<()>) -> io::Result<()> {
        let mut turn = lock(&self.state);
        let mine = turn.begun + 1;
        loop {
            if turn.succeeded >= mine {
                return Ok(());
            }
            if turn.running {
                turn = self.ended.wait(turn).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            turn.running = true;
            turn.begun += 1;
            let this = turn.begun;
            drop(turn);
            let outcome = sync();
            turn = lock(&self.state);
            turn.running = false;
            if outcome.is_ok() {
                turn.succeeded = this;
            }
            self.ended.notify_all();
            // A turn that failed is told to who made it; the others make one of their own.
            return outcome;
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn parent(path: &Path) -> &Path {
    path.parent().unwrap_or(path)
}

fn sync_parent(path: &Path) -> Result<(), ObjectError> {
    let folder = parent(path);
    sync(folder).map_err(|error| fault(&error, folder))
}

/// Writes a folder's names to the disk.
fn sync(folder: &Path) -> io::Result<()> {
    // Windows opens no folders as files, and keeps names in its journal by itself.
    if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::sync::{Barrier, mpsc};

    use super::*;

    #[test]
    fn those_who_come_during_a_turn_share_the_next_one() {
        let turns = Turns::default();
        let made = AtomicU32::new(0);
        let (begin, begun) = mpsc::channel();
        let (release, released) = mpsc::channel::<()>();
        let coming = Barrier::new(9);
        std::thread::scope(|scope| {
            let (turns, made, coming) = (&turns, &made, &coming);
            scope.spawn(move || {
                turns.take(|| {
                    made.fetch_add(1, Ordering::SeqCst);
                    begin.send(()).unwrap();
                    released.recv().map_err(io::Error::other)
                })
            });
            begun.recv().unwrap();
            for _ in 0..8 {
                scope.spawn(move || {
                    coming.wait();
                    turns.take(|| {
                        made.fetch_add(1, Ordering::SeqCst);
                        Ok(())
                    })
                });
            }
            coming.wait();
            // Everybody is on the way; those that come too late for the second turn make a third.
            release.send(()).unwrap();
        });
        let made = made.into_inner();
        assert!((2..=9).contains(&made), "{made}");
        assert_eq!(lock(&turns.state).begun, u64::from(made));
    }

    #[test]
    fn a_turn_that_began_before_does_not_count() {
        let turns = Arc::new(Turns::default());
        *lock(&turns.state) = Turn { running: true, begun: 1, succeeded: 0 };
        let (tell, told) = mpsc::channel();
        let late = std::thread::spawn({
            let turns = Arc::clone(&turns);
            move || turns.take(|| tell.send(()).map_err(io::Error::other))
        });
        {
            let mut turn = lock(&turns.state);
            turn.running = false;
            turn.succeeded = 1;
        }
        turns.ended.notify_all();
        // Whether it came before or after that turn's end: it makes one of its own.
        late.join().unwrap().unwrap();
        assert!(told.try_recv().is_ok());
        assert_eq!(lock(&turns.state).succeeded, 2);
    }

    #[test]
    fn a_failed_turn_is_told_and_the_next_one_works() {
        let turns = Turns::default();
        turns.take(|| Err(io::Error::other("broken"))).unwrap_err();
        turns.take(|| Ok(())).unwrap();
        assert_eq!(lock(&turns.state).succeeded, 2);
    }
}
