//! API keys and signing secrets in secrets: read at most once a minute, changed without a restart, and never shown.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod emulator;
#[path = "aws_secrets/signing.rs"]
mod signing;

use std::sync::Arc;
use std::time::Duration;

use aws_sdk_secretsmanager::Client;
use emulator::proxy::{Answer, Proxy, Verdict};
use emulator::{Emulator, Kind, config};
use gleaner::adapters::aws::secrets::{GeminiKeys, SecretError};
use gleaner::adapters::gemini::ApiKey;
use gleaner::domain::time::Millis;
use gleaner::ports::testing::TestClock;

const MINUTE: Duration = Duration::from_secs(60);
const KEY: &str = "AIza-this-must-never-be-shown";

struct World {
    clock: Arc<TestClock>,
    proxy: Proxy,
    client: Client,
    keys: GeminiKeys,
    _emulator: Emulator,
}

impl World {
    async fn new(secret: &str) -> Self {
        let emulator = Emulator::start(Kind::Moto).await;
        let proxy = Proxy::start(&emulator.url(), |_| Verdict::Pass).await;
        let client = Client::new(&emulator.config());
        client.create_secret().name("keys").secret_string(secret).send().await.unwrap();
        let clock = Arc::new(TestClock::standing(Millis(1_795_982_400_000)));
        let keys = GeminiKeys::new(Client::new(&config(&proxy.url)), "keys".to_owned(), clock.clone());
        Self { clock, proxy, client, keys, _emulator: emulator }
    }

    async fn change(&self, secret: &str) {
        self.client.put_secret_value().secret_id("keys").secret_string(secret).send().await.unwrap();
    }

    fn reads(&self) -> usize {
        self.proxy.take_seen().iter().filter(|seen| seen.operation() == "GetSecretValue").count()
    }
}

fn secret(keys: &[&str]) -> String {
    serde_json::json!({"gemini_api_keys": keys}).to_string()
}

fn fingerprints(keys: &[ApiKey]) -> Vec<String> {
    keys.iter().map(|key| key.fingerprint().0).collect()
}

fn of(keys: &[&str]) -> Vec<String> {
    keys.iter().map(|key| ApiKey::new(key).unwrap().fingerprint().0).collect()
}

#[tokio::test]
async fn keys_are_read_once_a_minute_and_a_change_is_seen_by_the_next_read() {
    let world = World::new(&secret(&[KEY])).await;
    let first = world.keys.get().await.unwrap();
    for _ in 0..50 {
        assert!(Arc::ptr_eq(&first, &world.keys.get().await.unwrap()));
    }
    assert_eq!(world.reads(), 1);
    world.clock.advance(MINUTE);
    assert!(Arc::ptr_eq(&first, &world.keys.get().await.unwrap()), "the same keys need no new client");
    assert_eq!(world.reads(), 1);

    world.change(&secret(&["another-key-1", KEY])).await;
    assert_eq!(fingerprints(&world.keys.get().await.unwrap()), of(&[KEY]));
    world.clock.advance(MINUTE);
    assert_eq!(fingerprints(&world.keys.get().await.unwrap()), of(&["another-key-1", KEY]));
}

#[tokio::test]
async fn what_is_wrong_with_a_secret_is_told_and_nothing_of_it_is_shown() {
    let world = World::new(r#"{"gemini_api_keys": []}"#).await;
    let told = async |secret: &str| {
        world.change(secret).await;
        world.clock.advance(MINUTE);
        let error = world.keys.get().await.unwrap_err();
        assert!(matches!(error, SecretError::NeedsPerson(..)), "{error:?}");
        let told = format!("{error} {error:?}");
        assert!(told.contains("keys") && !told.contains("AIza"), "{told}");
        told
    };
    assert!(told(r#"{"gemini_api_keys": []}"#).await.contains("no API key yet"));
    for secret in [
        KEY.to_owned(),
        String::from("{"),
        format!("[\"{KEY}\"]"),
        format!(r#"{{"gemini_api_keys": "{KEY}"}}"#),
        format!(r#"{{"keys": ["{KEY}"]}}"#),
        format!(r#"{{"gemini_api_keys": [7, "{KEY}"]}}"#),
    ] {
        assert!(told(&secret).await.contains("must be"), "{secret}");
    }
    assert!(told(&secret(&[KEY, "AIza with a space"])).await.contains("unusable key"));

    // Keys that were good a minute ago are not used in place of what can't be read now.
    world.change(&secret(&[KEY])).await;
    world.keys.get().await.unwrap();
    told("nothing").await;
}

#[tokio::test]
async fn a_secret_out_of_reach_passes_and_one_that_is_not_there_needs_a_person() {
    let world = World::new(&secret(&[KEY])).await;
    world.proxy.judge(|_| Verdict::Answer(Answer::json_error(500, "InternalServiceError")));
    assert!(matches!(world.keys.get().await.unwrap_err(), SecretError::Busy(..)));
    world.proxy.judge(|_| Verdict::Answer(Answer::json_error(400, "AccessDeniedException")));
    assert!(matches!(world.keys.get().await.unwrap_err(), SecretError::NeedsPerson(..)));
    world.proxy.judge(|_| Verdict::Pass);
    assert_eq!(fingerprints(&world.keys.get().await.unwrap()), of(&[KEY]));
    let absent = GeminiKeys::new(world.client.clone(), "absent".to_owned(), world.clock.clone());
    assert!(matches!(absent.get().await.unwrap_err(), SecretError::NeedsPerson(..)));
}
