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
//! An upload does repeat: a chunk that may not have been taken, after Gemini was asked how far it came (three times in a
//! row at most, after 1, 2 and 4 s), and the whole upload with another MIME type when the type is refused. Nothing is
//! paid for an upload, and one that is not ended is no file. A download is begun at its second URL when the first one
//! is not found.
//!
//! # What is known after a failure
//!
//! | seen | create (interaction, batch job) | look, cancel, list, delete |
//! |---|---|---|
//! | no connection: name not found, refused, TLS failed, connect time-out | `NotSent` | `NoAnswer` |
//! | no URL can be made of the model or the name | `Refused`, as by a 400 | `NoAnswer` |
//! | 4xx but 408 and 409, whatever its body | `Refused` | `Refused`; 404 to a delete with the file's own key is a success |
//! | 408, 409, 5xx | `Unclear` | `Refused` |
//! | 2xx with what was asked for | it | it |
//! | 2xx with anything else, also an error; cut off, or too long | `Unclear` | `NoAnswer`, `TooLong` |
//! | 1xx, 3xx | `Unclear` | `NoAnswer` |
//! | time-out or a broken connection after connecting | `Unclear` | `NoAnswer` |
//!
//! A plain call (`generateContent`) is sent once too, and has a time-out of its own, `GLEANER_CALL_TIMEOUT`. Nothing of it
//! can be looked at later, so its caller is told all that is known: `NotSent` as for a create; `Refused`, with the whole
//! failure, for any 4xx and 5xx and for a 2xx that holds an error alone; `TooLong`; `Unclear` for everything else.
//!
//! Transfers have no time-out as a whole: they are given up when nothing has moved for `GLEANER_HTTP_TIMEOUT` (an upload
//! at the latest after twice that).
//!
//! | seen | upload | download |
//! |---|---|---|
//! | no connection, time-out or a broken connection | `NoAnswer` at the beginning; of a chunk: Gemini is asked how far it came | `NoAnswer`; after the head a read error |
//! | 4xx | `Refused`; 408 and 429 to a chunk: Gemini is asked; a refused MIME type: the next type | `Refused`; 404: the other URL |
//! | 5xx | `Refused` at the beginning; of a chunk: Gemini is asked | `Refused` |
//! | 2xx with an `error` | `Refused`; a refused MIME type: the next type | its bytes: rows are counted by the caller |
//! | 2xx without the header that says how the upload stands | a file in it counts; else Gemini is asked | |
//! | the end without a file, a name, or the size that was sent | `NoAnswer` | |
//! | a file that FAILED | `Refused` with its error, else `NoAnswer` | |
//! | the end before its announced length, or within a chunked body | | a read error, and so is every read after it |
//! | the end of a body without a length that ends with its connection | | an end: nothing tells it from a cut |
//! | another 2xx than 200, or an encoding that wasn't asked for | | `NoAnswer` |
//! | 3xx | `NoAnswer` | `NoAnswer` |
//!
//! Webhooks are judged as looks are, registering and rotating too: neither is paid for, and a person is at hand who can
//! look. A signing secret is told in the answer alone; it is in no error, whatever the answer was.
//!
//! The API key goes to the base URL only. The URL that takes an upload's bytes is Gemini's word: it must be `https://`, or
//! plain within this machine when the base is so too, and gets no key.

mod answer;
mod batches;
mod client;
mod download;
mod endpoint;
mod file;
mod idle;
mod key;
mod offline;
mod options;
mod public_keys;
mod upload;
mod verdict;
mod webhooks;

pub use client::HttpGemini;
pub use key::{ApiKey, BadKey};
pub use offline::Offline;
pub use options::{BASE_URL, CALL_TIMEOUT, CONNECT_TIMEOUT, ERROR_BODY, HTTP_TIMEOUT, MAX_BODY, Options, OptionsError};
pub use public_keys::HttpPublicKeys;
