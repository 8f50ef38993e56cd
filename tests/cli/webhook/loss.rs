//! Answers that are lost, and secrets that can't be kept.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use axum::http::Method;

use super::gemini::{Gemini, Wrong};
use super::{Folder, SECRETS, URL};

const ROTATE: &str = ":rotateSigningSecret";

/// Makes it impossible to keep anything from now on, for root too.
fn block(path: PathBuf) -> impl Fn() + Send + 'static {
    move || {
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
    }
}

#[test]
fn a_registration_whose_answer_is_lost_makes_no_second_one_and_is_mended_by_a_rotation() {
    let (folder, gemini) = (Folder::new(), Gemini::start());
    gemini.breaks(Method::POST, "/webhooks", Wrong::AnswerLost);
    let lost = folder.webhook(&gemini.url, &["register", URL]).exits(1);
    assert!(lost.err.contains("it is not known") && lost.err.contains("Register it again"), "{}", lost.err);
    assert_eq!(gemini.count("POST /v1beta/webhooks"), 1, "a create is never sent again");
    gemini.mend();
    let again = folder.webhook(&gemini.url, &["register", URL]).exits(1);
    assert!(again.err.contains("  gleaner webhook rotate hook-0"), "{}", again.err);
    assert_eq!(gemini.webhooks().len(), 1);
    let list = folder.webhook_of_url(&gemini.url, &["list"]).exits(0);
    assert!(list.err.contains("no secret of it is kept here"), "{}", list.err);
    folder.webhook(&gemini.url, &["rotate", "hook-0"]).exits(0);
    folder.webhook(&gemini.url, &["register", URL]).exits(0);
    assert_eq!(folder.secrets(), [gemini.secrets()[1].as_str()]);
}

#[test]
fn a_refused_registration_leaves_nothing() {
    let (folder, gemini) = (Folder::new(), Gemini::start());
    gemini.breaks(Method::POST, "/webhooks", Wrong::Refused);
    let refused = folder.webhook(&gemini.url, &["register", URL]).exits(1);
    assert!(refused.err.contains("nothing was registered") && refused.err.contains("not today"), "{}", refused.err);
    assert!(folder.secrets().is_empty());
}

#[test]
fn no_secret_is_asked_for_that_could_not_be_kept() {
    let (folder, gemini) = (Folder::new(), Gemini::start());
    folder.webhook(&gemini.url, &["register", URL]).exits(0);
    let calls =
        || gemini.count("POST /v1beta/webhooks") + gemini.count("POST /v1beta/webhooks/hook-0:rotateSigningSecret");
    assert_eq!(calls(), 1);
    let path = folder.path(SECRETS);
    let kept = std::fs::read(&path).unwrap();
    let attempts = [&["register", "https://other.test/webhook"][..], &["rotate", "hook-0"]];

    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
    for arguments in attempts {
        let said = folder.webhook(&gemini.url, arguments).exits(1);
        assert!(said.err.contains("chmod 600"), "{}", said.err);
    }
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    folder.write(SECRETS, "whsec_YW4gZXhhbXBsZQ==");
    for arguments in attempts {
        let said = folder.webhook(&gemini.url, arguments).exits(1);
        assert!(said.err.contains("webhook-secrets.json must be"), "{}", said.err);
    }
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    for arguments in attempts {
        folder.webhook(&gemini.url, arguments).exits(1);
    }
    assert_eq!(calls(), 1);
    std::fs::remove_dir(&path).unwrap();
    std::fs::write(&path, kept).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    folder.webhook(&gemini.url, &["rotate", "hook-0"]).exits(0);
}

#[test]
fn a_new_webhook_whose_secret_cannot_be_kept_is_deleted_again() {
    let (folder, gemini) = (Folder::new(), Gemini::start());
    gemini.meanwhile(block(folder.path(SECRETS)));
    let lost = folder.webhook(&gemini.url, &["register", URL]).exits(1);
    assert!(lost.err.contains("deleted again") && lost.err.contains("webhook-secrets.json"), "{}", lost.err);
    assert!(gemini.webhooks().is_empty());
    assert_eq!(gemini.count("DELETE /v1beta/webhooks/hook-0"), 1);
}

#[test]
fn one_that_cannot_be_deleted_again_either_is_told_with_what_to_do() {
    let (folder, gemini) = (Folder::new(), Gemini::start());
    gemini.meanwhile(block(folder.path(SECRETS)));
    gemini.breaks(Method::DELETE, "/hook-0", Wrong::Refused);
    let lost = folder.webhook(&gemini.url, &["register", URL]).exits(1);
    for words in ["its secret is lost", "gleaner webhook rotate hook-0 --now", "gleaner webhook delete hook-0"] {
        assert!(lost.err.contains(words), "{}", lost.err);
    }
}

#[test]
fn a_rotation_that_is_lost_leaves_the_older_secret_in_use() {
    let (folder, gemini) = (Folder::new(), Gemini::start());
    folder.webhook(&gemini.url, &["register", URL]).exits(0);
    let first = gemini.secrets()[0].clone();
    gemini.breaks(Method::POST, ROTATE, Wrong::Refused);
    let refused = folder.webhook(&gemini.url, &["rotate", "hook-0"]).exits(1);
    assert!(refused.err.contains("the older ones are as good as before"), "{}", refused.err);
    gemini.mend();
    gemini.breaks(Method::POST, ROTATE, Wrong::AnswerLost);
    let lost = folder.webhook(&gemini.url, &["rotate", "hook-0"]).exits(1);
    assert!(
        lost.err.contains("for 24 hours") && lost.err.contains("  gleaner webhook rotate hook-0\n"),
        "{}",
        lost.err
    );
    let lost = folder.webhook(&gemini.url, &["rotate", "hook-0", "--now"]).exits(1);
    assert!(lost.err.contains("events are refused") && lost.err.contains("rotate hook-0 --now"), "{}", lost.err);
    assert_eq!(folder.secrets(), [first.as_str()]);
    gemini.mend();
    folder.webhook(&gemini.url, &["rotate", "hook-0"]).exits(0);
    assert_eq!(folder.secrets(), [gemini.secrets()[3].as_str(), first.as_str()]);

    gemini.meanwhile(block(folder.path(SECRETS)));
    let unkept = folder.webhook(&gemini.url, &["rotate", "hook-0"]).exits(1);
    assert!(unkept.err.contains("could not be kept") && unkept.err.contains("rotate again"), "{}", unkept.err);
}

#[test]
fn secrets_of_a_webhook_that_is_gone_are_removed_only_when_asked_to() {
    let (folder, gemini) = (Folder::new(), Gemini::start());
    folder.webhook(&gemini.url, &["register", URL]).exits(0);
    let other = Gemini::start();
    let list = folder.webhook(&other.url, &["list"]).exits(0);
    assert!(list.err.contains("webhook delete hook-0 --forget"), "{}", list.err);
    let refused = folder.webhook(&other.url, &["delete", "hook-0"]).exits(2);
    assert!(refused.err.contains("webhook delete hook-0 --forget"), "{}", refused.err);
    assert_eq!(folder.secrets().len(), 1);
    gemini.breaks(Method::DELETE, "/hook-0", Wrong::AnswerLost);
    let lost = folder.webhook(&gemini.url, &["delete", "hook-0"]).exits(1);
    assert!(lost.err.contains("it is not known"), "{}", lost.err);
    assert_eq!(folder.secrets().len(), 1);
    let forgotten = folder.webhook(&gemini.url, &["delete", "hook-0", "--forget"]).exits(0);
    assert!(forgotten.out.contains("Forgotten: hook-0; 1 secret removed here"), "{}", forgotten.out);
    assert!(folder.secrets().is_empty());
}
