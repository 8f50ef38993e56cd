//! What went wrong in AWS, in words that say what to do.

use std::error::Error;

use aws_sdk_s3::error::{ProvideErrorMetadata, SdkError};

/// What a failed call means for who made it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// Throttled, out of reach, or no answer. The call may have been done or not; it may be made again.
    Busy(String),
    /// A person must act. Nothing was done.
    NeedsPerson(String),
}

/// Codes that say: not now, whatever the status is that they come with.
///
/// S3 sends some of them in the body of a 200, for calls that take long, and `RequestTimeout` with a 400
/// (<https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html>). Of SQS: `OverLimit` (too many messages are
/// being worked on) and its own words for throttling.
const PASSING: [&str; 13] = [
    "InternalError",
    "InternalFailure",
    "ServiceUnavailable",
    "SlowDown",
    "RequestTimeout",
    "RequestTimeoutException",
    "OperationAborted",
    "TemporaryRedirect",
    "ConditionalRequestConflict",
    "TooManyRequestsException",
    "RequestLimitExceeded",
    "BandwidthLimitExceeded",
    "OverLimit",
];

/// Whether an error's code is one that passes by itself.
pub fn passes(code: &str) -> bool {
    let code = bare(code);
    PASSING.contains(&code) || code.contains("Throttl")
}

/// A code without the prefixes that SQS has kept from its older protocol: `AWS.SimpleQueueService.NonExistentQueue`.
pub fn bare(code: &str) -> &str {
    code.rsplit(['.', '#']).next().unwrap_or(code)
}

/// Judges the error of a call, which `what` names: `reading s3://bucket/name`.
pub fn judge<E>(what: &str, error: &SdkError<E>) -> Fault
where
    E: ProvideErrorMetadata + Error + 'static,
{
    let words = format!("{what}: {}", words(error));
    match error {
        SdkError::ServiceError(answered) => {
            let code = answered.err().code().map(bare).unwrap_or_default();
            let status = answered.raw().status().as_u16();
            // A code tells more than a status; most statuses stand for many codes.
            if passes(code) || matches!(status, 408 | 429 | 500..) {
                return Fault::Busy(words);
            }
            Fault::NeedsPerson(format!("{words}; {}", advice(code, status)))
        }
        SdkError::ConstructionFailure(_) => Fault::NeedsPerson(format!("{words}; {}", advice("", 0))),
        _ => match unprepared(&words) {
            Some(advice) => Fault::NeedsPerson(format!("{words}; {advice}")),
            None => Fault::Busy(words),
        },
    }
}

const SIGN_IN: &str = "sign in to AWS, or name a profile that works in AWS_PROFILE";

/// What a person can do.
fn advice(code: &str, status: u16) -> &'static str {
    match code {
        "NoSuchBucket" => "create the bucket, or name the stack that has it",
        "NonExistentQueue" | "QueueDoesNotExist" => "create the queue, or name the stack that has it",
        "InvalidAccessKeyId"
        | "SignatureDoesNotMatch"
        | "InvalidSignature"
        | "InvalidSignatureException"
        | "IncompleteSignature"
        | "IncompleteSignatureException"
        | "ExpiredToken"
        | "ExpiredTokenException"
        | "InvalidToken"
        | "TokenRefreshRequired"
        | "InvalidClientTokenId"
        | "UnrecognizedClientException"
        | "MissingAuthenticationToken"
        | "MissingAuthenticationTokenException" => SIGN_IN,
        "RequestTimeTooSkewed" | "RequestExpired" => "set this machine's clock right",
        "PermanentRedirect" | "AuthorizationHeaderMalformed" | "IllegalLocationConstraintException" => {
            "it lies in another region; set AWS_REGION to that one"
        }
        "InvalidObjectState" => "the object was moved to an archive; restore it from there",
        "EntityTooLarge" => "it is larger than S3 takes; hand it in as several files",
        _ if status == 403 => {
            "allow it in the policy of whoever asks (S3 also answers so for an object that isn't there, when \
             s3:ListBucket on the bucket is not allowed)"
        }
        _ if status == 301 => "it lies in another region; set AWS_REGION to that one",
        _ => "look at the names, the region and the permissions in use; if they are right, please report it",
    }
}

/// What the service says, or what kept it from being asked; never the whole request.
fn words<E: ProvideErrorMetadata + Error + 'static>(error: &SdkError<E>) -> String {
    if let SdkError::ServiceError(answered) = error {
        let status = answered.raw().status().as_u16();
        return match (answered.err().code(), answered.err().message()) {
            // What AWS says of a signature that doesn't fit quotes the request, with the session's token in it.
            (Some(code), _) if advice(bare(code), status) == SIGN_IN => code.to_owned(),
            (Some(code), Some(message)) => format!("{code}: {message}"),
            (Some(code), None) => code.to_owned(),
            // The answer to a HEAD has no body.
            (None, message) => format!("HTTP status {status}{}", message.map(|m| format!(": {m}")).unwrap_or_default()),
        };
    }
    // Whatever can't be read may hold a secret, and what reads it may quote it.
    if let SdkError::ResponseError(_) = error {
        return "the answer could not be read".to_owned();
    }
    chain(error)
}

/// An error with its causes, each said once: many layers say the same.
pub fn chain(error: &(dyn Error + 'static)) -> String {
    let mut words = error.to_string();
    for cause in std::iter::successors(error.source(), |cause: &&(dyn Error + 'static)| (*cause).source()) {
        let cause = cause.to_string();
        if !words.contains(&cause) {
            words = format!("{words}: {cause}");
        }
    }
    words
}

/// What is missing on this machine before anything can be sent. The SDK tells that by types that it keeps to itself, so
/// that its words must do. A credential provider that is merely out of reach is not among them: that passes.
fn unprepared(words: &str) -> Option<&'static str> {
    let says = |phrase: &str| words.contains(phrase);
    if says("credential provider was not enabled")
        || says("credentials provider was not properly configured")
        || says("Be sure to set an identity")
        || (says("loading credentials") && says("expired"))
    {
        return Some(SIGN_IN);
    }
    (says("Missing Region") || says("region must be set")).then_some("set AWS_REGION")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_that_pass_are_told_from_those_that_stay() {
        for code in [
            "SlowDown",
            "InternalError",
            "Throttling",
            "RequestThrottled",
            "ThrottlingException",
            "KMS.ThrottlingException",
            "com.amazonaws.sqs#KmsThrottled",
            "AWS.SimpleQueueService.OverLimit",
        ] {
            assert!(passes(code), "{code}");
        }
        for code in ["", "NoSuchKey", "AccessDenied", "InvalidMessageContents", "KMS.DisabledException"] {
            assert!(!passes(code), "{code}");
        }
        assert_eq!(bare("AWS.SimpleQueueService.NonExistentQueue"), "NonExistentQueue");
        assert_eq!(bare("com.amazonaws.sqs#QueueDoesNotExist"), "QueueDoesNotExist");
        assert_eq!(bare("NoSuchKey"), "NoSuchKey");
    }

    #[test]
    fn causes_are_said_once() {
        let inner = std::io::Error::other("the cable is cut");
        let outer = std::io::Error::other(Outer(inner));
        assert_eq!(chain(&outer), "no answer: the cable is cut");
    }

    #[derive(Debug, thiserror::Error)]
    #[error("no answer")]
    struct Outer(#[source] std::io::Error);
}
