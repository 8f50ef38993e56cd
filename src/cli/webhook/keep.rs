//! Keeping secrets that are told once.

use std::fs::File;
use std::time::Duration;

use crate::cli::open::{Context, Hooks};
use crate::cli::outcome::Stop;
use crate::cli::signal::Signals;
use crate::domain::webhook::Keyring;
use crate::ports::webhook_keys::KeysError;

/// How often it is tried, and how long between, while what is in the way passes by itself.
const TRIES: u32 = 4;
const WAIT: Duration = Duration::from_secs(1);

/// Makes sure that secrets can be kept before Gemini makes one, by writing what is there, without those that are over. Other
/// commands wait until what it returns is dropped.
pub(super) async fn prove(hooks: &Hooks) -> Result<Option<File>, Stop> {
    hooks.make_place()?;
    let alone = hooks.alone().await?;
    let proven = change(hooks, |_| ()).await;
    let impossible =
        |error| Stop::Person(format!("no secret can be kept here, so Gemini is not asked for one: {error}"));
    proven.map(|_| alone).map_err(impossible)
}

/// Does `work` to its end, whatever signal comes: a secret that Gemini tells once is kept before the program ends.
pub(super) async fn to_its_end<T>(context: &Context, work: impl Future<Output = Result<T, Stop>>) -> Result<T, Stop> {
    let mut signals = Signals::catch()?;
    let mut work = std::pin::pin!(work);
    tokio::select! {
        ended = &mut work => return ended,
        () = signals.next() => context.console.note("Ending when the secret is kept, or a minute has passed."),
    }
    work.await
}

/// Changes what is kept: it is read again right before, since others may have changed it meanwhile.
pub(super) async fn change<T>(hooks: &Hooks, change: impl Fn(&mut Keyring) -> T) -> Result<(Keyring, T), KeysError> {
    let mut left = TRIES;
    loop {
        left -= 1;
        let tried = async {
            let mut ring = hooks.secrets.read().await?;
            let changed = change(&mut ring);
            ring.prune(hooks.clock.now());
            hooks.secrets.keep(&ring).await?;
            // A stack has no lock: what was written over in this very moment is seen, and written again.
            if hooks.secrets.read().await? != ring {
                return Err(KeysError::Busy("somebody else changed the secrets in the same moment".to_owned()));
            }
            Ok((ring, changed))
        };
        match tried.await {
            Err(KeysError::Busy(_)) if left > 0 => hooks.clock.sleep(WAIT).await,
            ended => return ended,
        }
    }
}
