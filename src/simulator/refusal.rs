//! Errors in Gemini's dialects: words for interactions, numbers and a status for everything else.

use axum::Json;
use axum::http::{Extensions, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

/// How an error is written down (gemini-api, sections 1.8 and 5.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    /// `{"error":{"code":"not_found",…}}`.
    Words,
    /// `{"error":{"code":404,"status":"NOT_FOUND",…}}`.
    Legacy,
    /// The same in an array of one: how the gateway before interactions writes.
    LegacyArray,
}

/// The kinds of errors that the simulator gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    InvalidRequest,
    ParameterUnknown,
    FailedPrecondition,
    Unauthenticated,
    PermissionDenied,
    NotFound,
    ModelNotFound,
    TimedOut,
    Aborted,
    AlreadyExists,
    RateLimit,
    DailyQuota,
    Internal,
    Unimplemented,
    Unavailable,
}

impl Kind {
    /// HTTP status, the word of interactions, the legacy status.
    const fn names(self) -> (StatusCode, &'static str, &'static str) {
        match self {
            Self::InvalidRequest => (StatusCode::BAD_REQUEST, "invalid_request", "INVALID_ARGUMENT"),
            Self::ParameterUnknown => (StatusCode::BAD_REQUEST, "parameter_unknown", "INVALID_ARGUMENT"),
            Self::FailedPrecondition => (StatusCode::BAD_REQUEST, "failed_precondition", "FAILED_PRECONDITION"),
            Self::Unauthenticated => (StatusCode::UNAUTHORIZED, "authentication", "UNAUTHENTICATED"),
            Self::PermissionDenied => (StatusCode::FORBIDDEN, "permission_denied", "PERMISSION_DENIED"),
            Self::NotFound => (StatusCode::NOT_FOUND, "not_found", "NOT_FOUND"),
            Self::ModelNotFound => (StatusCode::NOT_FOUND, "model_not_found", "NOT_FOUND"),
            Self::TimedOut => (StatusCode::REQUEST_TIMEOUT, "deadline_exceeded", "DEADLINE_EXCEEDED"),
            Self::Aborted => (StatusCode::CONFLICT, "aborted", "ABORTED"),
            Self::AlreadyExists => (StatusCode::CONFLICT, "already_exists", "ALREADY_EXISTS"),
            Self::RateLimit => (StatusCode::TOO_MANY_REQUESTS, "rate_limit_exceeded", "RESOURCE_EXHAUSTED"),
            Self::DailyQuota => (StatusCode::TOO_MANY_REQUESTS, "quota_exceeded", "RESOURCE_EXHAUSTED"),
            Self::Internal => (StatusCode::INTERNAL_SERVER_ERROR, "api_error", "INTERNAL"),
            Self::Unimplemented => (StatusCode::NOT_IMPLEMENTED, "unimplemented", "UNIMPLEMENTED"),
            Self::Unavailable => (StatusCode::SERVICE_UNAVAILABLE, "service_unavailable", "UNAVAILABLE"),
        }
    }
}

/// The delay that an answer names.
#[derive(Debug, Clone)]
pub(super) struct Named(pub(super) String);

/// An error answer.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Refusal {
    kind: Kind,
    message: String,
    details: Vec<Value>,
}

impl Refusal {
    pub(super) fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), details: Vec::new() }
    }

    /// With entries of `details`.
    pub(super) fn with(mut self, details: impl IntoIterator<Item = Value>) -> Self {
        self.details.extend(details);
        self
    }

    pub(super) fn unavailable() -> Self {
        Self::new(Kind::Unavailable, "The model is overloaded. Please try again later.")
    }

    /// A refusal of the whole queue: with the delay that is asked for, or, as one capture has it, only with a link.
    pub(super) fn rate_limit(delay: Option<&str>) -> Self {
        let help = json!({"@type": "type.googleapis.com/google.rpc.Help", "links": [{
            "description": "Learn more about Gemini API quotas", "url": "https://ai.google.dev/gemini-api/docs/rate-limits",
        }]});
        let retry = |delay| json!({"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay});
        let message = "You exceeded your current quota. Please check your plan and billing details.";
        Self::new(Kind::RateLimit, message).with([help]).with(delay.map(retry))
    }

    /// A quota that is back at midnight Pacific.
    pub(super) fn daily_quota() -> Self {
        let message = "You exceeded your current quota for the day.";
        Self::new(Kind::DailyQuota, message).with([json!({
            "@type": "type.googleapis.com/google.rpc.QuotaFailure",
            "violations": [{
                "quotaMetric": "generativelanguage.googleapis.com/generate_content_free_tier_requests",
                "quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier", "quotaValue": "20",
            }],
        })])
    }

    /// The simulator's own disk failed it.
    pub(super) fn disk(error: &std::io::Error) -> Self {
        tracing::error!(%error, "simulator: its files can't be read or written");
        Self::new(Kind::Internal, format!("The simulator's files can't be read or written: {error}"))
    }

    pub(super) fn no_such_path(path: &str) -> Self {
        Self::new(Kind::NotFound, format!("Requested entity was not found: {path}"))
    }

    /// What the gateway says to a key that it rejects.
    pub(super) fn bad_key() -> Self {
        let domain = "googleapis.com";
        Self::new(Kind::InvalidRequest, "API key not valid. Please pass a valid API key.").with([json!({
            "@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID", "domain": domain,
            "metadata": {"service": "generativelanguage.googleapis.com"},
        })])
    }

    pub(super) fn answer(self, dialect: Dialect) -> Response {
        let (http, word, status) = self.kind.names();
        let delay = self.details.iter().find_map(|detail| detail.get("retryDelay")).and_then(Value::as_str);
        let delay = delay.map(|delay| Named(delay.to_owned()));
        let mut error = match dialect {
            Dialect::Words => json!({"code": word, "message": self.message}),
            _ => json!({"code": http.as_u16(), "message": self.message, "status": status}),
        };
        if let (false, Some(error)) = (self.details.is_empty(), error.as_object_mut()) {
            error.insert("details".into(), self.details.into());
        }
        let body = json!({"error": error});
        let body = Json(if dialect == Dialect::LegacyArray { json!([body]) } else { body });
        let mut answer = (http, body).into_response();
        answer.extensions_mut().extend(
            delay
                .map(|delay| {
                    let mut extensions = Extensions::new();
                    extensions.insert(delay);
                    extensions
                })
                .unwrap_or_default(),
        );
        answer
    }
}

#[cfg(test)]
impl Refusal {
    pub(super) fn kind(&self) -> Kind {
        self.kind
    }
}
