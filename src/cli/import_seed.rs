//! `import-seed`: a ledger of a seed script taken over.

use serde_json::json;

use super::args::{ImportSeed, Simulate};
use super::hint::{quoted, see};
use super::open::{self, Context, Desk};
use super::outcome::{Exit, Stop};
use super::table::{align_right, count, low_row, plain, table, text, wrapped};
use crate::adapters::local::seed::{Scratch, SeedFile};
use crate::adapters::system::SystemIds;
use crate::app::import::{ImportError, Imported, Outcomes, import};
use crate::ports::ids::Ids;
use crate::ports::seed::{Refused, SeedError};

/// How many things that are not taken over are told one by one; with --json all are.
const TOLD: usize = 20;

impl From<SeedError> for Stop {
    fn from(error: SeedError) -> Self {
        match error {
            SeedError::Unusable(why) => Self::Usage(why),
            SeedError::Scratch(_) => Self::Person(error.to_string()),
        }
    }
}

impl From<ImportError> for Stop {
    fn from(error: ImportError) -> Self {
        match error {
            ImportError::Seed(error) => error.into(),
            ImportError::Trouble(trouble) => trouble.into(),
        }
    }
}

/// Takes it over.
pub async fn import_seed(context: &Context, args: &ImportSeed) -> Result<Exit, Stop> {
    let scratch = Scratch::new(&SystemIds.token())?;
    // Before a data folder is made for it.
    let (path, folder) = (args.file.clone(), scratch.path().to_owned());
    let opened = tokio::task::spawn_blocking(move || SeedFile::open(&path, &folder)).await;
    let seed = opened.map_err(|error| Stop::Person(format!("reading broke off: {error}")))??;
    let desk = desk(context, args).await?;
    let name = args.file.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let imported = import(&desk.engine, Box::new(seed), &name, scratch.path()).await?;
    context.console.tell(&json!({
        "jobs": imported.jobs, "rows": imported.rows, "dead_letters": imported.dead_letters,
        "run": imported.run, "held": imported.held, "unfinished": imported.unfinished, "refused": imported.refused, "unsent": imported.unsent,
    }))?;
    tell(context, &imported)?;
    Ok(if imported.refused.is_empty() { Exit::Done } else { Exit::Parked })
}

/// With the API key: it is written down which key may see what was sent.
async fn desk(context: &Context, args: &ImportSeed) -> Result<Desk, Stop> {
    let simulate = Simulate { simulate: args.simulate, faults: Vec::new(), seed: None, latency: None };
    match context.stack {
        Some(_) => open::work_on(context, &simulate, None).await,
        None => open::work(context, &simulate, None).await,
    }
}

fn tell(context: &Context, imported: &Imported) -> Result<(), Stop> {
    let console = &context.console;
    for Refused { table, key, why } in imported.refused.iter().take(TOLD) {
        let key = key.as_deref().map(|key| format!(" {}", plain(key))).unwrap_or_default();
        console.note(&format!("not taken over: {}{key}: {}", plain(table), plain(why)));
    }
    let untold = imported.refused.len().saturating_sub(TOLD);
    if untold > 0 {
        console.note(&format!("not taken over: and {untold} more; --json has them all"));
    }
    if !imported.unsent.is_empty() {
        let fields: Vec<String> = imported.unsent.iter().map(|field| plain(field)).collect();
        console.note(&wrapped(&format!("fields of payloads that are kept, and not sent: {}", fields.join(", "))));
    }
    let mut rows = table(&["table", "became", "entries"]);
    for (name, outcomes) in
        [("jobs", &imported.jobs), ("rows", &imported.rows), ("dead_letter", &imported.dead_letters)]
    {
        for (outcome, entries) in outcomes {
            rows.add_row(low_row([name.to_owned(), became(outcome).to_owned(), entries.to_string()], 2));
        }
    }
    align_right(&mut rows, [2]);
    console.say(&text(rows))?;
    let has = |outcomes: &Outcomes, outcome: &str| outcomes.get(outcome).copied().unwrap_or(0);
    if has(&imported.jobs, "submitted") > 0 {
        console.say(&format!("What is at Gemini is collected by `{}`.", see(context, "tick")))?;
    }
    let waiting = has(&imported.jobs, "no_payload");
    if waiting > 0 {
        let wait = if waiting == 1 { "waits for its line" } else { "wait for their lines" };
        let run = see(context, "run FILE");
        console
            .say(&wrapped(&format!("{} {wait}: hand the file in, as with `{run}`.", count(waiting, "reservation"))))?;
    }
    if imported.unfinished {
        let tick = see(context, "tick");
        console.say(&wrapped(&format!(
            "An import of this file was ended in the middle: not every dead row is listed yet. `{tick}` does the rest, in some \
             minutes from now."
        )))?;
    }
    if let (Some(run), true) = (&imported.run, imported.held) {
        let start: String = run.chars().take(12).collect();
        let resume = see(context, &format!("resume {}", quoted(&start)));
        console.say(&wrapped(&format!(
            "The run {start} is held: its open rows may be in a batch that is under way. When none is, `{resume}` sends them."
        )))?;
    }
    Ok(())
}

/// An outcome for people.
fn became(outcome: &str) -> &str {
    match outcome {
        "submitted" => "submitted, to be collected",
        "no_payload" => "parked until the line is handed in",
        "failed" => "parked: the script saw it fail",
        "dead" => "dead rows",
        "bad_payload" => "parked: the payload can't be sent",
        "bad_lines" => "parked: the row can't be sent",
        "before" => "here before, and left as it is",
        other => other,
    }
}
