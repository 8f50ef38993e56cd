//! The webhooks resource, its secrets and their rotation.

use std::time::Duration;

use gleaner::simulator::Config;
use reqwest::Method;
use serde_json::{Value, json};

use crate::receiver::{EVENTS, Receiver, WEBHOOKS, webhook_path};
use crate::simulated::Sim;
use crate::{background, still_clock};

/// Work ends at once, without a look.
fn at_once() -> Config {
    Config { polls_until_done: 0, ..Config::default() }
}

#[tokio::test]
async fn webhooks_are_made_listed_changed_and_deleted() {
    let sim = Sim::start(Config::default()).await;
    let body = json!({"uri": "https://example.test/hook", "subscribed_events": ["batch.succeeded"], "name": "mine"});
    let (status, created) = sim.json(Method::POST, WEBHOOKS, Some(&body)).await;
    assert_eq!(status, 200, "{created}");
    for (field, value) in body.as_object().unwrap() {
        assert_eq!(&created[field], value);
    }
    assert_eq!(created["state"], "enabled");
    let secret = created["new_signing_secret"].as_str().unwrap();
    assert!(secret.starts_with("whsec_") && secret.len() == 6 + 44);
    let shown = created["signing_secrets"].as_array().unwrap();
    let truncated = shown[0]["truncated_secret"].as_str().unwrap().trim_end_matches('.');
    assert!(shown.len() == 1 && shown[0]["expire_time"].is_null());
    assert!(secret.starts_with(truncated) && truncated.len() < 15);

    let path = webhook_path(&created);
    let mut expected = created.clone();
    expected.as_object_mut().unwrap().remove("new_signing_secret");
    assert_eq!(sim.get(&path.replace("/v1/", "/v1beta/")).await, expected, "the secret is shown once");

    // Only what the mask names is changed; without a mask, what the body holds.
    let change = async |mask: &str, body: Value| {
        let (status, changed) = sim.json(Method::PATCH, &format!("{path}{mask}"), Some(&body)).await;
        (status, changed)
    };
    let (_, changed) = change("?update_mask=uri", json!({"uri": "http://127.0.0.1:1/x", "name": "other"})).await;
    assert_eq!((&changed["uri"], &changed["name"]), (&json!("http://127.0.0.1:1/x"), &json!("mine")));
    let (_, changed) = change("?update_mask=name,subscribedEvents", json!({"subscribed_events": EVENTS})).await;
    assert_eq!((&changed["name"], &changed["subscribed_events"]), (&Value::Null, &json!(EVENTS)));
    let (_, changed) = change("", json!({"state": "disabled"})).await;
    assert_eq!((&changed["state"], &changed["uri"]), (&json!("disabled"), &json!("http://127.0.0.1:1/x")));
    for (mask, body) in [
        ("?update_mask=id", json!({"id": "x"})),
        ("?update_mask=uri", json!({})),
        ("", json!({"uri": "nowhere"})),
        ("", json!({"state": "disabled_due_to_failed_deliveries"})),
        ("", json!({"subscribed_events": []})),
        ("", json!({"subscribed_events": ["batch.begun"]})),
        ("", json!({"uri": "http://127.0.0.1:2/", "other": 1})),
    ] {
        let (status, refused) = change(mask, body.clone()).await;
        assert_eq!((status, &refused["error"]["code"]), (400, &json!("invalid_request")), "{mask} {body}");
    }
    assert_eq!(sim.get(&path).await["uri"], "http://127.0.0.1:1/x", "a refused change changes nothing");

    assert_eq!(sim.json(Method::DELETE, &path, None).await, (200, json!({})));
    for (method, path) in [
        (Method::GET, path.clone()),
        (Method::DELETE, path.clone()),
        (Method::PATCH, path.clone()),
        (Method::POST, format!("{path}:ping")),
        (Method::POST, format!("{path}:rotateSigningSecret")),
    ] {
        let (status, gone) = sim.json(method, &path, Some(&json!({}))).await;
        assert_eq!((status, &gone["error"]["code"]), (404, &json!("not_found")), "{path}");
    }
    assert_eq!(sim.get(WEBHOOKS).await, json!({}));
}

#[tokio::test]
async fn bad_creates_are_refused() {
    let sim = Sim::start(Config::default()).await;
    let good = json!({"uri": "https://example.test/hook", "subscribed_events": ["batch.succeeded"]});
    for (field, value) in [
        ("uri", Value::Null),
        ("uri", json!("")),
        ("uri", json!("ftp://example.test/hook")),
        ("subscribed_events", Value::Null),
        ("subscribed_events", json!([])),
        ("subscribed_events", json!(["interaction.incomplete"])),
        ("state", json!("enabled")),
        ("url", json!("https://example.test/hook")),
    ] {
        let mut body = good.clone();
        body[field] = value.clone();
        let (status, refused) = sim.json(Method::POST, WEBHOOKS, Some(&body)).await;
        assert_eq!((status, &refused["error"]["code"]), (400, &json!("invalid_request")), "{field}: {value}");
    }
    let (status, refused) = sim.send_as(Some("bad-key"), Method::POST, WEBHOOKS, Some(&good)).await.unwrap();
    let refused: Value = serde_json::from_slice(&refused).unwrap();
    assert_eq!((status, &refused[0]["error"]["details"][0]["reason"]), (400, &json!("API_KEY_INVALID")));
    assert_eq!(sim.send_as(None, Method::GET, WEBHOOKS, None).await.unwrap().0, 401);
    assert_eq!(sim.get(WEBHOOKS).await, json!({}));
}

#[tokio::test]
async fn each_key_sees_its_own_page_by_page() {
    let sim = Sim::start(Config::default()).await;
    let mut ids = Vec::new();
    for n in 0..7 {
        ids.push(sim.register(&format!("https://example.test/{n}")).await["id"].clone());
        let other = json!({"uri": "https://example.test/other", "subscribed_events": EVENTS});
        assert_eq!(sim.send_as(Some("other"), Method::POST, WEBHOOKS, Some(&other)).await.unwrap().0, 200);
    }
    let (mut seen, mut token, mut pages) = (Vec::new(), String::new(), 0);
    loop {
        let page = sim.get(&format!("{WEBHOOKS}?page_size=3&page_token={token}")).await;
        seen.extend(page["webhooks"].as_array().unwrap().iter().map(|webhook| webhook["id"].clone()));
        pages += 1;
        let Some(next) = page["next_page_token"].as_str() else { break };
        next.clone_into(&mut token);
    }
    assert_eq!((&seen, pages), (&ids, 3));
    assert_eq!(sim.json(Method::GET, &format!("{WEBHOOKS}?page_token=x"), None).await.0, 400);
    let path = format!("{WEBHOOKS}/{}", ids[0].as_str().unwrap());
    for method in [Method::GET, Method::DELETE] {
        assert_eq!(sim.send_as(Some("other"), method, &path, None).await.unwrap().0, 404);
    }
    assert_eq!(sim.json(Method::GET, &path, None).await.0, 200);
}

#[tokio::test]
async fn secrets_are_rotated_in_two_ways() {
    let (clock, receiver) = (still_clock(), Receiver::start().await);
    let sim = Sim::start_at(at_once(), clock.clone()).await;
    let webhook = sim.register(&receiver.uri("/hook")).await;
    let path = webhook_path(&webhook);
    let first = webhook["new_signing_secret"].as_str().unwrap().to_owned();
    let rotate = async |body: Value| {
        let (status, answer) = sim.json(Method::POST, &format!("{path}:rotateSigningSecret"), Some(&body)).await;
        assert_eq!(status, 200, "{answer}");
        answer["secret"].as_str().unwrap().to_owned()
    };
    let mut count = 0;
    let mut next = async || {
        count += 1;
        sim.create(&background(&format!("input {count}"))).await;
        receiver.wait(count).await.pop().unwrap()
    };
    assert_eq!(next().await.proved_by(&first), [true]);

    let second = rotate(json!({"revocation_behavior": "revoke_previous_secrets_after_h24"})).await;
    let both = next().await;
    assert_eq!((both.proved_by(&second), both.proved_by(&first)), (vec![true, false], vec![false, true]));
    let secrets = sim.get(&path).await["signing_secrets"].clone();
    assert!(secrets[0]["expire_time"].is_null());
    assert_eq!(secrets[1]["expire_time"], "2025-11-25T16:00:00Z");
    clock.pass(Duration::from_secs(24 * 3600 - 1));
    assert_eq!(next().await.proved_by(&first), [false, true]);
    clock.pass(Duration::from_secs(1));
    let one = next().await;
    assert_eq!((one.proved_by(&second), one.proved_by(&first)), (vec![true], vec![false]));

    let third = rotate(json!({"revocation_behavior": "revoke_previous_secrets_immediately"})).await;
    let one = next().await;
    assert_eq!((one.proved_by(&third), one.proved_by(&second)), (vec![true], vec![false]));
    let fourth = rotate(json!({})).await;
    assert_eq!(next().await.proved_by(&third), [false, true], "nothing said, nothing lost");
    assert!([first, second, third].iter().all(|secret| *secret != fourth));
    let refused = json!({"revocation_behavior": "never"});
    assert_eq!(sim.json(Method::POST, &format!("{path}:rotateSigningSecret"), Some(&refused)).await.0, 400);
}

#[tokio::test]
async fn a_ping_is_one_try_and_goes_to_disabled_webhooks_too() {
    let (receiver, sim) = (Receiver::start().await, Sim::start(at_once()).await);
    let webhook = sim.register(&receiver.uri("/hook")).await;
    let path = webhook_path(&webhook);
    sim.json(Method::PATCH, &path, Some(&json!({"state": "disabled"}))).await;
    receiver.answer([503]);
    for _ in 0..2 {
        assert_eq!(sim.json(Method::POST, &format!("{path}:ping"), Some(&json!({}))).await, (200, json!({})));
    }
    let got = receiver.wait(2).await;
    assert_ne!(got[0].id, got[1].id);
    for got in &got {
        assert_eq!((&got.json()["type"], &got.json()["version"]), (&json!("ping"), &json!("v1")));
        assert_eq!(got.proved_by(webhook["new_signing_secret"].as_str().unwrap()), [true]);
    }
    let mut outcomes: Vec<_> = sim.events(2).await.iter().map(|event| event["outcome"].to_string()).collect();
    outcomes.sort();
    assert_eq!(outcomes, ["\"accepted\"", "\"given_up\""]);
    assert_eq!(sim.get(&path).await["state"], "disabled");
}
