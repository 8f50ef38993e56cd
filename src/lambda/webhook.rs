//! The webhook: an event that Gemini sent comes in over HTTP, and is answered at once.

use lambda_runtime::Error;
use serde_json::{Value, json};

use super::http::{Http, HttpError, answer};
use super::{Event, Service, metrics};
use crate::app::webhook::receive;

/// Serves one request.
///
/// # Errors
/// An event that is no HTTP request, which nobody sends but by mistake.
pub(super) async fn handle(service: &Service, event: &Event) -> Result<Value, Error> {
    let http = match Http::read(event.payload.get()) {
        Ok(http) => http,
        Err(error @ HttpError::NotHttp) => return Err(error.to_string().into()),
        Err(error @ HttpError::Base64) => return Ok(refusal(400, &[], &error.to_string())),
    };
    if http.method != "POST" {
        return Ok(refusal(405, &[("allow", "POST")], "events are sent with POST"));
    }
    let answered = receive(service.reception()?, &http.request).await;
    metrics::print_received(service, &answered.received)?;
    Ok(answer(answered.status, &[], &answered.body))
}

fn refusal(status: u16, headers: &[(&str, &str)], error: &str) -> Value {
    answer(status, headers, &json!({"error": error}).to_string())
}
