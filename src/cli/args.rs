//! The arguments.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::NonEmptyStringValueParser;
use clap::{Parser, Subcommand, ValueEnum};

use super::help;
use crate::app::replay;
use crate::domain::job;

/// Runs Gemini work that nobody waits for, and loses none of it.
#[derive(Debug, Parser)]
#[command(name = "gleaner", version, arg_required_else_help = true, after_help = help::SHORT, after_long_help = help::long())]
pub struct Args {
    /// The data folder [GLEANER_DATA, else .gleaner]
    #[arg(long, global = true, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// A stack on AWS, instead of a data folder
    #[arg(long, global = true, value_name = "NAME", conflicts_with = "data", value_parser = NonEmptyStringValueParser::new())]
    pub stack: Option<String>,
    /// Print one JSON object; logs go to standard error
    #[arg(long, global = true)]
    pub json: bool,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Take a file of jobs or of rows in and drive it to its end
    #[command(after_help = help::RUN)]
    Run(Run),
    /// Take files in, and send nothing yet
    #[command(after_help = help::SUBMIT)]
    Submit(Submit),
    /// Do what is due once: collect results, then send what may be sent
    #[command(after_help = help::TICK)]
    Tick(Tick),
    /// Count what the ledger holds
    #[command(after_help = help::STATUS)]
    Status,
    /// Tell all about one job, file, part of a run or dead letter
    #[command(after_help = help::SHOW)]
    Show(Show),
    /// Tell what became of one row of a batch run, attempt after attempt
    #[command(after_help = help::ROW)]
    Row(Row),
    /// Write the results of a batch run as one file, in the rows' order
    #[command(after_help = help::RESULTS)]
    Results(Results),
    /// List the dead letters: what will not be tried again by itself
    #[command(after_help = help::DEAD)]
    Dead(Dead),
    /// Try dead letters anew; without --apply it only tells which
    #[command(after_help = help::REPLAY)]
    Replay(Box<Replay>),
    /// Give dead letters up, with a reason
    #[command(after_help = help::DISCARD)]
    Discard(Discard),
    /// Tell what waits for a person, and what is deleted when
    #[command(after_help = help::SUMMARY)]
    Summary,
    /// Send nothing new until `resume`; results are still collected
    #[command(after_help = help::PAUSE)]
    Pause(Pause),
    /// End a pause and open the gates, or let a run go on that waits
    #[command(after_help = help::RESUME)]
    Resume(Resume),
    /// Stop a job, or the rest of a file or run, here and at Gemini
    #[command(after_help = help::CANCEL)]
    Cancel(Cancel),
    /// See to the webhooks by which Gemini tells that work has ended
    #[command(after_help = help::WEBHOOK, subcommand_required = true, arg_required_else_help = true)]
    Webhook(Webhook),
    /// Take over a seed script's ledger, and submit nothing twice
    #[command(after_help = help::IMPORT_SEED)]
    ImportSeed(ImportSeed),
    /// Run a Gemini of your own, for trying out and for tests
    #[command(after_help = help::simulator())]
    Simulator(Simulator),
}

/// How a file is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// Each line as a background interaction
    Interaction,
    /// Each line as a plain generateContent call
    Call,
    /// All rows by Gemini's Batch API, at half the price
    Batch,
}

impl From<Mode> for job::Mode {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::Interaction => Self::Interaction,
            Mode::Call => Self::Call,
            Mode::Batch => Self::Batch,
        }
    }
}

/// Arguments of `run`.
#[derive(Debug, clap::Args)]
pub struct Run {
    /// The file of jobs or of rows, one JSON object a line
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// interaction, call or batch; else its first line says
    #[arg(long, value_name = "MODE", value_enum, hide_possible_values = true)]
    pub mode: Option<Mode>,
    /// How to work.
    #[command(flatten)]
    pub work: Work,
}

/// Arguments of `submit`.
#[derive(Debug, clap::Args)]
pub struct Submit {
    /// Files of jobs or of rows, one JSON object a line
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// interaction, call or batch; else their first line says
    #[arg(long, value_name = "MODE", value_enum, hide_possible_values = true)]
    pub mode: Option<Mode>,
    /// For a data folder of simulated work
    #[arg(long)]
    pub simulate: bool,
}

/// Arguments of `tick`.
#[derive(Debug, clap::Args)]
pub struct Tick {
    /// How to work.
    #[command(flatten)]
    pub work: Work,
}

/// How to work.
#[derive(Debug, clap::Args)]
pub struct Work {
    /// Run this shell command for each result (see below)
    #[arg(long, value_name = "CMD")]
    pub on_result: Option<String>,
    /// Whom to send to.
    #[command(flatten)]
    pub simulate: Simulate,
}

/// Whom to send to.
#[derive(Debug, clap::Args)]
pub struct Simulate {
    /// Send to a simulated Gemini: no key, no cost
    #[arg(long)]
    pub simulate: bool,
    /// Let it fail; repeatable; see `help simulator`
    #[arg(long = "fault", value_name = "NAME=RATE", requires = "simulate")]
    pub faults: Vec<String>,
    /// Which faults meet which jobs
    #[arg(long, value_name = "N", requires = "simulate")]
    pub seed: Option<u64>,
    /// How long its work takes, such as 50ms
    #[arg(long, value_name = "TIME", requires = "simulate", value_parser = duration)]
    pub latency: Option<Duration>,
}

/// Arguments of `show`.
#[derive(Debug, clap::Args)]
pub struct Show {
    /// A job's key, Gemini's id of it, a file's sha256 or name, or any id
    #[arg(value_name = "ID")]
    pub id: String,
}

/// Arguments of `row`.
#[derive(Debug, clap::Args)]
pub struct Row {
    /// The run: its key, the first six digits or more, or its file's name
    #[arg(value_name = "RUN")]
    pub run: String,
    /// The row's key
    #[arg(value_name = "KEY")]
    pub key: String,
}

/// Arguments of `results`.
#[derive(Debug, clap::Args)]
pub struct Results {
    /// The run: its key, the first six digits or more, or its file's name
    #[arg(value_name = "RUN")]
    pub run: String,
    /// Write to this file, whole or not at all
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Also write dead rows, each in its place, with its error
    #[arg(long)]
    pub with_dead: bool,
}

/// Arguments of `resume`.
#[derive(Debug, clap::Args)]
pub struct Resume {
    /// A batch run that waits because too many of its rows died
    #[arg(value_name = "RUN")]
    pub run: Option<String>,
}

/// Arguments of `dead`.
#[derive(Debug, clap::Args)]
pub struct Dead {
    /// Only of this batch run
    #[arg(long, value_name = "RUN")]
    pub run: Option<String>,
    /// Only this class, or all that go on with a colon
    #[arg(long, value_name = "CLASS")]
    pub class: Option<String>,
    /// Only this one; repeatable
    #[arg(long = "id", value_name = "ID")]
    pub ids: Vec<String>,
    /// Only of this mode: interaction, call or batch
    #[arg(long, value_name = "MODE", value_enum, hide_possible_values = true)]
    pub mode: Option<LetterMode>,
    /// Only those that died so long ago, such as 12h or 7d
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub older_than: Option<Duration>,
    /// At most so many, oldest first [100; all with --json]
    #[arg(long, value_name = "N", value_parser = one_or_more)]
    pub limit: Option<usize>,
}

/// What a dead letter was sent as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LetterMode {
    /// A background interaction.
    Interaction,
    /// A plain call.
    Call,
    /// A row, or an attempt, of a batch run.
    Batch,
}

impl From<LetterMode> for job::Mode {
    fn from(mode: LetterMode) -> Self {
        match mode {
            LetterMode::Interaction => Self::Interaction,
            LetterMode::Call => Self::Call,
            LetterMode::Batch => Self::Batch,
        }
    }
}

/// Which dead letters are meant.
#[derive(Debug, clap::Args)]
pub struct Letters {
    /// Only these, as `dead` lists them; six digits of one will do
    #[arg(value_name = "ID")]
    pub ids: Vec<String>,
    /// Only this class, or all that go on with a colon
    #[arg(long, value_name = "CLASS")]
    pub class: Option<String>,
    /// Only of this batch run
    #[arg(long, value_name = "RUN")]
    pub run: Option<String>,
    /// At most so many, oldest first [20, or all named]
    #[arg(long, value_name = "N", value_parser = one_or_more)]
    pub limit: Option<usize>,
}

/// Arguments of `replay`.
#[derive(Debug, clap::Args)]
pub struct Replay {
    /// Which.
    #[command(flatten)]
    pub letters: Letters,
    /// Send to another model
    #[arg(long, value_name = "MODEL")]
    pub model: Option<String>,
    /// Merge fields into the request; null takes one out
    #[arg(long, value_name = "JSON")]
    pub request: Option<String>,
    /// How rows of a run go out: batch (the default) or call
    #[arg(long, value_name = "HOW", value_enum, hide_possible_values = true)]
    pub rows_by: Option<RowsBy>,
    /// For whoever wonders; --apply needs it
    #[arg(long, value_name = "WHY")]
    pub reason: Option<String>,
    /// Do it
    #[arg(long, requires = "reason")]
    pub apply: bool,
    /// Whom to send to.
    #[command(flatten)]
    pub simulate: Simulate,
}

/// How rows go out again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum RowsBy {
    /// As a small batch.
    Batch,
    /// As plain calls.
    Call,
}

impl From<RowsBy> for replay::RowsBy {
    fn from(by: RowsBy) -> Self {
        match by {
            RowsBy::Batch => Self::Batch,
            RowsBy::Call => Self::Call,
        }
    }
}

/// Arguments of `discard`.
#[derive(Debug, clap::Args)]
pub struct Discard {
    /// Which.
    #[command(flatten)]
    pub letters: Letters,
    /// For whoever wonders
    #[arg(long, value_name = "WHY", value_parser = NonEmptyStringValueParser::new())]
    pub reason: Option<String>,
    /// Do it; with IDs it is done without this
    #[arg(long, requires = "reason")]
    pub apply: bool,
}

/// Arguments of `pause`.
#[derive(Debug, clap::Args)]
pub struct Pause {
    /// For whoever wonders
    #[arg(long, value_name = "WHY", default_value = "paused by hand")]
    pub reason: String,
}

/// Arguments of `cancel`.
#[derive(Debug, clap::Args)]
pub struct Cancel {
    /// A job's key, Gemini's id of it, a file or run, or a bad line's id
    #[arg(value_name = "ID")]
    pub id: String,
    /// For whoever wonders
    #[arg(long, value_name = "WHY", default_value = "cancelled by hand")]
    pub reason: String,
    /// Whom it was sent to.
    #[command(flatten)]
    pub simulate: Simulate,
}

/// Arguments of `import-seed`.
#[derive(Debug, clap::Args)]
pub struct ImportSeed {
    /// The SQLite file, with a table jobs, rows or dead_letter
    #[arg(value_name = "FILE.db")]
    pub file: PathBuf,
    /// For a data folder of simulated work
    #[arg(long)]
    pub simulate: bool,
}

/// Arguments of `webhook`.
#[derive(Debug, clap::Args)]
pub struct Webhook {
    /// What to do.
    #[command(subcommand)]
    pub command: WebhookCommand,
}

/// What to do with webhooks.
#[derive(Debug, Subcommand)]
pub enum WebhookCommand {
    /// Have Gemini send events to a URL, and keep its signing secret
    #[command(after_help = help::WEBHOOK_REGISTER)]
    Register(Register),
    /// List the webhooks of the API key's project
    #[command(after_help = help::WEBHOOK_LIST)]
    List,
    /// Have Gemini send an event now
    #[command(after_help = help::WEBHOOK_PING)]
    Ping(Ping),
    /// Have Gemini sign with a new secret, and keep it
    #[command(after_help = help::WEBHOOK_ROTATE)]
    Rotate(Rotate),
    /// Delete a webhook at Gemini, and its secrets here
    #[command(after_help = help::WEBHOOK_DELETE)]
    Delete(Delete),
    /// Take events on this machine, for the data folder
    #[command(after_help = help::WEBHOOK_SERVE)]
    Serve(Serve),
}

/// Arguments of `webhook register`.
#[derive(Debug, clap::Args)]
pub struct Register {
    /// Where to send events [GLEANER_WEBHOOK_URL, or the stack's own]
    #[arg(value_name = "URL", value_parser = NonEmptyStringValueParser::new())]
    pub url: Option<String>,
    /// Which ones; repeatable [all of jobs and of batches]
    #[arg(long = "event", value_name = "EVENT", value_parser = NonEmptyStringValueParser::new())]
    pub events: Vec<String>,
    /// What people call it
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub name: Option<String>,
}

/// Arguments of `webhook ping`.
#[derive(Debug, clap::Args)]
pub struct Ping {
    /// The webhook [ours: by its URL, or by the secrets kept here]
    #[arg(value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
    pub id: Option<String>,
}

/// Arguments of `webhook rotate`.
#[derive(Debug, clap::Args)]
pub struct Rotate {
    /// The webhook [ours: by its URL, or by the secrets kept here]
    #[arg(value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
    pub id: Option<String>,
    /// End the older secrets at once, not in 24 hours
    #[arg(long)]
    pub now: bool,
}

/// Arguments of `webhook delete`.
#[derive(Debug, clap::Args)]
pub struct Delete {
    /// The webhook
    #[arg(value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
    pub id: String,
    /// Remove its secrets here although Gemini has it no more
    #[arg(long)]
    pub forget: bool,
}

/// Arguments of `webhook serve`.
#[derive(Debug, clap::Args)]
pub struct Serve {
    /// The port at 127.0.0.1; 0 takes a free one
    #[arg(long, value_name = "N")]
    pub port: u16,
}

/// Arguments of `simulator`.
#[derive(Debug, clap::Args)]
pub struct Simulator {
    /// The port at 127.0.0.1; 0 takes a free one
    #[arg(long, value_name = "N")]
    pub port: u16,
    /// Which faults meet which jobs
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
    /// How long work takes, such as 50ms
    #[arg(long, value_name = "TIME", default_value = "0ms", value_parser = duration)]
    pub latency: Duration,
    /// Looks that find a job running
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub polls: u32,
    /// What goes wrong, from the list below
    #[arg(long = "fault", value_name = "NAME=RATE", num_args = 1..)]
    pub faults: Vec<String>,
    /// Remember accepted work beyond a restart
    #[arg(long, value_name = "FILE")]
    pub journal: Option<PathBuf>,
    /// Least bytes of a row's answer
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub answer_bytes: usize,
    /// When an unended batch expires
    #[arg(long, value_name = "TIME", default_value = "48h", value_parser = duration)]
    pub batch_expiry: Duration,
    /// Batches under way at once
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub batch_jobs: usize,
    /// Tokens of batches under way [no limit]
    #[arg(long, value_name = "N")]
    pub batch_tokens: Option<u64>,
    /// How late the fault event-late is
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = duration)]
    pub event_late: Duration,
    /// When an event is first sent again
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = duration)]
    pub event_retry: Duration,
}

/// Reads a number of things.
fn one_or_more(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|n| *n > 0).ok_or_else(|| "it must be a number, 1 or more".to_owned())
}

/// Reads a duration as settings are written.
fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|error| format!("{error}; durations are written 250ms, 10s, 15m, 72h"))
}
