//! `webhook`: secrets are told once, and none of them is lost in silence or shown.

#[path = "../emulator/mod.rs"]
mod emulator;
#[path = "webhook/gemini.rs"]
mod gemini;
#[path = "webhook/loss.rs"]
mod loss;
#[path = "webhook/serve.rs"]
mod serve;
#[path = "webhook/simulated.rs"]
mod simulated;
#[path = "webhook/stack.rs"]
mod stack;

use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};

use super::{Folder, Said, json_file};
use gemini::Gemini;

const URL: &str = "https://example.test/webhook";

/// The file of secrets in the default data folder.
const SECRETS: &str = ".gleaner/webhook-secrets.json";

impl Folder {
    fn webhook_command(&self, gemini: &str, arguments: &[&str]) -> std::process::Command {
        let mut command = self.gleaner(&["webhook"]);
        command.args(arguments).env("GEMINI_BASE_URL", gemini).env("GEMINI_API_KEY", "AIza-a-key-for-tests");
        command
    }

    /// `gleaner webhook`, which never shows a secret.
    #[track_caller]
    fn webhook(&self, gemini: &str, arguments: &[&str]) -> Said {
        checked(self.webhook_command(gemini, arguments).output().unwrap().into())
    }

    /// The same with our URL set.
    #[track_caller]
    fn webhook_of_url(&self, gemini: &str, arguments: &[&str]) -> Said {
        let mut command = self.webhook_command(gemini, arguments);
        checked(command.env("GLEANER_WEBHOOK_URL", URL).output().unwrap().into())
    }

    fn secrets(&self) -> Vec<Value> {
        json_file(&self.path(SECRETS))["webhook_secrets"].as_array().unwrap().clone()
    }
}

#[track_caller]
fn checked(said: Said) -> Said {
    let all = format!("out: {}\nerr: {}", said.out, said.err);
    // Messages say how one begins.
    assert!(!all.replace("whsec_...", "").replace("whsec_ ", "").contains("whsec_"), "{all}");
    said
}

#[test]
fn a_webhook_is_registered_once_and_its_secret_is_its_owners_alone() {
    let (folder, gemini) = (Folder::new(), Gemini::start());
    let empty = folder.webhook(&gemini.url, &["list"]).exits(0);
    assert!(empty.out.contains("No webhook is registered") && !folder.path(".gleaner").exists(), "{}", empty.out);

    let made = folder.webhook(&gemini.url, &["register", URL, "--name", "laptop", "--json"]).exits(0).json();
    let id = made["webhook"]["id"].as_str().unwrap().to_owned();
    assert_eq!((&made["made"], &made["webhook"]["secrets"]), (&json!(true), &json!(1)));
    assert_eq!(std::fs::metadata(folder.path(SECRETS)).unwrap().permissions().mode() & 0o7777, 0o600);
    assert_eq!(folder.secrets(), [json!(gemini.secrets()[0])]);
    let body = &gemini.calls()[2].1;
    assert_eq!((&body["uri"], &body["name"]), (&json!(URL), &json!("laptop")));
    assert_eq!(
        body["subscribed_events"],
        json!([
            "batch.succeeded",
            "batch.expired",
            "batch.failed",
            "interaction.requires_action",
            "interaction.completed",
            "interaction.failed"
        ])
    );

    let again = folder.webhook_of_url(&gemini.url, &["register"]).exits(0);
    assert!(again.out.contains(&format!("Registered already: {id}")), "{}", again.out);
    assert!(again.err.contains("events of jobs go to"), "{}", again.err);
    let other =
        folder.webhook(&gemini.url, &["register", "https://EXAMPLE.test:443/webhook", "--event", "a.b"]).exits(0);
    assert!(other.err.contains("registered for other events"), "{}", other.err);
    assert_eq!(gemini.count("POST /v1beta/webhooks"), 1);

    let list = folder.webhook(&gemini.url, &["list", "--json"]).exits(0).json();
    assert_eq!(list["webhooks"], json!([made["webhook"]]));
    let text = folder.webhook(&gemini.url, &["list"]).exits(0);
    assert!(text.out.contains(&id) && text.out.contains(URL) && text.out.contains("enabled"), "{}", text.out);
    assert!(
        text.out.lines().all(|line| line.chars().count() <= 80) && text.err.is_empty(),
        "{}\n{}",
        text.out,
        text.err
    );

    let pinged = folder.webhook_of_url(&gemini.url, &["ping"]).exits(0);
    assert!(pinged.out.contains("webhook serve") && pinged.err.is_empty(), "{}\n{}", pinged.out, pinged.err);
    folder.webhook(&gemini.url, &["ping", &format!("webhooks/{id}")]).exits(0);
    assert_eq!(gemini.count(&format!("POST /v1beta/webhooks/{id}:ping")), 2);

    let deleted = folder.webhook(&gemini.url, &["delete", &id, "--json"]).exits(0).json();
    assert_eq!(deleted, json!({"webhook": id, "deleted": true, "secrets_removed": 1}));
    assert!(folder.secrets().is_empty() && gemini.webhooks().is_empty());
}

#[test]
fn a_rotation_keeps_the_older_secret_for_a_day_or_ends_it_now() {
    let (folder, gemini) = (Folder::new(), Gemini::start());
    folder.webhook(&gemini.url, &["register", URL]).exits(0);
    let rotated = folder.webhook_of_url(&gemini.url, &["rotate", "--json"]).exits(0).json();
    assert_eq!(rotated["secrets"], 2);
    assert!(rotated["older_until"].is_string());
    let told = gemini.secrets();
    assert_eq!(folder.secrets(), [json!(told[1]), json!(told[0])]);
    assert_eq!(gemini.calls().last().unwrap().1["revocation_behavior"], "revoke_previous_secrets_after_h24");

    let rotated = folder.webhook_of_url(&gemini.url, &["rotate", "--now", "--json"]).exits(0).json();
    assert_eq!((&rotated["secrets"], &rotated["older_until"]), (&json!(1), &Value::Null));
    assert_eq!(folder.secrets(), [json!(gemini.secrets()[2])]);
    assert_eq!(gemini.calls().last().unwrap().1["revocation_behavior"], "revoke_previous_secrets_immediately");
}

#[test]
fn secrets_and_fields_that_others_put_there_stay() {
    let (folder, gemini) = (Folder::new(), Gemini::start());
    folder.webhook(&gemini.url, &["register", URL]).exits(0);
    let hand = "whsec_YnkgaGFuZCwgYW5kIG9mIG5vIHVzZSBhbnl3aGVyZQ==";
    let mut ring = json_file(&folder.path(SECRETS));
    ring["webhook_secrets"].as_array_mut().unwrap().push(json!(hand));
    ring["team"] = json!("night");
    folder.write(SECRETS, ring.to_string());
    folder.webhook_of_url(&gemini.url, &["rotate", "--now"]).exits(0);
    assert_eq!(folder.secrets(), [json!(gemini.secrets()[1]), json!(hand)]);
    assert_eq!(json_file(&folder.path(SECRETS))["team"], "night");
    let list = folder.webhook(&gemini.url, &["list"]).exits(0);
    assert!(list.err.contains("1 secret in"), "{}", list.err);
}

#[test]
fn one_that_was_disabled_is_told_and_enabled_again() {
    let (folder, gemini) = (Folder::new(), Gemini::start());
    let made = folder.webhook(&gemini.url, &["register", URL, "--json"]).exits(0).json();
    let id = made["webhook"]["id"].as_str().unwrap();
    gemini.set(0, "state", "disabled_due_to_failed_deliveries");
    let list = folder.webhook(&gemini.url, &["list"]).exits(0);
    assert!(list.err.contains(&format!("`gleaner webhook register {URL}`")), "{}", list.err);
    let pinged = folder.webhook(&gemini.url, &["ping", id]).exits(0);
    assert!(pinged.err.contains("Gemini may send nothing"), "{}", pinged.err);
    let again = folder.webhook(&gemini.url, &["register", URL, "--json"]).exits(0).json();
    assert_eq!(
        (&again["made"], &again["enabled_again"], &again["webhook"]["state"]),
        (&json!(false), &json!(true), &json!("enabled"))
    );
    assert_eq!(gemini.count(&format!("PATCH /v1beta/webhooks/{id}?update_mask=state")), 1);
}

#[test]
fn which_webhook_is_meant_is_asked_when_it_is_not_clear() {
    let (folder, gemini) = (Folder::new(), Gemini::start());
    let none = folder.webhook_of_url(&gemini.url, &["ping"]).exits(2);
    assert!(none.err.contains(&format!("gleaner webhook register {URL}")), "{}", none.err);
    folder.webhook(&gemini.url, &["register", URL]).exits(0);
    // The only one of which secrets are here.
    folder.webhook(&gemini.url, &["ping"]).exits(0);
    folder.webhook(&gemini.url, &["register", "https://other.test/webhook"]).exits(0);
    let unnamed = folder.webhook(&gemini.url, &["rotate"]).exits(2);
    assert!(unnamed.err.contains("gleaner webhook rotate ID"), "{}", unnamed.err);
    for arguments in [&["ping", "nobody"][..], &["rotate", "nobody"], &["delete", "nobody"]] {
        let absent = folder.webhook(&gemini.url, arguments).exits(2);
        assert!(absent.err.contains("knows no webhook nobody"), "{}", absent.err);
    }
    gemini.add(json!({"id": "other", "uri": URL, "subscribed_events": [], "state": "enabled"}));
    let several = folder.webhook_of_url(&gemini.url, &["ping"]).exits(2);
    assert!(several.err.contains("several") && several.err.contains("other"), "{}", several.err);
    let again = folder.webhook_of_url(&gemini.url, &["register"]).exits(0);
    assert!(again.err.contains("2 webhooks are registered with that URL"), "{}", again.err);
}

#[test]
fn bad_use_is_told_and_makes_nothing() {
    let folder = Folder::new();
    for (arguments, words) in [
        (&["webhook"][..], "register"),
        (&["webhook", "register"], "no API key is set"),
        (&["webhook", "register", "http://example.test/webhook"], "must be https://"),
        (&["webhook", "register", "example.test"], "it is no URL"),
        (&["webhook", "delete"], "<ID>"),
        (&["webhook", "serve"], "--port"),
        (&["--stack", "night", "webhook", "serve", "--port", "0"], "gleaner --stack night webhook register"),
    ] {
        let said = checked(folder.run(arguments)).exits(2);
        assert!(said.err.contains(words) && said.out.is_empty(), "{arguments:?}: {}", said.err);
        assert!(!folder.path(".gleaner").exists(), "{arguments:?}");
    }
    let said = folder.webhook("http://127.0.0.1:1", &["register"]).exits(2);
    assert!(said.err.contains("GLEANER_WEBHOOK_URL"), "{}", said.err);
    let said = folder.webhook("http://127.0.0.1:1", &["register", URL]).exits(1);
    assert!(said.err.contains("webhooks can't be listed"), "{}", said.err);
    assert!(!folder.path(".gleaner").exists());

    // Nobody sends events about the work of `--simulate`.
    let simulated = Folder::new();
    simulated.write_jobs("jobs.jsonl", "x", 1);
    simulated.run(&["run", "jobs.jsonl", "--simulate"]).exits(0);
    for arguments in [&["register", URL][..], &["list"], &["serve", "--port", "0"]] {
        let said = simulated.webhook("http://127.0.0.1:1", arguments).exits(2);
        assert!(said.err.contains("holds work of --simulate"), "{}", said.err);
    }
    assert!(!simulated.path(SECRETS).exists());
}
