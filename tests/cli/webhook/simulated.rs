//! All of it with the simulator in place of Gemini.

use serde_json::json;

use super::super::common::Simulator;
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
