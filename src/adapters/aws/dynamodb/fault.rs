//! What went wrong at DynamoDB, in words that say what to do. No secret is in them: what AWS says of a signature that
//! doesn't fit has the session's token in it, and a program that brings credentials may print anything.

use std::error::Error;
use std::fmt::Display;

use aws_sdk_dynamodb::config::http::HttpResponse;
use aws_sdk_dynamodb::error::{ConnectorError, ProvideErrorMetadata, SdkError};

use crate::domain::job::clip;
use crate::ports::ledger::LedgerError;

/// How much of AWS's own words is told, in bytes.
const MESSAGE_BYTES: usize = 300;

/// The error of a call that was `doing` something with `table`.
pub fn of<E: ProvideErrorMetadata>(
    table: &str,
    doing: impl Display,
    error: &SdkError<E, HttpResponse>,
) -> LedgerError {
    match error {
        SdkError::ServiceError(answer) => of_service(table, doing, answer.err(), answer.raw().status().as_u16()),
        SdkError::DispatchFailure(failure) => of_dispatch(table, doing, failure.as_connector_error()),
        SdkError::TimeoutError(_) => busy(table, doing, "no answer in time"),
        SdkError::ResponseError(_) => busy(table, doing, "the answer could not be read"),
        _ => person(table, doing, "the request could not be made, which is a fault of this program; report it", ""),
    }
}

fn of_service(table: &str, doing: impl Display, error: &impl ProvideErrorMetadata, status: u16) -> LedgerError {
    let code = error.code().unwrap_or("no error code");
    let message = clip(error.message().unwrap_or_default(), MESSAGE_BYTES);
    let told = if message.is_empty() { code.to_owned() } else { format!("{code}: {message}") };
    match code {
        "ProvisionedThroughputExceededException"
        | "ThrottlingException"
        | "RequestLimitExceeded"
        | "LimitExceededException"
        | "TransactionConflictException"
        | "TransactionInProgressException"
        | "ReplicatedWriteConflictException"
        | "InternalServerError"
        | "ServiceUnavailable" => busy(table, doing, &told),
        _ if status >= 500 || status == 429 || status == 408 => busy(table, doing, &format!("{status}, {told}")),
        "ResourceNotFoundException" => {
            let advice = "there is no such table in this account and region; deploy the stack, or name the table of \
                          one that is deployed";
            person(table, doing, advice, &told)
        }
        "AccessDeniedException" => {
            let advice = "AWS refuses access; the role or user that this runs as needs GetItem, BatchGetItem and \
                          PutItem on the table and Query on its indexes";
            person(table, doing, advice, &told)
        }
        "UnrecognizedClientException"
        | "InvalidSignatureException"
        | "IncompleteSignatureException"
        | "MissingAuthenticationTokenException"
        | "InvalidClientTokenId"
        | "ExpiredToken"
        | "ExpiredTokenException"
        | "RequestExpired" => {
            let advice = "AWS does not accept the credentials; log in again or look at AWS_PROFILE and the AWS_… \
                          variables, and at this machine's clock";
            person(table, doing, advice, code)
        }
        "ValidationException" if message.contains("size has exceeded") => {
            person(table, doing, "the item is larger than the 400 KB that DynamoDB holds", &told)
        }
        "ValidationException" => {
            let advice = "DynamoDB finds the request invalid; the table must be the one that the stack's template \
                          makes, with its indexes; if it is, report it";
            person(table, doing, advice, &told)
        }
        _ => {
            let advice = "this is not expected; the address must be DynamoDB's (look at AWS_ENDPOINT_URL), else \
                          report it";
            person(table, doing, advice, &format!("{status}, {told}"))
        }
    }
}

/// A request that may not have got as far as AWS.
fn of_dispatch(table: &str, doing: impl Display, error: Option<&ConnectorError>) -> LedgerError {
    let Some(error) = error else { return busy(table, doing, "the connection failed") };
    if error.is_timeout() {
        return busy(table, doing, "no answer in time");
    }
    let passing = error.is_io() || error.as_other().is_some();
    // Of the errors below it only this one is told, and not what that one is made of.
    let why = error.source().map(ToString::to_string).unwrap_or_default();
    if passing {
        return busy(table, doing, &format!("the connection failed: {}", clip(&why, MESSAGE_BYTES)));
    }
    // Credentials, the region and the endpoint are looked up while a request is on its way out.
    if why.contains("timed out") {
        return busy(table, doing, &clip(&why, MESSAGE_BYTES));
    }
    let advice = "this machine's AWS settings don't do; set credentials (log in, or AWS_PROFILE) and a region \
                  (AWS_REGION)";
    person(table, doing, advice, &clip(&why, MESSAGE_BYTES))
}

fn busy(table: &str, doing: impl Display, why: &str) -> LedgerError {
    LedgerError::Busy(format!("table {table}, {doing}: {why}"))
}

fn person(table: &str, doing: impl Display, advice: &str, told: &str) -> LedgerError {
    let told = if told.is_empty() { String::new() } else { format!(" ({told})") };
    LedgerError::NeedsPerson(format!("table {table}, {doing}: {advice}{told}"))
}

/// The error of an item, or an entry of an index, that can't be read.
pub fn unreadable(table: &str, id: &str, reason: &str) -> LedgerError {
    LedgerError::NeedsPerson(format!(
        "table {table}: what is stored as {id} can't be read ({reason}); mend it in the DynamoDB console, or restore \
         the table to an earlier time beside this one and copy the item over"
    ))
}
