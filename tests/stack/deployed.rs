//! The stack of `template.yaml`, deployed into an emulator with the program that was just built, and a simulator as
//! Gemini.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use gleaner::adapters::aws::dynamodb::DynamoLedger;
use gleaner::adapters::aws::outputs::Outputs;
use gleaner::adapters::aws::stack::Stack;
use gleaner::adapters::system::SystemClock;
use gleaner::ports::ledger::Ledger;
use gleaner::simulator::Config;
use gleaner::simulator::faults::Faults;
use serde_json::{Value, json};

use super::emulator::{Emulator, Kind, python};
use super::simulated::Sim;

/// The name of every stack here.
pub const NAME: &str = "night";

/// Waits that suit a test.
const SETTINGS: [(&str, &str); 10] = [
    // Jobs are looked at, as they are without events.
    ("WebhookEvents", "registered"),
    ("SubmitLease", "20s"),
    ("UnclearGrace", "2s"),
    ("PollMin", "200ms"),
    ("PollMax", "1s"),
    ("NotFoundGrace", "2s"),
    ("BackoffBase", "200ms"),
    ("BackoffMax", "1s"),
    ("GateWait", "500ms"),
    ("GateWaitMax", "1s"),
];

/// A deployed stack.
pub struct Deployed {
    pub emulator: Emulator,
    pub sim: Sim,
    pub parts: Stack,
    pub outputs: Outputs,
    http: reqwest::Client,
    s3: aws_sdk_s3::Client,
    pub folder: tempfile::TempDir,
}

impl Deployed {
    /// Deploys it, with these faults of the simulator and these parameters beside the ones that suit a test.
    pub async fn new(faults: &[&str], parameters: &[(&str, &str)]) -> Self {
        let faults = Faults::parse(faults.iter().copied()).unwrap();
        Self::with(Config { faults, ..Config::default() }, parameters).await
    }

    /// The same with a simulator of this configuration.
    pub async fn with(simulator: Config, parameters: &[(&str, &str)]) -> Self {
        let sim = Sim::start(simulator).await;
        let emulator = Emulator::start(Kind::Ministack).await;
        let folder = tempfile::tempdir().unwrap();
        let base_url = sim.running.base_url();
        let mut all: BTreeMap<&str, &str> = SETTINGS.into_iter().collect();
        all.extend([("GeminiBaseUrl", base_url.as_str()), ("Log", "info,gleaner::aws=debug")]);
        all.extend(parameters.iter().copied());
        deploy(&emulator, folder.path(), &all);

        let config = emulator.config();
        let outputs = Outputs::read(&config, NAME).await.unwrap();
        let parts = Stack::new(&config, outputs.names().unwrap(), std::sync::Arc::new(SystemClock));
        let s3 = aws_sdk_s3::config::Builder::from(&config).force_path_style(true).build();
        let s3 = aws_sdk_s3::Client::from_conf(s3);
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        let deployed = Self { emulator, sim, parts, outputs, http, s3, folder };
        deployed.put_key("test-key").await;
        deployed
    }

    /// What a person does after deploying.
    pub async fn put_key(&self, key: &str) {
        self.put_secret("GeminiSecret", &json!({"gemini_api_keys": [key]})).await;
    }

    /// Fills the secret that an output names.
    pub async fn put_secret(&self, output: &'static str, value: &Value) {
        let secrets = aws_sdk_secretsmanager::Client::new(&self.emulator.config());
        let id = self.outputs.get(output).unwrap();
        secrets.put_secret_value().secret_id(id).secret_string(value.to_string()).send().await.unwrap();
    }

    /// Posts to the webhook, as somebody out there does: status and body.
    pub async fn post_event(&self, headers: &[(&str, String)], body: &str) -> (u16, String) {
        self.post("WebhookUrl", headers, body).await
    }

    /// Asks for a replay over the API, as somebody whose key that is, or as nobody: status and body. The emulator believes
    /// signatures here (`make test-roles` has it check them).
    pub async fn post_replay(&self, access_key: Option<&str>, body: &str) -> (u16, Value) {
        let scope = |key: &str| {
            format!(
                "AWS4-HMAC-SHA256 Credential={key}/20260101/us-east-1/execute-api/aws4_request, \
                 SignedHeaders=host;x-amz-date, Signature={}",
                "0".repeat(64)
            )
        };
        let headers: Vec<_> = access_key.map(|key| ("authorization", scope(key))).into_iter().collect();
        let (status, body) = self.post("ReplayUrl", &headers, body).await;
        (status, serde_json::from_str(&body).unwrap_or_else(|_| panic!("{status}: {body}")))
    }

    /// Posts to a route that an output names.
    async fn post(&self, output: &'static str, headers: &[(&str, String)], body: &str) -> (u16, String) {
        // The emulator tells its APIs apart by their host.
        let url: reqwest::Url = self.outputs.get(output).unwrap().parse().unwrap();
        let host = format!("{}:{}", url.host_str().unwrap(), url.port().unwrap());
        let request = self.http.post(format!("{}{}", self.emulator.url(), url.path())).header("host", host);
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, value));
        let answer = request.header("content-type", "application/json").body(body.to_owned()).send().await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    }

    /// A user of the account: the id of an access key of theirs.
    pub async fn access_key(&self) -> String {
        let ask = async |action: &str| {
            let body = format!("Action={action}&UserName=operator&Version=2010-05-08");
            let request = self.http.post(self.emulator.url()).body(body);
            let scope =
                "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/iam/aws4_request, SignedHeaders=host, Signature=0";
            let request = request.header("authorization", scope);
            let request = request.header("content-type", "application/x-www-form-urlencoded");
            request.send().await.unwrap().text().await.unwrap()
        };
        ask("CreateUser").await;
        let made = ask("CreateAccessKey").await;
        let id = made.split("<AccessKeyId>").nth(1).and_then(|rest| rest.split('<').next());
        id.unwrap_or_else(|| panic!("{made}")).to_owned()
    }

    /// Every item of the table, every object, and what the queue of dead letters holds, in one order: two of them differ if
    /// anything was changed, or a message was so much as received.
    pub async fn everything(&self) -> Vec<String> {
        let config = self.emulator.config();
        let mut pages = aws_sdk_dynamodb::Client::new(&config).scan().table_name(self.outputs.get("Table").unwrap());
        pages = pages.consistent_read(true);
        let mut pages = pages.into_paginator().send();
        let mut all = Vec::new();
        while let Some(page) = pages.next().await {
            for item in page.unwrap().items() {
                all.push(format!("{:?} {:?}", item["pk"], item["rev"]));
            }
        }
        let objects = self.s3.list_object_versions().bucket(self.bucket()).send().await.unwrap();
        assert!(objects.is_truncated() != Some(true), "more than a page");
        all.extend(objects.versions().iter().map(|version| format!("{:?} {:?}", version.key(), version.version_id())));
        for queue in ["DeadLetters", "WorkQueue"] {
            let url = self.outputs.get(queue).unwrap();
            let sqs = aws_sdk_sqs::Client::new(&config);
            let request = sqs.get_queue_attributes().queue_url(url).attribute_names("All".into());
            let told = request.send().await.unwrap().attributes.unwrap_or_default();
            let counts = told.iter().filter(|(name, _)| name.as_str().starts_with("ApproximateNumber"));
            all.extend(counts.map(|(name, count)| format!("{queue} {} {count}", name.as_str())));
        }
        all.sort();
        all
    }

    pub fn bucket(&self) -> &str {
        self.outputs.get("Bucket").unwrap()
    }

    /// Puts a file into the inbox, as a person does.
    pub async fn put(&self, name: &str, text: impl Into<Vec<u8>>) {
        let body = aws_sdk_s3::primitives::ByteStream::from(text.into());
        self.s3.put_object().bucket(self.bucket()).key(format!("inbox/{name}")).body(body).send().await.unwrap();
    }

    /// The names of the objects under a prefix.
    pub async fn names(&self, prefix: &str) -> Vec<String> {
        let mut pages = self.s3.list_objects_v2().bucket(self.bucket()).prefix(prefix).into_paginator().send();
        let mut names = Vec::new();
        while let Some(page) = pages.next().await {
            names.extend(page.unwrap().contents().iter().map(|object| object.key().unwrap().to_owned()));
        }
        names
    }

    /// The results, by the key in their name.
    pub async fn results(&self) -> BTreeMap<String, Value> {
        let mut results = BTreeMap::new();
        for name in self.names("results/").await {
            let object = self.s3.get_object().bucket(self.bucket()).key(&name).send().await.unwrap();
            let bytes = object.body.collect().await.unwrap().into_bytes();
            let key = name.strip_prefix("results/").unwrap().strip_suffix(".json").unwrap();
            results.insert(key.to_owned(), serde_json::from_slice(&bytes).unwrap());
        }
        results
    }

    /// The ledger, as a person with the right to read it.
    pub fn ledger(&self) -> &DynamoLedger {
        &self.parts.ledger
    }

    /// Open jobs and intakes, by state.
    pub async fn open(&self) -> Vec<(String, u64)> {
        let counts = self.ledger().counts().await.unwrap().items;
        let kinds = |count: &gleaner::ports::ledger::Count| format!("{} {}", count.kind.word(), count.state);
        let open = counts.iter().filter(|count| !count.state.is_ended() && count.kind.word() != "gate");
        open.map(|count| (kinds(count), count.items)).collect()
    }

    /// Invokes a function and waits for its answer; an error's message when it failed.
    pub async fn invoke(&self, function: &str, event: &Value) -> Result<Value, String> {
        let url = format!("{}/2015-03-31/functions/{NAME}-{function}/invocations", self.emulator.url());
        let answer = self.http.post(url).body(event.to_string()).send().await.map_err(|error| error.to_string())?;
        let failed = answer.headers().contains_key("x-amz-function-error");
        let body: Value = serde_json::from_slice(&answer.bytes().await.unwrap()).unwrap();
        if failed { Err(body["errorMessage"].to_string()) } else { Ok(body) }
    }

    /// The lines of a function's log, those that are JSON.
    pub async fn logs(&self, function: &str) -> Vec<Value> {
        let mut lines = Vec::new();
        let mut met = std::collections::BTreeSet::new();
        // The emulator gives 10,000 lines and no further page: it is asked again from the last one's time on.
        let mut since = 0;
        loop {
            let mut ask = json!({"logGroupName": format!("/aws/lambda/{NAME}-{function}"), "limit": 10_000});
            ask["startTime"] = json!(since);
            let request = self.http.post(self.emulator.url()).body(ask.to_string());
            let request = request.header("x-amz-target", "Logs_20140328.FilterLogEvents");
            // The emulator looks here for the service, and at nothing else of it.
            let scope = "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/logs/aws4_request, SignedHeaders=host, Signature=0";
            let request = request.header("content-type", "application/x-amz-json-1.1").header("authorization", scope);
            let page: Value = serde_json::from_slice(&request.send().await.unwrap().bytes().await.unwrap()).unwrap();
            let events = page["events"].as_array().unwrap_or_else(|| panic!("{page}"));
            let news: Vec<&Value> = events
                .iter()
                .filter(|event| met.insert(format!("{}{}", event["timestamp"], event["message"])))
                .collect();
            lines.extend(news.iter().filter_map(|event| serde_json::from_str(event["message"].as_str()?).ok()));
            since = events.iter().filter_map(|event| event["timestamp"].as_i64()).max().unwrap_or(since);
            if news.is_empty() {
                return lines;
            }
        }
    }

    /// What the simulator accepted, and so would have been paid for: how often each job's key.
    pub async fn accepted(&self) -> BTreeMap<String, u64> {
        let mut accepted = BTreeMap::new();
        let mut after = 0;
        loop {
            let page = self.sim.get(&format!("/simulator/log?after={after}")).await;
            let entries = page["entries"].as_array().unwrap();
            for entry in entries {
                let key = entry["labels"]["gleaner"].as_str().unwrap_or_default();
                *accepted.entry(key.to_owned()).or_default() += 1;
            }
            after += entries.len();
            if page["next"].is_null() {
                return accepted;
            }
        }
    }

    /// The program on this stack, as on a person's own machine.
    pub fn gleaner(&self) -> Command {
        let mut command = super::program::gleaner(self.folder.path());
        command.args(["--stack", NAME]).envs(self.credentials());
        command
    }

    fn credentials(&self) -> [(&'static str, String); 4] {
        credentials(&self.emulator)
    }
}

fn credentials(emulator: &Emulator) -> [(&'static str, String); 4] {
    [
        ("AWS_ENDPOINT_URL", emulator.url()),
        ("AWS_ACCESS_KEY_ID", "test".to_owned()),
        ("AWS_SECRET_ACCESS_KEY", "test".to_owned()),
        ("AWS_REGION", "us-east-1".to_owned()),
    ]
}

/// The template with the built program in place of its build, deployed by `sam deploy`.
fn deploy(emulator: &Emulator, folder: &Path, parameters: &BTreeMap<&str, &str>) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let built = folder.join("built");
    std::fs::create_dir(&built).unwrap();
    let program = built.join("bootstrap");
    std::fs::copy(env!("CARGO_BIN_EXE_bootstrap"), &program).unwrap();
    run(Command::new("strip").arg(&program));
    let template = std::fs::read_to_string(root.join("template.yaml")).unwrap();
    let mark = "\n    CodeUri: .\n";
    assert_eq!(template.matches(mark).count(), 1, "the functions have one CodeUri, in Globals");
    let template = template.replace(mark, &format!("\n    CodeUri: {}\n", built.display()));
    let template = template.replace("TemplateURL: infra/", &format!("TemplateURL: {}/infra/", root.display()));
    let path = folder.join("template.yaml");
    std::fs::write(&path, template).unwrap();
    run(Command::new(sam())
        .current_dir(folder)
        .arg("deploy")
        .arg("--template-file")
        .arg(&path)
        .args(["--stack-name", NAME, "--resolve-s3", "--no-confirm-changeset", "--no-progressbar"])
        .args(["--capabilities", "CAPABILITY_IAM", "CAPABILITY_AUTO_EXPAND"])
        .arg("--parameter-overrides")
        .args(parameters.iter().map(|(name, value)| format!("{name}={value}")))
        .envs(credentials(emulator))
        .env("AWS_DEFAULT_REGION", "us-east-1")
        .env("SAM_CLI_TELEMETRY", "0"));
}

fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}:\n{out}\n{err}");
}

/// `sam`, in an environment of its own beside the one of the tests.
fn sam() -> PathBuf {
    let named = std::env::var_os("GLEANER_TEST_SAM").map(PathBuf::from);
    named.unwrap_or_else(|| python().with_file_name("../../.venv-sam/bin/sam"))
}

/// Waits until `seen` says so, for minutes: the schedule fires once a minute.
#[expect(clippy::disallowed_methods, reason = "a schedule takes real time")]
pub async fn eventually(what: &str, mut seen: impl AsyncFnMut() -> Result<(), String>) {
    let mut last = String::new();
    for _ in 0..600 {
        match seen().await {
            Ok(()) => return,
            Err(why) => last = why,
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    panic!("it never came to this: {what}; {last}");
}
