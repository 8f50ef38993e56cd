//! `standardwebhooks` from PyPI, run beside the test: what it signs is taken, and both take and refuse the same.
//!
//! `GLEANER_TEST_PYTHON` names an interpreter that has it; `make test` installs it.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use gleaner::domain::time::Millis;
use gleaner::domain::webhook::{Request, SigningSecret};
use serde_json::{Map, Value, json};

use crate::kit::{BODY, ID, OTHER_SECRET, SECRET, THEN, Verifier, request, v1};

/// One Python process that answers for the whole of a test.
struct Python {
    child: Child,
    questions: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Python {
    fn start() -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let program =
            std::env::var_os("GLEANER_TEST_PYTHON").map_or_else(|| root.join(".venv/bin/python"), PathBuf::from);
        let mut command = Command::new(&program);
        command.arg(root.join("tests/python/webhook_signatures.py")).env("PYTHONIOENCODING", "utf-8");
        let started = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = started.unwrap_or_else(|error| panic!("{program:?} can't be started: {error}"));
        let questions = child.stdin.take().unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap());
        Self { child, questions, answers }
    }

    fn ask(&mut self, question: &Value) -> String {
        let said = writeln!(self.questions, "{question}");
        let mut answer = String::new();
        self.answers.read_line(&mut answer).unwrap();
        assert!(
            said.is_ok() && answer.ends_with('\n'),
            "Python has ended; its own words are on standard error (`make test` installs standardwebhooks)"
        );
        answer.trim_end().to_owned()
    }

    fn sign(&mut self, secret: &str, id: &str, timestamp: i64, body: &str) -> String {
        self.ask(&json!({"do": "sign", "secret": secret, "id": id, "timestamp": timestamp, "body": body}))
    }

    /// Whether it takes the request, as text and with headers that are there once.
    fn takes(&mut self, request: &Request, now: Millis) -> bool {
        let headers: Map<_, _> =
            request.headers.iter().map(|(name, value)| (name.clone(), value.clone().into())).collect();
        let body = std::str::from_utf8(&request.body).unwrap();
        let now = now.0 as f64 / 1000.0;
        let question = json!({"do": "verify", "secret": SECRET, "headers": headers, "body": body, "now": now});
        let answer = self.ask(&question);
        assert!(answer == "ok" || answer.starts_with("refused"), "{answer}");
        answer == "ok"
    }
}

impl Drop for Python {
    fn drop(&mut self) {
        if let Err(error) = self.child.kill().and_then(|()| self.child.wait()) {
            eprintln!("Python could not be stopped: {error}");
        }
    }
}

const BODIES: [&str; 6] = [BODY, "", "{}", "[1.0, 1e3]\r\n", "{\"type\":\"interaction.完了\"}", "\u{0}\u{1f600}.1.{"];

#[test]
fn what_it_signs_is_taken_and_ours_is_the_same() {
    let mut python = Python::start();
    let secrets = [SECRET, OTHER_SECRET, "whsec_AA==", "whsec_LS0tLS0tLS0tLS0tLS0tLS0tLS0tLS0tLS0tLS0tLS0="];
    for secret in secrets {
        let secrets = vec![SigningSecret::parse(secret).unwrap()];
        for (number, body) in BODIES.iter().enumerate() {
            for id in [ID, "msg_27UH4WbU6Z5A5EzD8u03UvzRbpk", "msg_8d3f6d7e-1b1c-4c39-a1ef-6f3ff1ad1f60", "0", "~!/=+"]
            {
                let timestamp = THEN - 300 + 100 * i64::try_from(number).unwrap();
                let signature = python.sign(secret, id, timestamp, body);
                assert_eq!(signature, v1(secret, id, timestamp, body.as_bytes()));
                let verifier = Verifier { secrets: secrets.clone(), ..Verifier::new() };
                let request = request(id, timestamp, &signature, body.as_bytes());
                assert_eq!(verifier.status(&request), 200, "{request:?}");
            }
        }
    }
}

fn change(request: &mut Request, name: &str, value: impl Fn(&str) -> String) {
    let header = request.headers.iter_mut().find(|(own, _)| own == name).unwrap();
    header.1 = value(&header.1);
}

/// Deliveries of all sorts, good and bad, each with the time at which it comes.
fn deliveries() -> Vec<(Request, Millis)> {
    let mut all = Vec::new();
    for body in BODIES {
        let good = request(ID, THEN, &v1(SECRET, ID, THEN, body.as_bytes()), body.as_bytes());
        for late in [-300_001, -300_000, -1, 0, 1, 299_999, 300_000, 300_001, 86_400_000] {
            all.push((good.clone(), Millis(THEN * 1000 + late)));
        }
        let mut push = |change: &dyn Fn(&mut Request)| {
            let mut request = good.clone();
            change(&mut request);
            all.push((request, Millis(THEN * 1000)));
        };
        for name in ["webhook-id", "webhook-timestamp", "webhook-signature"] {
            push(&|request| request.headers.retain(|(own, _)| own != name));
            push(&|request| change(request, name, |_| String::new()));
            for at in 0..good.headers.iter().find(|(own, _)| own == name).unwrap().1.len() {
                // A digit or letter for another one; before the padding one that differs in bits that count.
                push(&|request| {
                    change(request, name, |value| {
                        let before_padding = value.ends_with('=') && at == value.len() - 2;
                        let swap = |c: char| match c {
                            'A' if before_padding => 'Q',
                            _ if before_padding => 'A',
                            '0' => '5',
                            'a'..='y' | 'A'..='Y' | '1'..='8' => char::from_u32(u32::from(c) + 1).unwrap(),
                            _ => 'Q',
                        };
                        value.chars().enumerate().map(|(place, c)| if place == at { swap(c) } else { c }).collect()
                    })
                });
                push(&|request| change(request, name, |value| value.chars().take(at).collect()));
            }
        }
        push(&|request| request.headers.iter_mut().for_each(|(name, _)| *name = name.to_uppercase()));
        push(&|request| request.body = format!("{body} ").into());
        push(&|request| request.body = format!(" {body}").into());
        push(&|request| request.body = body.chars().skip(1).collect::<String>().into());
        let other = v1(OTHER_SECRET, ID, THEN, body.as_bytes());
        let own = v1(SECRET, ID, THEN, body.as_bytes());
        for header in [
            other.clone(),
            format!("{other} {own}"),
            format!("{own} {other}"),
            format!("v9,AAAA {own}"),
            format!("v1a,{} {own}", "A".repeat(86) + "=="),
            own.replace("v1,", "v2,"),
            own.replace("v1,", "v1a,"),
            format!("{own},{own}"),
            format!("{own},"),
            "v1,".to_owned(),
            "v1".to_owned(),
            ",".to_owned(),
        ] {
            push(&|request| request.headers.last_mut().unwrap().1 = header.clone());
        }
    }
    all
}

#[test]
fn it_takes_and_refuses_the_same() {
    let mut python = Python::start();
    let (mut taken, mut refused) = (0, 0);
    for (request, now) in deliveries() {
        let ours = Verifier::at(now).judge(&request).is_ok();
        assert_eq!(ours, python.takes(&request, now), "ours: {ours}, at {}: {request:?}", now.0);
        if ours { taken += 1 } else { refused += 1 }
    }
    assert!(taken >= 50 && refused >= 500, "{taken} {refused}");
}

/// Where we are stricter, or milder, on purpose.
#[test]
fn where_it_differs_is_known() {
    let mut python = Python::start();
    let own = v1(SECRET, ID, THEN, BODY.as_bytes());
    let signed = |id: &str| v1(SECRET, id, THEN, BODY.as_bytes());
    let now = Millis(THEN * 1000);
    for (why, request, status) in [
        ("an id with a dot has two readings", request("msg.a", THEN, &signed("msg.a"), BODY.as_bytes()), 400),
        ("an id with a comma is two headers", request("a,a", THEN, &signed("a,a"), BODY.as_bytes()), 400),
        ("it signs the number, not the text", request(ID, format!("{THEN}.5"), &own, BODY.as_bytes()), 400),
        ("it drops what is no base64", request(ID, THEN, &own.replace(',', ",*"), BODY.as_bytes()), 401),
    ] {
        assert!(python.takes(&request, now), "{why}");
        assert_eq!(Verifier::new().status(&request), status, "{why}");
    }
    // It stops at a signature that it can't read; we pass it over.
    let header = format!("nonsense {own}");
    let request = request(ID, THEN, &header, BODY.as_bytes());
    assert!(!python.takes(&request, now));
    assert_eq!(Verifier::new().status(&request), 200);
}
