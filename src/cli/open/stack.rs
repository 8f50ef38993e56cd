//! An engine on a deployed stack: its parts are found by the stack's outputs, and it has the stack's own settings.

use std::collections::HashMap;
use std::sync::Arc;

use aws_config::SdkConfig;

use super::{Context, Desk, Hooks};
use crate::adapters::aws::outputs::{Outputs, OutputsError};
use crate::adapters::aws::secrets::SecretError;
use crate::adapters::aws::stack::{Stack, own_config, signing_secrets};
use crate::adapters::gemini::Offline;
use crate::adapters::system::{SystemClock, SystemIds};
use crate::app::engine::Engine;
use crate::app::lines::Headers;
use crate::app::settings::{NAMES, Settings};
use crate::cli::outcome::Stop;
use crate::ports::clock::Clock;
use crate::ports::gemini::Gemini;
use crate::ports::handover::Nobody;

impl From<OutputsError> for Stop {
    fn from(error: OutputsError) -> Self {
        match error {
            OutputsError::NoStack(_) | OutputsError::NoOutput { .. } => Self::Usage(error.to_string()),
            OutputsError::NoAnswer(..) => Self::Person(error.to_string()),
        }
    }
}

impl From<SecretError> for Stop {
    fn from(error: SecretError) -> Self {
        Self::Person(error.to_string())
    }
}

/// Settings of this process, whatever it works on.
const HERE: [&str; 2] = ["GLEANER_LOG", "GLEANER_DATA"];

/// What makes no sense with a stack.
pub(super) fn check(simulate: bool, on_result: Option<&str>) -> Result<(), Stop> {
    if simulate {
        return Err(Stop::Usage("--simulate is for a data folder on this machine, not for a stack".to_owned()));
    }
    if on_result.is_some() {
        return Err(Stop::Usage(
            "--on-result runs a command on this machine; a stack announces each result through EventBridge:\n\
             infra/ has an example rule"
                .to_owned(),
        ));
    }
    Ok(())
}

/// For commands that look, land files, or move a gate: no API key is read.
pub(super) async fn look(context: &Context, name: &str) -> Result<Desk, Stop> {
    let found = Found::of(context, name).await?;
    found.desk(Arc::new(Offline::default()))
}

/// For commands that talk to Gemini themselves, with the stack's own keys.
pub(super) async fn work(context: &Context, name: &str) -> Result<Desk, Stop> {
    let found = Found::of(context, name).await?;
    let keys = found.parts.keys.get().await?;
    let client = super::client(&found.settings, found.settings.base_url.clone(), keys.to_vec())?;
    found.desk(Arc::new(client))
}

/// For commands that see to webhooks: the stack's API keys, its URL, and its secret.
pub(super) async fn hooks(context: &Context, name: &str) -> Result<Hooks, Stop> {
    let found = Found::of(context, name).await?;
    let (url, secret) = (found.outputs.get("WebhookUrl")?.to_owned(), found.outputs.get("WebhookSecret")?.to_owned());
    let keys = found.parts.keys.get().await?;
    let gemini = super::client(&found.settings, found.settings.base_url.clone(), keys.to_vec())?;
    Ok(Hooks {
        gemini: Arc::new(gemini),
        secrets: Arc::new(signing_secrets(&found.config, secret.clone(), Arc::clone(&found.clock))),
        kept_in: format!("the secret {secret}"),
        folder: None,
        per_job: found.settings.webhook.url,
        url: Some(url),
        clock: found.clock,
    })
}

struct Found {
    config: SdkConfig,
    outputs: Outputs,
    parts: Stack,
    settings: Settings,
    clock: Arc<dyn Clock>,
}

impl Found {
    async fn of(context: &Context, name: &str) -> Result<Self, Stop> {
        let config = own_config().await;
        let outputs = Outputs::read(&config, name).await?;
        let names = outputs.names()?;
        // Nobody else sets it, so that what is there is the same.
        context.bucket.get_or_init(|| names.bucket.clone());
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let mut settings = settings(outputs.get("Settings")?)?;
        settings.keys_in = format!("the key in the secret {}", names.gemini_secret);
        for (name, ..) in NAMES.iter().filter(|(name, ..)| !HERE.contains(name)) {
            if std::env::var_os(name).is_some_and(|value| !value.is_empty()) {
                context.console.warn(&format!("{name} is set here and doesn't count: the stack has its own settings"));
            }
        }
        let parts = Stack::new(&config, names, Arc::clone(&clock));
        Ok(Self { config, outputs, parts, settings, clock })
    }

    fn desk(self, gemini: Arc<dyn Gemini>) -> Result<Desk, Stop> {
        let Self { parts, settings, clock, .. } = self;
        let engine = Engine {
            ledger: parts.ledger,
            objects: parts.objects,
            gemini,
            clock,
            ids: Arc::new(SystemIds),
            // What is done here is done to its end: the person at the terminal waits for it.
            work_queue: None,
            left_work: None,
            dead_letters: parts.dead_letters,
            ends: None,
            handover: Arc::new(Nobody),
            settings,
            headers: Headers::default(),
            sweeps: Default::default(),
            stopping: Arc::default(),
        };
        Ok(Desk { engine, inbox: Some(parts.inbox), _simulator: None })
    }
}

/// The settings that the stack's functions have: what is set on this machine doesn't count, so that jobs are planned
/// alike wherever they are.
fn settings(output: &str) -> Result<Settings, Stop> {
    let unreadable = |why: String| Stop::Person(format!("the stack's output Settings can't be read: {why}"));
    let values: HashMap<String, String> =
        serde_json::from_str(output).map_err(|error| unreadable(error.to_string()))?;
    let read = Settings::default().read(&|name| values.get(name).cloned());
    read.map_err(|error| unreadable(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stacks_own_settings_count() {
        let read = settings(r#"{"GLEANER_MODEL": "m", "GLEANER_POLL_MIN": "3s", "GLEANER_POLL_MAX": ""}"#).unwrap();
        assert_eq!((read.model.as_str(), read.policy.poll_min.as_secs()), ("m", 3));
        assert_eq!(read.policy.poll_max, Settings::default().policy.poll_max);
        for bad in ["", "[]", r#"{"GLEANER_POLL_MIN": "soon"}"#, r#"{"GLEANER_MODEL": 1}"#] {
            assert!(settings(bad).is_err(), "{bad}");
        }
    }
}
