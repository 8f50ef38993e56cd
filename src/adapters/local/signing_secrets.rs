//! The signing secrets in a file that its owner alone can read: `{"webhook_secrets": ["whsec_..."]}`.

use std::fs::{File, Metadata};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;

use super::WEBHOOK_SECRETS;
use super::folder::fault;
use crate::domain::webhook::Keyring;
use crate::ports::objects::ObjectError;
use crate::ports::webhook_keys::{KeysError, SigningSecrets};

/// The largest file that is read, in bytes. A few secrets are some hundred.
const LARGEST: u64 = 1 << 20;

/// What the names of files begin with that are being written.
const UNFINISHED: &str = ".webhook-secrets-";

/// The file of signing secrets in a data folder. It is read each time that somebody asks: that costs nothing here, and a
/// change counts at once.
#[derive(Debug, Clone)]
pub struct FileSigningSecrets {
    path: PathBuf,
}

impl FileSigningSecrets {
    /// That of the data folder at `root`, whether it is there or not.
    #[must_use]
    pub fn new(root: &Path) -> Self {
        Self { path: root.join(WEBHOOK_SECRETS) }
    }

    /// Where it lies.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Path) -> Result<T, KeysError> + Send + 'static,
    ) -> Result<T, KeysError> {
        let path = self.path.clone();
        let done = tokio::task::spawn_blocking(move || work(&path)).await;
        done.map_err(|error| KeysError::Busy(format!("the work was not done: {error}")))?
    }
}

#[async_trait]
impl SigningSecrets for FileSigningSecrets {
    async fn current(&self) -> Result<Arc<Keyring>, KeysError> {
        Ok(Arc::new(self.read().await?))
    }

    /// A file that is not there is an empty keyring. One that others can read is refused, as ssh refuses such keys: what
    /// is in it may be known already, and only a person can say.
    async fn read(&self) -> Result<Keyring, KeysError> {
        self.blocking(read).await
    }

    /// The new file takes the place of the old one in one step, when it lies whole on the disk. Nobody but its owner can
    /// read it at any time.
    async fn keep(&self, keyring: &Keyring) -> Result<(), KeysError> {
        let text = keyring.text();
        self.blocking(move |path| write(path, &text)).await
    }
}

fn read(path: &Path) -> Result<Keyring, KeysError> {
    let opened = File::open(path).and_then(|file| file.metadata().map(|metadata| (file, metadata)));
    let (file, metadata) = match opened {
        Ok(opened) => opened,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Keyring::default()),
        Err(error) => return Err(wrong(&error, path)),
    };
    let needs_person = |why: String| KeysError::NeedsPerson(format!("{} {why}", path.display()));
    if !metadata.is_file() {
        return Err(needs_person("is no file, and signing secrets must be kept there; move it away".to_owned()));
    }
    if is_open_to_others(&metadata) {
        return Err(needs_person(format!(
            "holds signing secrets, and others than its owner may read or change it.\nMake it its owner's alone: \
             chmod 600 '{}'\nIf others are on this machine, rotate the secrets afterwards (`webhook rotate --now`)",
            path.display()
        )));
    }
    let mut text = String::new();
    match file.take(LARGEST + 1).read_to_string(&mut text) {
        Ok(read) if read as u64 > LARGEST => {
            return Err(needs_person(format!("is longer than {LARGEST} bytes: it is no file of signing secrets")));
        }
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            return Err(needs_person("must be UTF-8".to_owned()));
        }
        Err(error) => return Err(wrong(&error, path)),
    }
    Keyring::parse(&text).map_err(|error| needs_person(error.to_string()))
}

fn write(path: &Path, text: &str) -> Result<(), KeysError> {
    let folder = path.parent().unwrap_or(path);
    // A temporary file is its owner's alone from the beginning (tempfile makes it with mode 0600).
    let file = tempfile::Builder::new().prefix(UNFINISHED).tempfile_in(folder);
    let mut file = file.map_err(|error| wrong(&error, folder))?;
    let written = file.write_all(text.as_bytes()).and_then(|()| file.write_all(b"\n"));
    written.and_then(|()| file.as_file().sync_all()).map_err(|error| wrong(&error, path))?;
    file.persist(path).map_err(|refused| wrong(&refused.error, path))?;
    sync(folder).map_err(|error| wrong(&error, folder))
}

/// Writes a folder's names to the disk.
fn sync(folder: &Path) -> io::Result<()> {
    // Windows opens no folders as files, and keeps names in its journal by itself.
    if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
}

#[cfg(unix)]
fn is_open_to_others(metadata: &Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    metadata.permissions().mode() & 0o077 != 0
}

#[cfg(not(unix))]
fn is_open_to_others(_metadata: &Metadata) -> bool {
    false
}

fn wrong(error: &io::Error, path: &Path) -> KeysError {
    match fault(error, path) {
        ObjectError::Busy(why) => KeysError::Busy(why),
        other => KeysError::NeedsPerson(other.to_string()),
    }
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::domain::time::Millis;
    use crate::domain::webhook::SigningSecret;

    const SECRET: &str = "whsec_YW4gZXhhbXBsZSwgb2Ygbm8gdXNlIGFueXdoZXJl";

    fn ring() -> Keyring {
        let mut ring = Keyring::default();
        ring.add("w", SigningSecret::parse(SECRET).unwrap());
        ring
    }

    fn names(folder: &Path) -> Vec<String> {
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[tokio::test]
    async fn what_is_kept_is_read_at_once_by_its_owner_alone() {
        let folder = tempfile::tempdir().unwrap();
        let secrets = FileSigningSecrets::new(folder.path());
        assert_eq!(*secrets.current().await.unwrap(), Keyring::default());
        assert!(names(folder.path()).is_empty(), "looking makes nothing");
        secrets.keep(&ring()).await.unwrap();
        let mode = std::fs::metadata(secrets.path()).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o600);
        assert_eq!(*secrets.current().await.unwrap(), ring());
        secrets.keep(&Keyring::default()).await.unwrap();
        assert_eq!(*secrets.current().await.unwrap(), Keyring::default());
        assert_eq!(names(folder.path()), [WEBHOOK_SECRETS]);
    }

    #[tokio::test]
    async fn what_others_can_read_is_refused_until_it_is_mended() {
        let folder = tempfile::tempdir().unwrap();
        let secrets = FileSigningSecrets::new(folder.path());
        std::fs::write(secrets.path(), ring().text()).unwrap();
        for mode in [0o640, 0o604, 0o620, 0o644] {
            std::fs::set_permissions(secrets.path(), std::fs::Permissions::from_mode(mode)).unwrap();
            let KeysError::NeedsPerson(why) = secrets.current().await.unwrap_err() else { panic!("{mode:o}") };
            assert!(why.contains("chmod 600") && why.contains(WEBHOOK_SECRETS), "{why}");
        }
        for mode in [0o600, 0o400] {
            std::fs::set_permissions(secrets.path(), std::fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(secrets.current().await.unwrap().valid(Millis(0)).len(), 1);
        }
    }

    #[tokio::test]
    async fn what_is_no_keyring_is_told_and_not_shown_and_stays() {
        let folder = tempfile::tempdir().unwrap();
        let secrets = FileSigningSecrets::new(folder.path());
        secrets.keep(&ring()).await.unwrap();
        for bytes in [SECRET.as_bytes(), b"", b"\xff\xfe{", &vec![b' '; 1 << 21]] {
            std::fs::write(secrets.path(), bytes).unwrap();
            let KeysError::NeedsPerson(why) = secrets.read().await.unwrap_err() else { panic!() };
            assert!(why.contains(WEBHOOK_SECRETS) && !why.contains("YW4g"), "{why}");
            assert_eq!(std::fs::read(secrets.path()).unwrap(), bytes);
        }
        std::fs::remove_file(secrets.path()).unwrap();
        std::fs::create_dir(secrets.path()).unwrap();
        assert!(matches!(secrets.read().await.unwrap_err(), KeysError::NeedsPerson(_)));
        assert!(matches!(secrets.keep(&ring()).await.unwrap_err(), KeysError::NeedsPerson(_)));
        assert_eq!(names(folder.path()), [WEBHOOK_SECRETS], "nothing unfinished is left");
    }
}
