//! What is kept, and how: the table, the bucket, the queues.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::{TEMPLATE, listed, of_type, properties};

/// The longest that SQS keeps a message.
const FOURTEEN_DAYS: u64 = 14 * 24 * 3600;

fn resource(name: &str) -> &'static Value {
    &TEMPLATE["Resources"][name]
}

#[test]
fn what_holds_peoples_work_outlives_the_stack() {
    // The events of failed ticks are the only copies of the jobs in them.
    for name in ["Table", "Bucket", "TickFailed"] {
        assert_eq!(resource(name)["DeletionPolicy"], "Retain", "{name}");
        assert_eq!(resource(name)["UpdateReplacePolicy"], "Retain", "{name}");
        for fixed in ["TableName", "BucketName", "QueueName"] {
            assert!(properties(name)[fixed].is_null(), "{name} would be in the way of the next stack of that name");
        }
    }
    assert_eq!(properties("Table")["DeletionProtectionEnabled"], json!({"Ref": "DeletionProtection"}));
}

#[test]
fn the_table_is_what_the_ledger_expects() {
    let table = properties("Table");
    assert_eq!(table["BillingMode"], "PAY_PER_REQUEST");
    assert_eq!(table["TimeToLiveSpecification"], json!({"AttributeName": "expires_at", "Enabled": true}));
    assert_eq!(table["PointInTimeRecoverySpecification"]["PointInTimeRecoveryEnabled"], true);
    assert_eq!(table["SSESpecification"]["SSEEnabled"], true);
    assert_eq!(table["KeySchema"], json!([{"AttributeName": "pk", "KeyType": "HASH"}]));
    assert_eq!(
        table["GlobalSecondaryIndexes"],
        json!([
            {
                "IndexName": "due",
                "KeySchema": [
                    {"AttributeName": "open", "KeyType": "HASH"},
                    {"AttributeName": "due", "KeyType": "RANGE"},
                ],
                "Projection": {"ProjectionType": "INCLUDE", "NonKeyAttributes": ["since"]},
            },
            {
                "IndexName": "handle",
                "KeySchema": [{"AttributeName": "handle", "KeyType": "HASH"}],
                "Projection": {"ProjectionType": "KEYS_ONLY"},
            },
        ])
    );
    let types: BTreeSet<_> = listed(&table["AttributeDefinitions"])
        .into_iter()
        .map(|definition| {
            (definition["AttributeName"].as_str().unwrap(), definition["AttributeType"].as_str().unwrap())
        })
        .collect();
    assert_eq!(types, BTreeSet::from([("pk", "S"), ("open", "S"), ("due", "N"), ("handle", "S")]));
}

#[test]
fn the_bucket_is_closed_and_keeps_versions() {
    let bucket = properties("Bucket");
    assert_eq!(bucket["VersioningConfiguration"]["Status"], "Enabled");
    let encryption = &bucket["BucketEncryption"]["ServerSideEncryptionConfiguration"][0];
    assert_eq!(encryption["ServerSideEncryptionByDefault"]["SSEAlgorithm"], "AES256");
    assert_eq!(
        bucket["PublicAccessBlockConfiguration"],
        json!({
            "BlockPublicAcls": true, "BlockPublicPolicy": true, "IgnorePublicAcls": true, "RestrictPublicBuckets": true,
        })
    );
    assert_eq!(bucket["OwnershipControls"]["Rules"], json!([{"ObjectOwnership": "BucketOwnerEnforced"}]));
    assert_eq!(bucket["NotificationConfiguration"]["EventBridgeConfiguration"]["EventBridgeEnabled"], true);
}

#[test]
fn nothing_that_is_needed_expires_by_itself() {
    let rules = listed(&properties("Bucket")["LifecycleConfiguration"]["Rules"]);
    assert!(rules.len() > 3);
    for rule in &rules {
        // Results expire only when somebody says so.
        let (rule, by_choice) = match &rule["Fn::If"] {
            Value::Null => (*rule, false),
            choice => {
                assert_eq!((&choice[0], &choice[2]), (&json!("ResultsExpire"), &json!({"Ref": "AWS::NoValue"})));
                (&choice[1], true)
            }
        };
        assert_eq!(rule["Status"], "Enabled");
        assert!(rule["ExpirationDate"].is_null());
        if !rule["ExpirationInDays"].is_null() {
            let expected = if by_choice { "results/" } else { "messages/" };
            assert_eq!(rule["Prefix"], expected, "{rule}");
        }
    }
    assert_eq!(TEMPLATE["Parameters"]["ResultDays"]["Default"], 0);
    let of = |name: &str| *rules.iter().find(|rule| rule["Id"] == name).unwrap();
    // A message may be sent once more before it is forgotten, and then points to the object of the first.
    let days = of("messages")["ExpirationInDays"].as_u64().unwrap();
    assert!(days * 24 * 3600 > 2 * FOURTEEN_DAYS);
    assert!(of("unfinished-uploads")["AbortIncompleteMultipartUpload"]["DaysAfterInitiation"].as_u64() >= Some(1));
    assert!(of("noncurrent-versions")["NoncurrentVersionExpiration"]["NoncurrentDays"].is_object());
}

#[test]
fn queues_keep_large_messages_for_as_long_as_can_be() {
    for (name, queue) in of_type("AWS::SQS::Queue") {
        let queue = &queue["Properties"];
        assert_eq!(queue["MessageRetentionPeriod"], FOURTEEN_DAYS, "{name}");
        assert_eq!(queue["MaximumMessageSize"], 1 << 20, "{name}");
        assert_eq!(queue["SqsManagedSseEnabled"], true, "{name}");
        assert_eq!(queue["RedrivePolicy"].is_null(), name != "WorkQueue", "{name}");
    }
    let redrive = &properties("WorkQueue")["RedrivePolicy"];
    assert_eq!(*redrive, json!({"deadLetterTargetArn": {"Fn::GetAtt": ["WorkFailed", "Arn"]}, "maxReceiveCount": 5}));
}

#[test]
fn bucket_and_queues_refuse_what_comes_without_tls() {
    let mut queues: BTreeSet<_> = of_type("AWS::SQS::Queue").into_keys().collect();
    let policies = of_type("AWS::SQS::QueuePolicy").into_values().chain(of_type("AWS::S3::BucketPolicy").into_values());
    for policy in policies {
        let policy = &policy["Properties"];
        let statement = listed(&policy["PolicyDocument"]["Statement"]);
        let [statement] = statement[..] else { panic!("{policy}") };
        assert_eq!((&statement["Effect"], &statement["Principal"]), (&json!("Deny"), &json!("*")));
        assert_eq!(statement["Condition"], json!({"Bool": {"aws:SecureTransport": "false"}}));
        let (action, resources) = match policy["Queues"].as_array() {
            Some(of) => {
                let name = of[0]["Ref"].as_str().unwrap();
                assert!(queues.remove(name));
                ("sqs:*", vec![json!({"Fn::GetAtt": [name, "Arn"]})])
            }
            None => ("s3:*", vec![json!({"Fn::GetAtt": ["Bucket", "Arn"]}), json!({"Fn::Sub": "${Bucket.Arn}/*"})]),
        };
        assert_eq!(statement["Action"], action);
        assert_eq!(listed(&statement["Resource"]), resources.iter().collect::<Vec<_>>());
    }
    assert_eq!(queues, BTreeSet::new(), "queues without a policy");
}
