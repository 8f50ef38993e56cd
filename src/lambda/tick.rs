//! The tick: jobs of the event and files of the inbox are landed, then what is due is done.

use std::time::Duration;

use lambda_runtime::Error;
use serde_json::{Value, json};
use tracing::{info, warn};

use super::metrics::{self, Done};
use super::{Event, Service, event};
use crate::app::engine::{Engine, Trouble};
use crate::app::inbox::{Emptied, empty, tell};
use crate::app::land::land_from;
use crate::app::land::source::Lines;
use crate::app::tick::{Ticked, tick};
use crate::domain::time::Millis;

/// How long a tick may begin new things: the next one comes within a minute.
const LONGEST: Duration = Duration::from_secs(50);

/// How often the ledger is counted for the metrics.
const MEASURE: Duration = Duration::from_secs(300);

/// Serves one tick. An error has Lambda try the same event again and then keep it; nothing of it is done twice by that.
pub(super) async fn handle(service: &Service, event: &Event) -> Result<Value, Error> {
    let until = service.until(event.context.deadline, LONGEST)?;
    let jobs = event::jobs(&event.payload)?;
    let (engine, no_gemini) = service.engine().await?;
    let inline = match jobs {
        Some(bytes) => Some(land_jobs(&engine, Lines { file: "event".to_owned(), bytes }).await?),
        None => None,
    };
    let (emptied, inbox_trouble) = split(empty(&engine, &*service.parts()?.inbox, &service.handed_over, until).await);
    let worked: Result<Ticked, Error> = match no_gemini {
        None => work(&engine, until).await,
        Some(why) => Err(why.into()),
    };
    let done = Done {
        ticked: *worked.as_ref().unwrap_or(&Ticked::default()),
        emptied,
        troubles: u64::from(worked.is_err()) + u64::from(inbox_trouble.is_some()),
    };
    metrics::print_done(service, &done)?;
    if service.measures(MEASURE) {
        metrics::print_ledger(service, &engine).await?;
    }
    let ticked = worked?;
    if let Some(trouble) = inbox_trouble {
        return Err(trouble.into());
    }
    let (collected, submitted) = (ticked.collected, ticked.submitted);
    info!(
        tick.stepped = collected.stepped,
        tick.consumed = collected.consumed,
        tick.sent = submitted.first,
        tick.sent_again = submitted.again,
        tick.lines = submitted.lines,
        tick.landed = emptied.landed,
        tick.refused = emptied.refused,
        "ticked"
    );
    Ok(json!({
        "jobs_landed": inline, "inbox": emptied, "stepped": collected.stepped, "consumed": collected.consumed,
        "sent": submitted.first, "sent_again": submitted.again, "lines": submitted.lines,
    }))
}

/// Lands the event's own jobs. Returns the sha256 of their intake.
async fn land_jobs(engine: &Engine, lines: Lines) -> Result<String, Error> {
    let landed = land_from(engine, &lines).await?;
    tell(&lines, &landed);
    Ok(landed.intake.sha256)
}

/// Trouble with the inbox keeps nothing else from being done; it is told at the end.
fn split(emptied: Result<Emptied, Trouble>) -> (Emptied, Option<Trouble>) {
    match emptied {
        Ok(emptied) => (emptied, None),
        Err(trouble) => (Emptied::default(), Some(trouble)),
    }
}

/// Passing trouble is the next tick's; what needs a person is told by each.
async fn work(engine: &Engine, until: Millis) -> Result<Ticked, Error> {
    match tick(engine, until).await {
        Ok(ticked) => Ok(ticked),
        Err(Trouble::Passing(why)) => {
            warn!(error = why, "the tick ended early; the next one goes on");
            Ok(Ticked::default())
        }
        Err(stop) => Err(stop.into()),
    }
}
