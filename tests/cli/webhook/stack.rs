//! The same on a stack: its own URL, its API keys, and its secret.

use aws_sdk_secretsmanager::Client;
use serde_json::{Value, json};

use super::super::Said;
use super::emulator::{Emulator, Kind};
use super::gemini::Gemini;
use super::{Folder, checked};

/// What `webhook` needs of a stack, and no more.
fn template(gemini: &Gemini) -> String {
    let secret =
        |text: Value| json!({"Type": "AWS::SecretsManager::Secret", "Properties": {"SecretString": text.to_string()}});
    let output = |value: Value| json!({"Value": value});
    json!({
        "AWSTemplateFormatVersion": "2010-09-09",
        "Resources": {
            "Gemini": secret(json!({"gemini_api_keys": ["AIza-the-key-of-the-stack"]})),
            "Webhook": secret(json!({"webhook_secrets": []})),
        },
        "Outputs": {
            "Table": output(json!("t")), "Bucket": output(json!("b")), "WorkQueue": output(json!("http://127.0.0.1/q")),
            "DeadLetters": output(json!("http://127.0.0.1/d")),
            "GeminiSecret": output(json!({"Ref": "Gemini"})), "WebhookSecret": output(json!({"Ref": "Webhook"})),
            "WebhookUrl": output(json!("https://abc.execute-api.example.test/webhook")),
            "Settings": output(json!(json!({"GEMINI_BASE_URL": gemini.url}).to_string())),
        },
    })
    .to_string()
}

#[test]
fn a_stacks_webhook_has_its_url_and_its_secrets_in_the_stacks_own_secret() {
    let (folder, gemini) = (Folder::new(), Gemini::start());
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let emulator = runtime.block_on(Emulator::start(Kind::Ministack));
    let cloud = aws_sdk_cloudformation::Client::new(&emulator.config());
    let made = cloud.create_stack().stack_name("night").template_body(template(&gemini));
    runtime.block_on(made.send()).unwrap();
    let described = runtime.block_on(cloud.describe_stacks().stack_name("night").send()).unwrap();
    let outputs = described.stacks()[0].outputs().to_vec();
    let output = |name: &str| {
        let found = outputs.iter().find(|output| output.output_key() == Some(name)).unwrap();
        found.output_value().unwrap().to_owned()
    };
    let secrets = Client::new(&emulator.config());
    let held = || -> Value {
        let got = runtime.block_on(secrets.get_secret_value().secret_id(output("WebhookSecret")).send()).unwrap();
        serde_json::from_str(got.secret_string().unwrap()).unwrap()
    };
    let webhook = |arguments: &[&str]| -> Said {
        let mut command = folder.gleaner(&["--stack", "night", "webhook"]);
        command
            .args(arguments)
            .envs([("AWS_ACCESS_KEY_ID", "test"), ("AWS_SECRET_ACCESS_KEY", "test"), ("AWS_REGION", "us-east-1")])
            .env("AWS_ENDPOINT_URL", emulator.url());
        checked(command.output().unwrap().into())
    };

    let made = webhook(&["register", "--json"]).exits(0).json();
    assert_eq!(made["webhook"]["url"], "https://abc.execute-api.example.test/webhook");
    assert_eq!(held()["webhook_secrets"], json!([gemini.secrets()[0]]));
    assert_eq!(webhook(&["register", "--json"]).exits(0).json()["made"], false);
    webhook(&["rotate"]).exits(0);
    assert_eq!(held()["webhook_secrets"], json!([gemini.secrets()[1], gemini.secrets()[0]]));
    let pinged = webhook(&["ping"]).exits(0);
    assert!(pinged.out.contains("aws logs tail /aws/lambda/night-webhook"), "{}", pinged.out);
    let list = webhook(&["list"]).exits(0);
    assert!(list.out.contains("2 kept here"), "{}", list.out);
    let id = made["webhook"]["id"].as_str().unwrap();
    webhook(&["delete", id]).exits(0);
    assert_eq!(held(), json!({"webhook_secrets": []}));
    assert!(!folder.path(".gleaner").exists());

    // A secret that can't be written is found out before Gemini makes one.
    runtime
        .block_on(secrets.delete_secret().secret_id(output("WebhookSecret")).force_delete_without_recovery(true).send())
        .unwrap();
    let said = webhook(&["register"]).exits(1);
    assert!(said.err.contains(&output("WebhookSecret")), "{}", said.err);
    assert_eq!(gemini.count("POST /v1beta/webhooks"), 1);
}
