//! The tick: jobs of the event and files of the inbox are landed, then what is due is done.

use std::time::Duration;

use lambda_runtime::Error;
use serde_json::{Value, json};
use tracing::{error, info};

use super::metrics::{self, Done};
use super::{Event, Service, event};
use crate::app::engine::Engine;
use crate::app::inbox::{empty, tell};
use crate::app::land::land_from;
use crate::app::land::source::Lines;
use crate::app::tick::{Ticked, tick};

/// How long a tick may begin new things: the next one comes within a minute.
const LONGEST: Duration = Duration::from_secs(50);

/// How much of that is for the inbox: a full one must not keep results from being collected.
const INBOX: Duration = Duration::from_secs(15);

/// How often the ledger is counted for the metrics.
const MEASURE: Duration = Duration::from_secs(300);

/// Serves one tick.
///
/// Only what was not taken is an error: an event that can't be read, or whose jobs could not be landed. Lambda tries
/// such an event again and then keeps it; nothing of it is done twice by that. All other trouble is the next tick's too:
/// it is logged, counted, and told in the answer.
pub(super) async fn handle(service: &Service, event: &Event) -> Result<Value, Error> {
    let until = service.until(event.context.deadline, LONGEST)?;
    let jobs = event::jobs(&event.payload)?;
    let (engine, no_gemini) = service.engine_until(event.context.deadline).await?;
    let inline = match jobs {
        Some(bytes) => Some(land_jobs(&engine, Lines { file: "event".to_owned(), bytes }).await?),
        None => None,
    };
    let share = until.min(engine.clock.now().plus(INBOX));
    let (emptied, in_inbox) = empty(&engine, &*service.parts()?.inbox, &service.handed_over, share).await;
    let worked = match no_gemini {
        None => tick(&engine, until).await.map_err(|trouble| trouble.to_string()),
        Some(why) => Err(why.to_string()),
    };
    let (ticked, at_work) = match worked {
        Ok(ticked) => (ticked, None),
        Err(why) => (Ticked::default(), Some(why)),
    };
    let troubles: Vec<String> = in_inbox.map(|trouble| trouble.to_string()).into_iter().chain(at_work).collect();
    for trouble in &troubles {
        error!(trouble, "the tick met trouble; the next one goes on");
    }
    metrics::print_done(service, &Done { ticked, emptied, troubles: troubles.len() as u64 })?;
    if service.measures(MEASURE) {
        metrics::print_ledger(service, &engine).await?;
    }
    let (collected, submitted) = (ticked.collected, ticked.submitted);
    info!(
        tick.stepped = collected.stepped,
        tick.consumed = ticked.consumed(),
        tick.sent = submitted.first,
        tick.sent_again = submitted.again,
        tick.lines = submitted.lines,
        tick.landed = emptied.landed,
        tick.refused = emptied.refused,
        tick.troubles = troubles.len(),
        "ticked"
    );
    Ok(json!({
        "jobs_landed": inline, "inbox": emptied, "stepped": collected.stepped, "consumed": ticked.consumed(),
        "sent": submitted.first, "sent_again": submitted.again, "lines": submitted.lines, "troubles": troubles,
    }))
}

/// Lands the event's own jobs. Returns the sha256 of their intake.
async fn land_jobs(engine: &Engine, lines: Lines) -> Result<String, Error> {
    let landed = land_from(engine, &lines, None).await?;
    tell(&lines, &landed);
    Ok(landed.intake.sha256)
}
