//! From arguments and environment to an engine: settings, keys, the data folder or the stack, and whom to send to.

mod hooks;
mod stack;

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use tokio::net::TcpListener;

pub use self::hooks::{Hooks, hooks, reception};
use super::args::Simulate;
use super::console::Console;
use super::hint::{quoted, see};
use super::outcome::Stop;
use crate::adapters::gemini::{ApiKey, CONNECT_TIMEOUT, HttpGemini, MAX_BODY, Offline, Options};
use crate::adapters::local::command::CommandHandover;
use crate::adapters::local::folder::FolderObjects;
use crate::adapters::local::{DataFolder, LEDGER, OpenError};
use crate::adapters::system::{SystemClock, SystemIds};
use crate::app::engine::{Engine, Trouble};
use crate::app::lines::Headers;
use crate::app::settings::{SettingError, Settings};
use crate::ports::clock::Clock;
use crate::ports::gemini::Gemini;
use crate::ports::handover::Handover;
use crate::ports::ids::Ids;
use crate::ports::inbox::Inbox;
use crate::ports::ledger::LedgerError;
use crate::ports::objects::{ObjectError, Objects};
use crate::simulator::faults::Faults;
use crate::simulator::{self, Config, JournalConfig, Running};

/// Where the data folder is when nobody says.
pub const DATA: &str = ".gleaner";

/// The file that marks a data folder of simulated work.
const MARKER: &str = "SIMULATED";

/// The key of simulated work. Keys are masked in messages, so it is no word that messages use.
const SIMULATED_KEY: &str = "simulator-key";

/// The waits of simulated work, where the environment doesn't set them: nobody wants to watch the real ones.
pub const SHORT_WAITS: &[(&str, &str)] = &[
    ("GLEANER_SUBMIT_LEASE", "10s"),
    ("GLEANER_POLL_MIN", "100ms"),
    ("GLEANER_POLL_MAX", "1s"),
    ("GLEANER_BACKOFF_BASE", "200ms"),
    ("GLEANER_GATE_WAIT", "1s"),
    ("GLEANER_UNCLEAR_GRACE", "5s"),
    ("GLEANER_NOT_FOUND_GRACE", "5s"),
    ("GLEANER_LIST_GAP", "2s"),
];

/// What every command knows.
#[derive(Debug)]
pub struct Context {
    /// The data folder, as it was named.
    pub data: PathBuf,
    /// Whether `GLEANER_DATA` names a data folder, this one or another.
    pub is_named_by_environment: bool,
    /// The stack to work on instead.
    pub stack: Option<String>,
    /// The stack's bucket, once it is known.
    pub(super) bucket: OnceLock<String>,
    /// The standard streams.
    pub console: Console,
}

impl Context {
    pub(super) fn new(data: Option<PathBuf>, stack: Option<String>, console: &Console) -> Self {
        let named = std::env::var_os("GLEANER_DATA").filter(|name| !name.is_empty()).map(PathBuf::from);
        Self {
            is_named_by_environment: named.is_some(),
            data: data.or(named).unwrap_or_else(|| DATA.into()),
            stack,
            bucket: OnceLock::new(),
            console: console.clone(),
        }
    }

    /// One on that data folder.
    #[cfg(test)]
    pub(super) fn on_folder(data: &str, is_named_by_environment: bool) -> Self {
        let console = Console::new(false);
        Self { data: data.into(), is_named_by_environment, stack: None, bucket: OnceLock::new(), console }
    }

    /// The file of an object, as people find it.
    pub(super) fn path(&self, object: &str) -> String {
        match self.bucket.get() {
            Some(bucket) => format!("s3://{bucket}/{object}"),
            None => self.data.join(object).display().to_string(),
        }
    }

    fn has_ledger(&self) -> bool {
        self.data.join(LEDGER).exists()
    }

    /// Whether its work is simulated.
    pub(super) fn is_simulated(&self) -> bool {
        self.stack.is_none() && self.data.join(MARKER).exists()
    }

    /// Simulated work and real work never mix in one folder.
    fn check_kind(&self, simulate: bool) -> Result<(), Stop> {
        let data = self.data.display();
        match (simulate, self.is_simulated()) {
            (true, false) if self.has_ledger() => Err(Stop::Usage(format!(
                "{data} holds real work, and simulated work never mixes with it.\n\
                 Name another folder for it, as in: gleaner --data {} ... --simulate",
                quoted(&format!("{data}-simulated"))
            ))),
            (false, true) => Err(Stop::Usage(format!(
                "{data} holds simulated work, and real work never mixes with it.\n\
                 Add --simulate to go on with it, name another folder with --data,\n\
                 or delete {data} if nobody needs it."
            ))),
            _ => Ok(()),
        }
    }

    /// A command that only looks makes nothing.
    fn check_there(&self) -> Result<(), Stop> {
        if self.has_ledger() {
            return Ok(());
        }
        Err(Stop::Usage(format!(
            "there is no data folder {}: name the one to look into with --data, or make one:\n  {}",
            self.data.display(),
            see(self, "run FILE")
        )))
    }
}

/// An engine, and what must live as long as it works.
#[derive(Debug)]
pub struct Desk {
    /// The engine.
    pub engine: Engine,
    /// The inbox, where there is one.
    pub inbox: Option<Arc<dyn Inbox>>,
    _simulator: Option<Running>,
}

/// Checked settings, and what can be told wrong before anything is touched.
struct Checked {
    settings: Settings,
    remote: Remote,
}

enum Remote {
    Nobody,
    Real(HttpGemini),
    Simulated(Config),
}

/// For commands that only look into the ledger, or move a gate.
pub async fn look(context: &Context) -> Result<Desk, Stop> {
    if let Some(name) = &context.stack {
        return stack::look(context, name).await;
    }
    let checked = Checked { settings: settings(context.is_simulated())?, remote: Remote::Nobody };
    context.check_there()?;
    desk(context, checked, None).await
}

/// For commands that take files in and send nothing. The folder is made if need be.
pub async fn land(context: &Context, simulate: bool) -> Result<Desk, Stop> {
    if let Some(name) = &context.stack {
        stack::check(simulate, None)?;
        return stack::look(context, name).await;
    }
    let checked = Checked { settings: settings(simulate)?, remote: Remote::Nobody };
    context.check_kind(simulate)?;
    if simulate {
        mark(context).await?;
    }
    desk(context, checked, None).await
}

/// For commands that talk to Gemini, or to a simulated one, about what is in the folder already.
pub async fn work_on(context: &Context, simulate: &Simulate, on_result: Option<&str>) -> Result<Desk, Stop> {
    if let Some(name) = &context.stack {
        stack::check(simulate.simulate, on_result)?;
        return stack::work(context, name).await;
    }
    // Before the key: whoever forgot --simulate has none, and needs none.
    context.check_kind(simulate.simulate)?;
    let checked = check(simulate)?;
    context.check_there()?;
    desk(context, checked, on_result).await
}

/// The same where the folder is made if need be. A stack does its work by itself: there it only looks.
pub async fn work(context: &Context, simulate: &Simulate, on_result: Option<&str>) -> Result<Desk, Stop> {
    if let Some(name) = &context.stack {
        stack::check(simulate.simulate, on_result)?;
        return stack::look(context, name).await;
    }
    context.check_kind(simulate.simulate)?;
    let checked = check(simulate)?;
    if simulate.simulate {
        mark(context).await?;
    }
    desk(context, checked, on_result).await
}

fn check(simulate: &Simulate) -> Result<Checked, Stop> {
    let settings = settings(simulate.simulate)?;
    let remote = if simulate.simulate {
        Remote::Simulated(Config {
            seed: simulate.seed.unwrap_or_default(),
            latency: simulate.latency.unwrap_or_default(),
            faults: faults(&simulate.faults)?,
            // Each command has a simulator of its own, and how often one was looked at is not in the journal that
            // they share: work that takes a number of looks would never end.
            polls_until_done: 0,
            ..Config::default()
        })
    } else {
        Remote::Real(client(&settings, settings.base_url.clone(), keys(TRY)?)?)
    };
    Ok(Checked { settings, remote })
}

/// Reads `--fault`.
pub fn faults(named: &[String]) -> Result<Faults, Stop> {
    Faults::parse(named.iter().map(String::as_str)).map_err(|error| Stop::Usage(format!("--fault: {error}")))
}

fn environment(name: &str) -> Option<String> {
    std::env::var_os(name).map(|value| value.to_string_lossy().into_owned())
}

fn settings(simulated: bool) -> Result<Settings, Stop> {
    let short = |name: &str| {
        let found = SHORT_WAITS.iter().find(|(known, _)| simulated && *known == name);
        found.map(|(_, value)| (*value).to_owned())
    };
    let read = Settings::default().read(&short).and_then(|settings| settings.read(&environment));
    read.map_err(|error: SettingError| Stop::Usage(error.to_string()))
}

/// How to do without a key.
const TRY: &str = "To try things out without a key, add --simulate.";

/// The API keys; `hint` tells how to do without.
fn keys(hint: &str) -> Result<Vec<ApiKey>, Stop> {
    let given = environment("GEMINI_API_KEY").unwrap_or_default();
    let given = given.split(',').map(str::trim).filter(|key| !key.is_empty());
    let keys: Result<Vec<ApiKey>, _> = given.map(ApiKey::new).collect();
    let keys = keys.map_err(|error| Stop::Usage(format!("the setting GEMINI_API_KEY can't be used: {error}")))?;
    if keys.is_empty() {
        return Err(Stop::Usage(format!(
            "no API key is set. Make one at https://aistudio.google.com/apikey and set it:\n  \
             export GEMINI_API_KEY=...\n{hint}"
        )));
    }
    Ok(keys)
}

fn client(settings: &Settings, base_url: String, keys: Vec<ApiKey>) -> Result<HttpGemini, Stop> {
    let (http_timeout, call_timeout) = (settings.http_timeout, settings.policy.call_timeout);
    let options =
        Options { base_url, keys, http_timeout, call_timeout, connect_timeout: CONNECT_TIMEOUT, max_body: MAX_BODY };
    HttpGemini::new(options).map_err(|error| Stop::Usage(error.to_string()))
}

/// Marks the folder before anything else is in it.
async fn mark(context: &Context) -> Result<(), Stop> {
    let objects = FolderObjects::open(&context.data, SystemClock.now()).map_err(Trouble::from)?;
    let text = "The work in this folder is simulated: `gleaner ... --simulate` made it. Delete the folder when you are done.\n";
    objects.put(MARKER, Bytes::from_static(text.as_bytes())).await.map_err(Trouble::from)?;
    Ok(())
}

async fn desk(context: &Context, checked: Checked, on_result: Option<&str>) -> Result<Desk, Stop> {
    let Checked { settings, remote } = checked;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let ids: Arc<dyn Ids> = Arc::new(SystemIds);
    let folder = DataFolder::open(&context.data, clock.now()).map_err(|error| unopened(&context.data, error))?;
    let work = folder.work_queue(Arc::clone(&clock)).map_err(Trouble::from)?;
    let dead_letters = folder.dead_letters(Arc::clone(&clock)).map_err(Trouble::from)?;
    let (gemini, simulator): (Arc<dyn Gemini>, _) = match remote {
        Remote::Nobody => (Arc::new(Offline::default()), None),
        Remote::Real(client) => (Arc::new(client), None),
        Remote::Simulated(config) => {
            let path = folder.root.join("simulator.jsonl");
            let journal = Some(JournalConfig { path, writer: ids.token() });
            let running = start(0, Config { journal, ..config }, Arc::clone(&clock)).await?;
            let key = ApiKey::new(SIMULATED_KEY).map_err(|error| Stop::Person(error.to_string()))?;
            (Arc::new(client(&settings, running.base_url(), vec![key])?), Some(running))
        }
    };
    let results = folder.root.join("results");
    let timeout = settings.on_result_timeout;
    let command = on_result.map(str::to_owned);
    let handover: Arc<dyn Handover> = Arc::new(CommandHandover::new(command, results, timeout, Arc::clone(&clock)));
    let engine = Engine {
        ledger: folder.ledger,
        objects: folder.objects,
        gemini,
        clock,
        ids,
        work_queue: None,
        left_work: Some(Arc::new(work)),
        dead_letters: Arc::new(dead_letters),
        ends: None,
        handover,
        settings,
        headers: Headers::default(),
        sweeps: Default::default(),
        stopping: Arc::default(),
    };
    Ok(Desk { engine, inbox: None, _simulator: simulator })
}

fn unopened(path: &Path, error: OpenError) -> Stop {
    match error {
        OpenError::Objects(ObjectError::Busy(why)) | OpenError::Ledger(LedgerError::Busy(why)) => Stop::Person(
            format!("the data folder {} is busy: {why}\nThis passes by itself: try again.", path.display()),
        ),
        other => Stop::Person(other.to_string()),
    }
}

/// Starts a simulator on this machine.
pub async fn start(port: u16, config: Config, clock: Arc<dyn Clock>) -> Result<Running, Stop> {
    let listener = listen(port).await?;
    let journal = config.journal.as_ref().map(|journal| format!(" with its journal {}", journal.path.display()));
    let started = simulator::start(listener, config, clock).await;
    started.map_err(|error| {
        Stop::Person(format!("the simulator{} can't be started: {error}", journal.unwrap_or_default()))
    })
}

/// Takes a port of this machine, for nobody outside of it.
pub async fn listen(port: u16) -> Result<TcpListener, Stop> {
    let listener = TcpListener::bind(("127.0.0.1", port)).await;
    listener.map_err(|error| {
        Stop::Person(format!("port {port} of 127.0.0.1 can't be listened on: {error}; --port 0 takes a free one"))
    })
}
