//! Gemini over HTTPS: one client for the whole process, which never sends a create twice.
//!
//! # What is never repeated
//!
//! The client follows no redirect and its retry policy is `never`, so no answer makes it send a request again:
//! reqwest's default policy would repeat a request whose HTTP/2 stream was refused, or whose connection was shut
//! down gracefully while it was under way.
//!
//! One repetition stays in the layer below and can't be switched off through reqwest: hyper-util's
//! `retry_canceled_requests` takes a new connection when a pooled one turns out to be closed before the request
//! was begun. It can't make two creates. hyper hands a request back to be tried again only while it still lies
//! whole in the queue in front of the connection's task (`TrySendError` with its message); once that task has
//! taken the request off the queue to write it, every failure comes without the message and ends the call. So
//! what is tried again is a request of which no byte was written. A pooled connection that the server closes
//! while a request is being written is an unclear create here, as it must be. The tests in
//! `tests/gemini_client.rs` count the requests that a server sees.
//!
//! # What is known after a failure
//!
//! | seen | create | look, cancel |
//! |---|---|---|
//! | no connection: name not found, refused, TLS failed, connect time-out | `NotSent` | `NoAnswer` |
//! | 4xx but 408 and 409, whatever its body | `Refused` | `Refused` |
//! | 408, 409, 5xx | `Unclear` | `Refused` |
//! | 2xx with an interaction | the interaction | the interaction |
//! | 2xx with anything else, cut off, or too long | `Unclear` | `NoAnswer`, `TooLong` |
//! | 1xx, 3xx | `Unclear` | `NoAnswer` |
//! | time-out or a broken connection after connecting | `Unclear` | `NoAnswer` |

mod answer;
mod client;
mod endpoint;
mod key;
mod offline;
mod options;
mod verdict;

pub use client::HttpGemini;
pub use key::{ApiKey, BadKey};
pub use offline::Offline;
pub use options::{BASE_URL, CONNECT_TIMEOUT, ERROR_BODY, HTTP_TIMEOUT, MAX_BODY, Options, OptionsError};
