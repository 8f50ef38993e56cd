//! Signing secrets: one read a minute whatever comes, and a revoked one is out of use within it.

use std::sync::Arc;
use std::time::Duration;

use aws_sdk_secretsmanager::Client;
use futures::future::join_all;
use gleaner::adapters::aws::secrets::AwsSigningSecrets;
use gleaner::domain::time::Millis;
use gleaner::domain::webhook::{Keyring, SigningSecret};
use gleaner::ports::clock::Clock;
use gleaner::ports::testing::TestClock;
use gleaner::ports::webhook_keys::{KeysError, SigningSecrets};
use serde_json::json;

use super::MINUTE;
use super::emulator::proxy::{Answer, Proxy, Verdict};
use super::emulator::{Emulator, Kind, config};

const ONE: &str = "whsec_b25lIHNlY3JldCB0aGF0IGlzIG5vYm9keSdz";
const TWO: &str = "whsec_dHdvIHNlY3JldHMgdGhhdCBhcmUgbm9ib2R5";

struct World {
    clock: Arc<TestClock>,
    proxy: Proxy,
    client: Client,
    secrets: AwsSigningSecrets,
    _emulator: Emulator,
}

impl World {
    async fn new(kind: Kind, secret: &str) -> Self {
        let emulator = Emulator::start(kind).await;
        let proxy = Proxy::start(&emulator.url(), |_| Verdict::Pass).await;
        let client = Client::new(&emulator.config());
        client.create_secret().name("hooks").secret_string(secret).send().await.unwrap();
        let clock = Arc::new(TestClock::standing(Millis(1_795_982_400_000)));
        let secrets = AwsSigningSecrets::new(Client::new(&config(&proxy.url)), "hooks".to_owned(), clock.clone());
        Self { clock, proxy, client, secrets, _emulator: emulator }
    }

    async fn change(&self, secret: &str) {
        self.client.put_secret_value().secret_id("hooks").secret_string(secret).send().await.unwrap();
    }

    fn reads(&self) -> usize {
        self.proxy.take_seen().iter().filter(|seen| seen.operation() == "GetSecretValue").count()
    }

    async fn valid(&self) -> Vec<String> {
        let ring = self.secrets.current().await.unwrap();
        ring.valid(self.clock.now()).iter().map(|secret| secret.expose().to_owned()).collect()
    }
}

fn held(secrets: &[&str]) -> String {
    json!({"webhook_secrets": secrets}).to_string()
}

#[tokio::test]
async fn a_thousand_at_once_are_one_read_and_a_revoked_secret_ends_within_a_minute() {
    let world = World::new(Kind::Ministack, &held(&[ONE])).await;
    let all = join_all((0..1000).map(|_| world.secrets.current())).await;
    let first = all[0].as_ref().unwrap();
    assert!(all.iter().all(|one| Arc::ptr_eq(one.as_ref().unwrap(), first)));
    assert_eq!(world.reads(), 1);

    world.change(&held(&[TWO])).await;
    world.clock.advance(MINUTE - Duration::from_millis(1));
    assert_eq!((world.valid().await, world.reads()), (vec![ONE.to_owned()], 0));
    world.clock.advance(Duration::from_millis(1));
    let all = join_all((0..1000).map(|_| world.valid())).await;
    assert!(all.iter().all(|valid| valid == &[TWO]));
    assert_eq!(world.reads(), 1);
}

#[tokio::test]
async fn what_is_kept_is_what_is_read() {
    let world = World::new(Kind::Ministack, r#"{"webhook_secrets": []}"#).await;
    assert_eq!(*world.secrets.current().await.unwrap(), Keyring::default());
    let mut ring = world.secrets.read().await.unwrap();
    ring.add("w", SigningSecret::parse(ONE).unwrap());
    ring.add("w", SigningSecret::parse(TWO).unwrap());
    ring.retire("w", &SigningSecret::parse(TWO).unwrap(), world.clock.now().plus(MINUTE));
    world.secrets.keep(&ring).await.unwrap();
    assert_eq!(world.secrets.read().await.unwrap(), ring);
    // Whoever has kept them needs no minute to see them.
    assert_eq!(*world.secrets.current().await.unwrap(), ring);
    assert_eq!(world.valid().await, [TWO, ONE]);
    world.clock.advance(MINUTE);
    assert_eq!(world.valid().await, [TWO]);
}

#[tokio::test]
async fn a_failure_counts_for_its_minute_and_nothing_old_is_used_in_its_place() {
    let world = World::new(Kind::Moto, &held(&[ONE])).await;
    assert_eq!(world.valid().await, [ONE]);
    world.clock.advance(MINUTE);
    world.proxy.judge(|_| Verdict::Answer(Answer::json_error(400, "AccessDeniedException")));
    world.reads();
    let all = join_all((0..100).map(|_| world.secrets.current())).await;
    assert!(all.iter().all(|one| matches!(one, Err(KeysError::NeedsPerson(why)) if why.contains("hooks"))));
    assert_eq!(world.reads(), 1);
    world.proxy.judge(|_| Verdict::Pass);
    assert!(world.secrets.current().await.is_err());
    assert_eq!(world.reads(), 0);
    world.clock.advance(MINUTE);
    assert_eq!(world.valid().await, [ONE]);

    world.proxy.judge(|_| Verdict::Answer(Answer::json_error(500, "InternalServiceError")));
    world.clock.advance(MINUTE);
    assert!(matches!(world.secrets.current().await.unwrap_err(), KeysError::Busy(_)));
}

#[tokio::test]
async fn what_is_wrong_is_told_and_nothing_of_it_is_shown() {
    let world = World::new(Kind::Moto, &held(&[ONE])).await;
    for (bad, words) in [
        (ONE.to_owned(), "must be"),
        (held(&[TWO, ONE, "whsec_b25lIHNlY3JldA=!"]), "place 3 of webhook_secrets"),
        (r#"{"gemini_api_keys": []}"#.to_owned(), "must be"),
    ] {
        world.change(&bad).await;
        world.clock.advance(MINUTE);
        let error = world.secrets.current().await.unwrap_err();
        let told = format!("{error} {error:?}");
        assert!(matches!(error, KeysError::NeedsPerson(_)) && told.contains(words) && told.contains("hooks"), "{told}");
        assert!(!told.contains("b25l") && !told.contains("dHdv"), "{told}");
    }
    // AWS may quote what it was sent.
    world.proxy.judge(|seen| match seen.operation() {
        "PutSecretValue" => Verdict::Answer(Answer::new(
            400,
            "application/x-amz-json-1.1",
            json!({"__type": "InvalidParameterException", "message": format!("what is {ONE}?")}).to_string(),
        )),
        _ => Verdict::Pass,
    });
    let error = world.secrets.keep(&Keyring::parse(&held(&[ONE])).unwrap()).await.unwrap_err();
    assert!(format!("{error} {error:?}").contains("masked") && !error.to_string().contains("b25l"), "{error}");

    let absent = AwsSigningSecrets::new(world.client.clone(), "absent".to_owned(), world.clock.clone());
    assert!(matches!(absent.current().await.unwrap_err(), KeysError::NeedsPerson(_)));
    // A secret that was made without a value.
    world.client.create_secret().name("empty").send().await.unwrap();
    let empty = AwsSigningSecrets::new(world.client.clone(), "empty".to_owned(), world.clock.clone());
    assert_eq!(empty.read().await, Ok(Keyring::default()));
}
