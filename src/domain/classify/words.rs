//! What each word and number of each dialect means. Sources: gemini-api.md sections 1.8, 5.1, 5.3 and 5.4, which
//! name `google/rpc/code.proto`, <https://ai.google.dev/gemini-api/docs/troubleshooting> and the SDK's enums.

/// One meaning under all its names.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Named {
    /// Its words, in upper case; the first is gRPC's where it has one.
    pub words: &'static [&'static str],
    /// Its number in gRPC.
    pub grpc: Option<i64>,
    /// Its number in HTTP, which names its class.
    pub http: u16,
    /// Whether it passes by itself.
    pub passes: bool,
}

impl Named {
    const fn new(grpc: i64, http: u16, passes: bool, words: &'static [&'static str]) -> Self {
        Self { words, grpc: Some(grpc), http, passes }
    }

    const fn http_only(http: u16, passes: bool, words: &'static [&'static str]) -> Self {
        Self { words, grpc: None, http, passes }
    }

    /// Whether an answer of that HTTP number can mean this. gRPC's own mapping sends `OUT_OF_RANGE` as 400, the
    /// interactions as 416.
    pub(super) fn comes_as(&self, http: u16) -> bool {
        self.http == http || (self.grpc == Some(11) && http == 400)
    }
}

/// Every meaning that has a number. Several share an HTTP number: 400, 409 and 500.
pub(super) static NAMED: [Named; 24] = [
    // Passing: Gemini cancels work of its own accord too, and what a person cancels is settled elsewhere.
    Named::new(1, 499, true, &["CANCELLED", "CANCELED"]),
    Named::new(2, 500, true, &["UNKNOWN"]),
    Named::new(3, 400, false, &["INVALID_ARGUMENT", "INVALID_REQUEST", "PARAMETER_UNKNOWN", "BAD_REQUEST"]),
    Named::new(4, 504, true, &["DEADLINE_EXCEEDED", "GATEWAY_TIMEOUT"]),
    Named::new(5, 404, false, &["NOT_FOUND", "MODEL_NOT_FOUND"]),
    Named::new(6, 409, false, &["ALREADY_EXISTS", "CONFLICT"]),
    Named::new(7, 403, false, &["PERMISSION_DENIED", "FORBIDDEN"]),
    Named::new(8, 429, true, &["RESOURCE_EXHAUSTED", "RATE_LIMIT_EXCEEDED", "QUOTA_EXCEEDED", "TOO_MANY_REQUESTS"]),
    Named::new(9, 400, false, &["FAILED_PRECONDITION"]),
    Named::new(10, 409, true, &["ABORTED"]),
    Named::new(11, 416, false, &["OUT_OF_RANGE"]),
    Named::new(12, 501, false, &["UNIMPLEMENTED", "NOT_IMPLEMENTED"]),
    Named::new(13, 500, true, &["INTERNAL", "API_ERROR", "INTERNAL_ERROR", "INTERNAL_SERVER_ERROR"]),
    Named::new(14, 503, true, &["UNAVAILABLE", "SERVICE_UNAVAILABLE", "OVERLOADED"]),
    Named::new(15, 500, true, &["DATA_LOSS"]),
    Named::new(16, 401, false, &["UNAUTHENTICATED", "AUTHENTICATION", "UNAUTHORIZED"]),
    Named::http_only(402, false, &["PAYMENT_REQUIRED"]),
    Named::http_only(405, false, &["METHOD_NOT_ALLOWED"]),
    Named::http_only(408, true, &["REQUEST_TIMEOUT"]),
    Named::http_only(410, false, &["GONE"]),
    Named::http_only(413, false, &["PAYLOAD_TOO_LARGE", "CONTENT_TOO_LARGE", "REQUEST_TOO_LARGE"]),
    Named::http_only(415, false, &["UNSUPPORTED_MEDIA_TYPE"]),
    Named::http_only(422, false, &["UNPROCESSABLE_ENTITY", "UNPROCESSABLE_CONTENT"]),
    Named::http_only(502, true, &["BAD_GATEWAY"]),
];

/// Words of blocks, beside every word that begins with `IMAGE_`.
const BLOCKS: [&str; 9] = [
    "SAFETY",
    "RECITATION",
    "LANGUAGE",
    "BLOCKLIST",
    "PROHIBITED_CONTENT",
    "SPII",
    "CONTENT_BLOCKED",
    "JAILBREAK",
    "MODEL_ARMOR",
];

/// Words of answers that broke while they were made, beside every word that begins with `MALFORMED_`.
const BROKEN: [&str; 4] = ["UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS", "MISSING_THOUGHT_SIGNATURE", "NO_IMAGE"];

/// A word in the form of the tables: upper case with underscores, without what a URI or an enum puts before it
/// (`errors` of an interaction may name a code by a URI).
pub(super) fn normal(word: &str) -> String {
    let word = word.trim().rsplit(['/', '#', ':']).next().unwrap_or_default();
    let word: String = word.chars().map(|c| if c == ' ' || c == '-' { '_' } else { c.to_ascii_uppercase() }).collect();
    let bare =
        ["FINISH_REASON_", "BLOCK_REASON_", "BLOCKED_REASON_"].iter().find_map(|prefix| word.strip_prefix(prefix));
    bare.map_or_else(|| word.clone(), str::to_owned)
}

/// The meaning of a normal word that has a number.
pub(super) fn named(word: &str) -> Option<&'static Named> {
    NAMED.iter().find(|named| named.words.contains(&word))
}

/// The meaning of a gRPC number.
pub(super) fn grpc(number: i64) -> Option<&'static Named> {
    NAMED.iter().find(|named| named.grpc == Some(number))
}

/// Whether a normal word says that a prompt or an answer was blocked.
pub(super) fn is_block(word: &str) -> bool {
    BLOCKS.contains(&word) || word.starts_with("IMAGE_")
}

/// Whether a normal word says that an answer broke while it was made.
pub(super) fn is_broken(word: &str) -> bool {
    BROKEN.contains(&word) || word.starts_with("MALFORMED_")
}

/// Whether a normal word says that a limit cut the answer.
pub(super) fn is_cut(word: &str) -> bool {
    matches!(word, "MAX_TOKENS" | "INCOMPLETE" | "BUDGET_EXCEEDED")
}

/// Whether a normal word is the zero of its enum, which says nothing.
pub(super) fn is_unset(word: &str) -> bool {
    matches!(word, "" | "UNSPECIFIED")
}
