//! Keeping secrets that are told once.

use std::time::Duration;

use crate::cli::open::Hooks;
use crate::cli::outcome::Stop;
use crate::domain::webhook::Keyring;
use crate::ports::webhook_keys::KeysError;

/// How often it is tried, and how long between, while what is in the way passes by itself.
const TRIES: u32 = 4;
const WAIT: Duration = Duration::from_secs(1);

/// Makes sure that secrets can be kept before Gemini makes one, by writing what is there, without those that are over.
pub(super) async fn prove(hooks: &Hooks) -> Result<(), Stop> {
    hooks.make_place()?;
    let proven = change(hooks, |_| ()).await;
    proven
        .map(drop)
        .map_err(|error| Stop::Person(format!("no secret can be kept here, so Gemini is not asked for one: {error}")))
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
            Ok((ring, changed))
        };
        match tried.await {
            Err(KeysError::Busy(_)) if left > 0 => hooks.clock.sleep(WAIT).await,
            ended => return ended,
        }
    }
}
