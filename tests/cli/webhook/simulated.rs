//! All of it with the simulator in place of Gemini.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use gleaner::adapters::system::SystemClock;
use gleaner::domain::webhook::SigningSecret;
use gleaner::ports::clock::Clock as _;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::json;
use sha2::Sha256;

use super::super::common::Simulator;
use super::serve::Serving;
use super::{Folder, URL};

#[test]
fn the_simulator_knows_webhooks_as_gemini_does() {
    let (folder, simulator) = (Folder::new(), Simulator::start(&[]));
    let gemini = &simulator.base_url;
    let hooks = ["http://127.0.0.1:9/webhook", URL];
    let ids = hooks.map(|url| {
        let made = folder.webhook(gemini, &["register", url, "--json"]).exits(0).json();
        assert_eq!(made["made"], true);
        made["webhook"]["id"].as_str().unwrap().to_owned()
    });
    let again = folder.webhook(gemini, &["register", hooks[0], "--json"]).exits(0).json();
    assert_eq!((&again["made"], &again["webhook"]["id"]), (&json!(false), &json!(ids[0])));
    let secrets = folder.secrets();
    folder.webhook(gemini, &["rotate", &ids[0]]).exits(0);
    assert_eq!((folder.secrets().len(), &folder.secrets()[1..]), (3, &secrets[..]));
    folder.webhook(gemini, &["rotate", &ids[0], "--now"]).exits(0);
    assert_eq!((folder.secrets().len(), &folder.secrets()[1]), (2, &secrets[0]));
    folder.webhook(gemini, &["ping", &ids[1]]).exits(0);
    let list = folder.webhook(gemini, &["list", "--json"]).exits(0).json();
    assert_eq!(list["webhooks"].as_array().unwrap().len(), 2);
    folder.webhook(gemini, &["delete", &ids[0]]).exits(0);
    let list = folder.webhook(gemini, &["list", "--json"]).exits(0).json();
    assert_eq!((&list["webhooks"][0]["id"], &list["webhooks"][0]["secrets"]), (&json!(ids[1]), &json!(1)));
    assert_eq!(folder.secrets(), [secrets[0].clone()]);
}

#[test]
fn commands_at_once_lose_no_secret() {
    let (folder, simulator) = (Folder::new(), Simulator::start(&[]));
    let register = |n: usize| {
        let url = format!("http://127.0.0.1:9/webhook-{n}");
        folder.webhook(&simulator.base_url, &["register", &url]).exits(0);
    };
    std::thread::scope(|scope| {
        for n in 0..6 {
            scope.spawn(move || register(n));
        }
    });
    assert_eq!(folder.secrets().len(), 6);
}

/// Polling can't be what finds the results.
const RARELY: [(&str, &str); 2] = [("GLEANER_POLL_MIN", "1h"), ("GLEANER_POLL_MAX", "1h")];

#[test]
fn a_run_beside_it_ends_by_the_events_of_its_jobs() {
    let (folder, simulator) = (Folder::new(), Simulator::start(&["--latency", "200ms", "--polls", "0"]));
    let serving = Serving::start(&folder, &[("GEMINI_BASE_URL", &simulator.base_url)]);
    folder.write_jobs("jobs.jsonl", "x", 5);
    let mut run = folder.with(&simulator, &["--json", "run", "jobs.jsonl"]);
    let said = super::checked(run.envs(RARELY).env("GLEANER_WEBHOOK_URL", &serving.url).output().unwrap().into());
    assert_eq!(said.exits(0).json()["consumed"], 5);
    assert_eq!(simulator.log().len(), 5);
    let err = serving.end();
    assert!(err.lines().count() >= 5 && err.lines().all(|line| line.contains(" 200 interaction.completed: ")), "{err}");
}

#[test]
fn events_of_a_registered_webhook_are_taken_through_its_rotations() {
    let (folder, simulator) = (Folder::new(), Simulator::start(&["--latency", "200ms", "--polls", "0"]));
    let serving = Serving::start(&folder, &[("GEMINI_BASE_URL", &simulator.base_url)]);
    let url = serving.url.clone();
    let made = folder.webhook(&simulator.base_url, &["register", &url, "--json"]).exits(0).json();
    let id = made["webhook"]["id"].as_str().unwrap().to_owned();
    let mut secrets = Vec::new();
    for (name, rotation) in
        [("a", None), ("b", Some(&["rotate", id.as_str()][..])), ("c", Some(&["rotate", &id, "--now"]))]
    {
        if let Some(rotation) = rotation {
            folder.webhook(&simulator.base_url, rotation).exits(0);
        }
        let file = format!("{name}.jsonl");
        folder.write_jobs(&file, name, 3);
        let mut run = folder.with(&simulator, &["--json", "run", &file]);
        let said = super::checked(run.envs(RARELY).output().unwrap().into());
        assert_eq!(said.exits(0).json()["consumed"], 3);
        secrets.extend(folder.secrets().first().cloned());
    }
    // The first was good for a day after the first rotation, and ended with the second.
    let statuses: Vec<u16> = secrets.iter().map(|secret| send(&url, secret.as_str().unwrap())).collect();
    assert_eq!(statuses, [401, 401, 200]);
    let err = serving.end();
    assert_eq!(err.lines().filter(|line| line.contains(" 200 ")).count(), err.lines().count() - 2, "{err}");
}

/// Sends an event that is signed with that secret now, and gives the status of the answer.
fn send(url: &str, secret: &str) -> u16 {
    let key = SigningSecret::parse(secret).unwrap();
    let id = key.fingerprint();
    let (now, body) = (SystemClock.now().0 / 1000, r#"{"type":"interaction.completed","data":{"id":"nobody's"}}"#);
    let mut mac = Hmac::<Sha256>::new_from_slice(key.key()).unwrap();
    mac.update(format!("{id}.{now}.{body}").as_bytes());
    let signature = format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let request = reqwest::Client::builder().no_proxy().build().unwrap().post(url).body(body);
    let request = [("webhook-id", id), ("webhook-timestamp", now.to_string()), ("webhook-signature", signature)]
        .into_iter()
        .fold(request, |request, (name, value)| request.header(name, value));
    runtime.block_on(request.send()).unwrap().status().as_u16()
}
