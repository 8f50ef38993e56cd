//! What a function works with, made once a process: clients, settings, keys.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lambda_runtime::Error;
use thiserror::Error;

use super::environment::{Environment, Function, Parts};
use crate::adapters::aws::secrets::SecretError;
use crate::adapters::aws::stack::{Desk, Door, Stack};
use crate::adapters::gemini::{ApiKey, HttpGemini, HttpPublicKeys, Offline, Options, OptionsError};
use crate::adapters::system::{SystemClock, SystemIds};
use crate::app::engine::Engine;
use crate::app::inbox::HandedOver;
use crate::app::letters::Sweeps;
use crate::app::lines::Headers;
use crate::app::settings::Settings;
use crate::app::webhook::Reception;
use crate::domain::time::Millis;
use crate::ports::clock::Clock;
use crate::ports::gemini::Gemini;
use crate::ports::handover::Nobody;
use crate::ports::queue::Queue;

/// How long what is under way may take after the last thing was begun, beyond one request to Gemini: the ledger's
/// writes, tried again for a while.
const MARGIN: Duration = Duration::from_secs(20);

/// How late the table's index may show a handle: no document bounds it, and it is milliseconds as a rule. Only an event of
/// an unknown handle waits for it.
const HANDLES_LAG: Duration = Duration::from_millis(300);

/// Why Gemini can't be asked.
#[derive(Debug, Error)]
pub enum NoGemini {
    /// There are no keys.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// The client can't be made.
    #[error(transparent)]
    Options(#[from] OptionsError),
}

/// The time-out of a function leaves no time to work in.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "{left:?} are left of the function's time-out, and {needed:?} must be kept for what is under way \
     (GLEANER_HTTP_TIMEOUT and {MARGIN:?}): raise the function's time-out"
)]
pub struct TooShort {
    left: Duration,
    needed: Duration,
}

/// A client, with the keys that it was made of.
type Client = (Arc<Vec<ApiKey>>, Arc<dyn Gemini>);

/// What a function works with.
#[derive(Debug)]
pub struct Service {
    /// The stack's name.
    pub stack_name: String,
    /// Time.
    pub clock: Arc<dyn Clock>,
    settings: Settings,
    /// Whether it may leave long work to somebody else. The worker is that somebody.
    hands_over: bool,
    parts: Option<Stack>,
    reception: Option<Reception>,
    desk: Option<Desk>,
    headers: Headers,
    sweeps: Sweeps,
    /// Long files handed over lately.
    pub(super) handed_over: HandedOver,
    client: Mutex<Option<Client>>,
    measured: Mutex<Option<Millis>>,
}

impl Service {
    /// Makes the clients. Nothing is sent.
    ///
    /// # Errors
    /// Settings that no client can be made of.
    pub fn new(environment: Environment) -> Result<Self, Error> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let mut settings = environment.settings;
        let (mut parts, mut reception, mut desk) = (None, None, None);
        match environment.parts {
            Parts::All(names) => {
                settings.keys_in = format!("the key in the secret {}", names.gemini_secret);
                parts = Some(Stack::new(&environment.aws, names, Arc::clone(&clock)));
            }
            Parts::Door(names) => {
                let Door { ledger, work_queue, secrets } = Door::new(&environment.aws, names, Arc::clone(&clock));
                let public_keys = HttpPublicKeys::new(settings.webhook_keys(), Arc::clone(&clock))?;
                reception = Some(Reception {
                    ledger,
                    work_queue,
                    clock: Arc::clone(&clock),
                    ids: Arc::new(SystemIds),
                    secrets,
                    public_keys: Arc::new(public_keys),
                    audience: settings.webhook.audience.clone(),
                    policy: settings.policy.clone(),
                    handles_lag: HANDLES_LAG,
                });
            }
            Parts::Desk(names) => desk = Some(Desk::new(&environment.aws, names)),
        }
        Ok(Self {
            stack_name: environment.stack,
            clock,
            settings,
            hands_over: environment.function != Function::Worker,
            parts,
            reception,
            desk,
            headers: Headers::default(),
            sweeps: Sweeps::at_every_tick(),
            handed_over: HandedOver::default(),
            client: Mutex::default(),
            measured: Mutex::default(),
        })
    }

    /// The parts of the stack.
    ///
    /// # Errors
    /// A function that was told of none.
    pub(super) fn parts(&self) -> Result<&Stack, Error> {
        self.parts.as_ref().ok_or_else(|| "this function was told of no table".into())
    }

    /// What events are received with.
    ///
    /// # Errors
    /// A function that was told of no such parts.
    pub(super) fn reception(&self) -> Result<&Reception, Error> {
        self.reception.as_ref().ok_or_else(|| "this function was told of no table".into())
    }

    /// The parts that tell what waits.
    ///
    /// # Errors
    /// A function that was told of no such parts.
    pub(super) fn desk(&self) -> Result<&Desk, Error> {
        self.desk.as_ref().ok_or_else(|| "this function was told of no table".into())
    }

    /// An engine on the stack for an invocation that is ended at `deadline`, and why it can't ask Gemini, if so: files can
    /// be landed without.
    ///
    /// # Errors
    /// A function that was told of no stack.
    pub(super) async fn engine_until(&self, deadline: u64) -> Result<(Engine, Option<NoGemini>), Error> {
        let (mut engine, missing) = self.engine().await?;
        engine.ends = Some(Millis(i64::try_from(deadline).unwrap_or(i64::MAX)));
        Ok((engine, missing))
    }

    /// The same for what takes no time to speak of.
    ///
    /// # Errors
    /// As [`Service::engine_until`].
    pub(super) async fn engine(&self) -> Result<(Engine, Option<NoGemini>), Error> {
        let parts = self.parts()?;
        let (gemini, missing): (Arc<dyn Gemini>, _) = match self.gemini(parts).await {
            Ok(client) => (client, None),
            Err(why) => (Arc::new(Offline::default()), Some(why)),
        };
        let engine = Engine {
            ledger: Arc::<crate::adapters::aws::dynamodb::DynamoLedger>::clone(&parts.ledger),
            objects: Arc::<crate::adapters::aws::s3::S3Objects>::clone(&parts.objects),
            gemini,
            clock: Arc::clone(&self.clock),
            ids: Arc::new(SystemIds),
            work_queue: self.hands_over.then(|| parts.work_queue.clone() as Arc<dyn Queue>),
            left_work: None,
            dead_letters: parts.dead_letters.clone() as Arc<dyn Queue>,
            ends: None,
            // The bucket announces each new result by itself.
            handover: Arc::new(Nobody),
            settings: self.settings.clone(),
            headers: self.headers.clone(),
            sweeps: self.sweeps.clone(),
            stopping: Arc::default(),
        };
        Ok((engine, missing))
    }

    /// The client; a new one only when the keys have changed.
    async fn gemini(&self, parts: &Stack) -> Result<Arc<dyn Gemini>, NoGemini> {
        let keys = parts.keys.get().await?;
        let made = self.client.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some((of, client)) = made
            && Arc::ptr_eq(&of, &keys)
        {
            return Ok(client);
        }
        let options = Options {
            base_url: self.settings.base_url.clone(),
            http_timeout: self.settings.http_timeout,
            call_timeout: self.settings.policy.call_timeout,
            ..Options::new(keys.to_vec())
        };
        let client: Arc<dyn Gemini> = Arc::new(HttpGemini::new(options)?);
        *self.client.lock().unwrap_or_else(PoisonError::into_inner) = Some((keys, Arc::clone(&client)));
        Ok(client)
    }

    /// Until when an invocation that ends at `deadline` may begin new things: at most for `longest`, and so that one
    /// request to Gemini that is begun last can time out and be written down.
    ///
    /// # Errors
    /// No time at all.
    pub(super) fn until(&self, deadline: u64, longest: Duration) -> Result<Millis, TooShort> {
        let now = self.clock.now();
        let deadline = Millis(i64::try_from(deadline).unwrap_or(i64::MAX));
        let left = deadline.since(now);
        let needed = self.settings.http_timeout + MARGIN;
        match left.checked_sub(needed) {
            Some(free) if !free.is_zero() => Ok(now.plus(free.min(longest))),
            _ => Err(TooShort { left, needed }),
        }
    }

    /// Whether the ledger is to be measured now: at most once in `every`.
    pub(super) fn measures(&self, every: Duration) -> bool {
        let now = self.clock.now();
        let mut measured = self.measured.lock().unwrap_or_else(PoisonError::into_inner);
        let is_time = measured.is_none_or(|at| now.since(at) >= every);
        if is_time {
            *measured = Some(now);
        }
        is_time
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(http_timeout: &str) -> Service {
        let variable = |name: &str| match name {
            "_HANDLER" => Some("summary".to_owned()),
            "GLEANER_TABLE" => Some("t".to_owned()),
            "GLEANER_HTTP_TIMEOUT" => Some(http_timeout.to_owned()),
            _ => None,
        };
        Service::new(Environment::of(&variable).unwrap()).unwrap()
    }

    fn deadline(service: &Service, left: u64) -> u64 {
        u64::try_from(service.clock.now().plus(Duration::from_secs(left)).0).unwrap()
    }

    #[test]
    fn nothing_is_begun_that_could_not_be_written_down_before_the_deadline() {
        let service = service("60s");
        let longest = Duration::from_secs(50);
        for left in [81, 100, 180, 900] {
            let deadline = deadline(&service, left);
            let until = service.until(deadline, longest).unwrap();
            assert!(until <= service.clock.now().plus(longest));
            assert!(until.plus(Duration::from_secs(80)).0 <= i64::try_from(deadline).unwrap(), "{left}");
        }
        for left in [0, 3, 79] {
            let error = service.until(deadline(&service, left), longest).unwrap_err().to_string();
            assert!(error.contains("raise the function's time-out"), "{error}");
        }
    }

    #[test]
    fn the_ledger_is_measured_once_in_a_while() {
        let service = service("1s");
        let hour = Duration::from_secs(3600);
        assert_eq!([service.measures(hour), service.measures(hour), service.measures(hour)], [true, false, false]);
        assert!(service.measures(Duration::ZERO));
    }

    #[test]
    fn a_function_without_a_stack_says_so() {
        assert!(service("1s").parts().is_err());
    }
}
