//! Gemini's Files API: resumable upload, get, list, delete (gemini-api, section 4). Results of batches are
//! downloaded by [`super::batches`].

mod routes;
pub(super) mod shelf;
mod upload;

pub(super) use self::routes::{describe, routes};
pub(super) use self::upload::routes as upload_routes;
