//! What webhooks are seen to with, and what events are received with.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::{Context, client, keys, settings, stack, unopened};
use crate::adapters::gemini::HttpPublicKeys;
use crate::adapters::local::DataFolder;
use crate::adapters::local::signing_secrets::FileSigningSecrets;
use crate::adapters::system::{SystemClock, SystemIds};
use crate::app::engine::Trouble;
use crate::app::webhook::Reception;
use crate::cli::outcome::Stop;
use crate::ports::clock::Clock;
use crate::ports::webhook_keys::SigningSecrets;
use crate::ports::webhooks::Webhooks;

/// How long one waits for another command to end that changes secrets, and how long between two looks.
const LONGEST_WAIT: Duration = Duration::from_secs(120);
const NAP: Duration = Duration::from_millis(50);

/// What the webhooks of a data folder or a stack are seen to with.
#[derive(Debug)]
pub struct Hooks {
    /// Gemini.
    pub gemini: Arc<dyn Webhooks>,
    /// Where signing secrets are kept.
    pub secrets: Arc<dyn SigningSecrets>,
    /// The same as people call it.
    pub kept_in: String,
    /// The data folder that they are kept in, if it is one.
    pub folder: Option<PathBuf>,
    /// Where the event of each job is sent, whatever is registered.
    pub per_job: Option<String>,
    /// Our own URL, if we know it.
    pub url: Option<String>,
    /// Time.
    pub clock: Arc<dyn Clock>,
}

impl Hooks {
    /// Makes the data folder, if it is one and isn't there: a whole one, so that whose work is in it is told from now on.
    pub(in crate::cli) fn make_place(&self) -> Result<(), Stop> {
        let Some(data) = &self.folder else { return Ok(()) };
        DataFolder::open(data, self.clock.now()).map(drop).map_err(|error| unopened(data, error))
    }

    /// Waits until no other command changes the secrets of this data folder, and keeps others off until the lock is dropped,
    /// Gemini's own answer included: whose secret is the newer one is known only then. A stack has no such lock.
    pub(in crate::cli) async fn alone(&self) -> Result<Option<File>, Stop> {
        let Some(data) = &self.folder else { return Ok(None) };
        let path = data.join("webhook-secrets.lock");
        let blocked = |error: std::io::Error| Stop::Person(format!("{} can't be locked: {error}", path.display()));
        let file = File::options().create(true).truncate(false).write(true).open(&path).map_err(blocked)?;
        for _ in 0..LONGEST_WAIT.as_millis() / NAP.as_millis() {
            match file.try_lock() {
                Ok(()) => return Ok(Some(file)),
                Err(TryLockError::WouldBlock) => self.clock.sleep(NAP).await,
                Err(TryLockError::Error(error)) => return Err(blocked(error)),
            }
        }
        Err(Stop::Person(format!(
            "another command has been changing the webhooks' secrets in {} for long",
            data.display()
        )))
    }
}

/// For commands that see to webhooks. Nothing is made yet.
pub async fn hooks(context: &Context) -> Result<Hooks, Stop> {
    if let Some(name) = &context.stack {
        return stack::hooks(context, name).await;
    }
    check(context)?;
    let settings = settings(false)?;
    let gemini = client(
        &settings,
        settings.base_url.clone(),
        keys("To try webhooks out without one: gleaner webhook serve --help")?,
    )?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let secrets = file(&context.data)?;
    Ok(Hooks {
        gemini: Arc::new(gemini),
        kept_in: secrets.path().display().to_string(),
        secrets: Arc::new(secrets),
        folder: Some(context.data.clone()),
        per_job: settings.webhook.url.clone(),
        url: settings.webhook.url,
        clock,
    })
}

/// What events are received with. The data folder is made if need be. No API key is needed.
pub async fn reception(context: &Context) -> Result<Reception, Stop> {
    check(context)?;
    let settings = settings(false)?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let folder = DataFolder::open(&context.data, clock.now()).map_err(|error| unopened(&context.data, error))?;
    let work = folder.work_queue(Arc::clone(&clock)).map_err(Trouble::from)?;
    let secrets = FileSigningSecrets::new(&folder.root);
    // What can't be used is told before the first event is refused for it.
    secrets.read().await?;
    Ok(Reception {
        ledger: folder.ledger,
        work_queue: Arc::new(work),
        secrets: Arc::new(secrets),
        public_keys: Arc::new(HttpPublicKeys::new(settings.webhook_keys(), Arc::clone(&clock))?),
        audience: settings.webhook.audience,
        policy: settings.policy,
        handles_lag: Duration::ZERO,
        ids: Arc::new(SystemIds),
        clock,
    })
}

/// Nobody can send events about the work of a simulator that lives in one command and at no known port.
fn check(context: &Context) -> Result<(), Stop> {
    if !context.is_simulated() {
        return Ok(());
    }
    Err(Stop::Usage(format!(
        "{} holds work of --simulate, of which nobody sends events: each command has a simulator of its own.\n\
         To try webhooks out, run a simulator beside it and take another folder: `gleaner webhook serve --help`",
        context.data.display()
    )))
}

fn file(data: &Path) -> Result<FileSigningSecrets, Stop> {
    let root = std::path::absolute(data);
    let root = root.map_err(|error| Stop::Usage(format!("no data folder can be at {}: {error}", data.display())))?;
    Ok(FileSigningSecrets::new(&root))
}
