//! What the functions may do: no more than their code does.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use crate::{TEMPLATE, listed, of_type, printed_by, properties};

#[test]
fn no_role_allows_by_wildcard_or_exception() {
    let roles = of_type("AWS::IAM::Role");
    for (name, role) in &roles {
        let policies = role["Properties"]["Policies"].as_array().unwrap();
        assert!(!policies.is_empty(), "{name}");
        for statement in policies.iter().flat_map(|policy| listed(&policy["PolicyDocument"]["Statement"])) {
            assert_eq!(statement["Effect"], "Allow", "{name}: {statement}");
            for exception in ["NotAction", "NotResource", "NotPrincipal"] {
                assert!(statement[exception].is_null(), "{name}: {statement}");
            }
            for action in listed(&statement["Action"]) {
                let action = action.as_str().unwrap();
                assert!(!action.contains(['*', '?']), "{name} allows {action}");
            }
            for resource in listed(&statement["Resource"]) {
                assert_ne!(resource, "*", "{name}: {statement}");
            }
        }
    }
}

#[test]
fn each_function_has_a_role_of_its_own_that_only_lambda_takes() {
    let roles = of_type("AWS::IAM::Role");
    let mut taken = BTreeSet::new();
    for (name, function) in of_type("AWS::Lambda::Function") {
        let role = function["Properties"]["Role"]["Fn::GetAtt"][0].as_str().unwrap();
        assert!(taken.insert(role), "{role} is not {name}'s own");
        let trust = listed(&roles[role]["Properties"]["AssumeRolePolicyDocument"]["Statement"]);
        assert_eq!(
            trust,
            [&json!({"Effect": "Allow", "Principal": {"Service": "lambda.amazonaws.com"}, "Action": "sts:AssumeRole"})]
        );
    }
    assert_eq!(taken.len(), roles.len(), "a role that nobody takes");
}

/// What is allowed can be compared with what was done.
#[test]
fn what_is_allowed_can_be_printed() {
    type Allowed = BTreeMap<String, BTreeSet<(String, String)>>;
    let read = |arguments: &[&str]| -> Allowed {
        serde_json::from_value(printed_by("scripts/iam-allowed", arguments)).unwrap()
    };
    let (all, by_code) = (read(&[]), read(&["--by-code"]));
    let pair = |action: &str, resource: &str| (action.to_owned(), resource.to_owned());
    for function in ["tick", "worker"] {
        assert!(by_code[function].contains(&pair("dynamodb:Query", "${Table.Arn}/index/due")));
        assert!(by_code[function].contains(&pair("secretsmanager:GetSecretValue", "${GeminiSecret.Id}")));
    }
    assert!(by_code["tick"].contains(&pair("s3:ListBucket", "${Bucket.Arn}")));
    let of_letters = |function: &str| -> Vec<String> {
        let on_queue =
            |(action, resource): &(String, String)| (resource == "${DeadLetters.Arn}").then(|| action.clone());
        by_code[function].iter().filter_map(on_queue).collect()
    };
    let sweeps = ["sqs:ChangeMessageVisibility", "sqs:DeleteMessage", "sqs:ReceiveMessage", "sqs:SendMessage"];
    assert_eq!(
        (of_letters("tick"), of_letters("worker")),
        (sweeps.map(str::to_owned).to_vec(), vec!["sqs:SendMessage".to_owned()])
    );
    assert!(!by_code["worker"].iter().any(|(action, _)| action == "s3:ListBucket"), "only the tick lists the inbox");
    assert_eq!(
        &all["worker"] - &by_code["worker"],
        BTreeSet::from([
            pair("logs:CreateLogStream", "${WorkerLog.Arn}"),
            pair("logs:PutLogEvents", "${WorkerLog.Arn}"),
            pair("s3:ListBucket", "${Bucket.Arn}"),
            pair("sqs:DeleteMessage", "${WorkQueue.Arn}"),
            pair("sqs:GetQueueAttributes", "${WorkQueue.Arn}"),
            pair("sqs:ReceiveMessage", "${WorkQueue.Arn}"),
        ])
    );
    assert_eq!(
        by_code["webhook"],
        BTreeSet::from([
            pair("dynamodb:GetItem", "${Table.Arn}"),
            pair("dynamodb:PutItem", "${Table.Arn}"),
            pair("dynamodb:Query", "${Table.Arn}/index/due"),
            pair("dynamodb:Query", "${Table.Arn}/index/handle"),
            pair("secretsmanager:GetSecretValue", "${WebhookSecret.Id}"),
            pair("sqs:SendMessage", "${WorkQueue.Arn}"),
        ])
    );
    // It looks, and tells: whoever takes it over changes nothing.
    assert_eq!(
        by_code["summary"],
        BTreeSet::from([
            pair("dynamodb:BatchGetItem", "${Table.Arn}"),
            pair("dynamodb:Query", "${Table.Arn}/index/due"),
            pair("sns:Publish", "${SummaryTopic}"),
        ])
    );
    for forbidden in ["${Bucket.Arn}/intakes/*", "${Bucket.Arn}/inbox/*", "${Bucket.Arn}/refused/*"] {
        assert!(!by_code["replay"].contains(&pair("s3:PutObject", forbidden)), "a replay writes no {forbidden}");
    }
}

#[test]
fn api_keys_and_signing_secrets_are_read_by_who_needs_them_and_written_by_nobody() {
    let printed = printed_by("scripts/iam-allowed", &[]);
    for (function, allowed) in printed.as_object().unwrap() {
        for pair in allowed.as_array().unwrap() {
            let (action, resource) = (pair[0].as_str().unwrap(), pair[1].as_str().unwrap());
            if action.starts_with("secretsmanager:") || resource.contains("Secret") {
                assert_eq!(action, "secretsmanager:GetSecretValue");
                // The webhook is open to anybody: whoever takes it over must not have the API keys.
                match function.as_str() {
                    "tick" | "worker" | "replay" => assert_eq!(resource, "${GeminiSecret.Id}", "{function}"),
                    "webhook" => assert_eq!(resource, "${WebhookSecret.Id}"),
                    other => panic!("{other} may read {resource}"),
                }
            }
        }
    }
}

#[test]
fn a_replay_needs_an_identity_and_nothing_else_is_routed() {
    let routes: BTreeMap<_, _> = of_type("AWS::ApiGatewayV2::Route")
        .into_values()
        .map(|route| {
            (route["Properties"]["RouteKey"].as_str().unwrap(), route["Properties"]["AuthorizationType"].clone())
        })
        .collect();
    assert_eq!(routes, BTreeMap::from([("POST /replay", json!("AWS_IAM")), ("POST /webhook", json!("NONE"))]));
    let stage = properties("ApiStage");
    let limits = &stage["DefaultRouteSettings"];
    assert_eq!(limits["ThrottlingRateLimit"], json!({"Ref": "ApiRate"}));
    assert_eq!(limits["ThrottlingBurstLimit"], json!({"Ref": "ApiBurst"}));
    assert!(stage["AccessLogSettings"]["DestinationArn"].is_object());
}

#[test]
fn keys_never_pass_through_cloudformation() {
    let secrets = of_type("AWS::SecretsManager::Secret");
    // CloudFormation writes this text again when it changes, over the keys that a person has put there.
    assert_eq!(secrets["GeminiSecret"]["Properties"]["SecretString"], r#"{"gemini_api_keys": []}"#);
    assert_eq!(secrets["WebhookSecret"]["Properties"]["SecretString"], r#"{"webhook_secrets": []}"#);
    for (name, parameter) in TEMPLATE["Parameters"].as_object().unwrap() {
        assert!(parameter["NoEcho"].is_null(), "{name}");
    }
}
