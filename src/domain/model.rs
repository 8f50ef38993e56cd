//! The name of a model, as far as it stands in a URL.

use super::failure::{Code, Failure};

/// What is said of a name that has no [`path`].
pub const NO_URL: &str =
    "no URL can be made of this name; a model is called gemini-flash-latest, models/… or tunedModels/…";

/// Where a model lies, as Gemini's URLs have it: `models` or `tunedModels`, and its id. A name without either is that of a
/// model. None: an id that is empty, `.` or `..`, which stand for other paths however they are escaped.
#[must_use]
pub fn path(name: &str) -> Option<(&str, &str)> {
    let (kind, id) = match name.split_once('/') {
        Some((kind @ ("models" | "tunedModels"), id)) => (kind, id),
        _ => ("models", name),
    };
    (!matches!(id, "" | "." | "..")).then_some((kind, id))
}

/// What a request to a model without a [`path`] comes to: nothing is sent, and it would be so the next time. It reads as
/// Gemini's own refusal of a bad argument.
#[must_use]
pub fn refusal(name: &str) -> Failure {
    Failure {
        http: Some(400),
        code: Some(Code::Number(400)),
        status: Some("INVALID_ARGUMENT".to_owned()),
        message: format!("no URL can be made of the model {name:?}, so that nothing was sent; name another model"),
        ..Failure::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::classify::{Judgement, Met, classify};

    #[test]
    fn a_model_has_a_kind_and_an_id() {
        for (name, expected) in [
            ("m-1.5", ("models", "m-1.5")),
            ("models/m", ("models", "m")),
            ("tunedModels/mine", ("tunedModels", "mine")),
            ("models/models/..", ("models", "models/..")),
            ("../..", ("models", "../..")),
            ("...", ("models", "...")),
            ("other/", ("models", "other/")),
            ("models", ("models", "models")),
        ] {
            assert_eq!(path(name), Some(expected), "{name:?}");
        }
    }

    #[test]
    fn a_name_that_no_url_can_hold_is_refused_for_good() {
        for id in ["", ".", ".."] {
            for name in [id.to_owned(), format!("models/{id}"), format!("tunedModels/{id}")] {
                assert_eq!(path(&name), None, "{name:?}");
                for met in [Met::OnCreate, Met::InWork] {
                    assert_eq!(classify(&refusal(&name), met), Judgement::permanent("permanent:400"), "{name:?}");
                }
                assert!(refusal(&name).summary().contains(&format!("the model {name:?}")), "{name:?}");
            }
        }
    }
}
