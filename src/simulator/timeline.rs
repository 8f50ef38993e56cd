//! The interaction resource, as POST and GET show it (gemini-api, sections 1.3 to 1.5).

use serde_json::{Map, Value, json};

use super::accepted::{Accepted, Standing};
use super::answer::Question;
use super::faults::{Fault, hash};

/// Who looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum View {
    /// The answer of a create: only output steps.
    Post,
    /// The answer of a GET: the whole timeline, with the input.
    Get,
}

/// What is the same for every look at an interaction, so that two looks at an ended one see the same bytes.
#[derive(Debug)]
pub(super) struct Timeline<'a> {
    pub(super) work: &'a Accepted,
    /// The fields of the request.
    pub(super) request: &'a Value,
    pub(super) question: Question,
    pub(super) seed: u64,
    /// How long it took.
    pub(super) latency: std::time::Duration,
}

impl Timeline<'_> {
    /// The resource.
    pub(super) fn resource(&self, standing: Standing, view: View) -> Value {
        let updated = match standing {
            Standing::Running(_) => self.work.at,
            Standing::Ended => self.work.at.plus(self.latency),
            Standing::Cancelled(at) => at,
        };
        let mut resource = json!({
            "id": &*self.work.id, "object": "interaction", "status": self.status(standing),
            "created": self.work.at.to_string(), "updated": updated.to_string(),
        });
        let echoed = ["model", "agent", "labels", "previous_interaction_id", "service_tier"];
        for (name, value) in echoed.iter().filter_map(|name| Some((name, self.request.get(*name)?))) {
            set(&mut resource, name, value.clone());
        }
        let mut steps = if view == View::Get { self.input() } else { Vec::new() };
        if standing == Standing::Ended {
            let (output, extra) = self.output();
            steps.extend(output);
            for (name, value) in extra {
                set(&mut resource, &name, value);
            }
        }
        if !steps.is_empty() {
            set(&mut resource, "steps", steps.into());
        }
        resource
    }

    fn status(&self, standing: Standing) -> &'static str {
        match (standing, self.work.plan.course, self.work.plan.outcome) {
            (Standing::Running(0), Some(Fault::Queued), _) => "queued",
            (Standing::Running(_), Some(Fault::StatusUnknown), _) => "warming_up",
            (Standing::Running(_), ..) => "in_progress",
            (Standing::Cancelled(_), ..) | (_, _, Some(Fault::CancelledRemote)) => "cancelled",
            (_, _, Some(Fault::Incomplete)) => "incomplete",
            (_, _, Some(Fault::BudgetExceeded)) => "budget_exceeded",
            (_, _, Some(Fault::RequiresAction)) => "requires_action",
            (_, _, Some(Fault::FailedErrors | Fault::FailedStep | Fault::FailedSilent | Fault::Blocked)) => "failed",
            _ => "completed",
        }
    }

    /// The steps of the input: a text, a content, contents or steps.
    fn input(&self) -> Vec<Value> {
        let user = |content: Value| vec![json!({"type": "user_input", "content": content})];
        match self.request.get("input") {
            Some(Value::String(text)) => user(json!([{"type": "text", "text": text}])),
            Some(Value::Array(items)) if items.iter().any(|item| item.get("content").is_some()) => items.clone(),
            Some(Value::Array(items)) => user(json!(items)),
            Some(other) => user(json!([other])),
            None => Vec::new(),
        }
    }

    /// The steps of the output, and the fields that come with it.
    fn output(&self) -> (Vec<Value>, Map<String, Value>) {
        let error =
            |code: Value, message: &str| (Vec::new(), fields(json!({"errors": [{"code": code, "message": message}]})));
        let said = |text: String| {
            let content = json!([{"type": "text", "text": text}]);
            (vec![self.thought(), json!({"type": "model_output", "content": content})], self.usage(&text))
        };
        match self.work.plan.outcome {
            Some(Fault::FailedErrors) => {
                let codes = [json!("api_error"), json!("service_unavailable"), json!("deadline_exceeded"), json!(13)];
                let code = self.work.variant(self.seed, &[0_usize, 1, 2, 3]).and_then(|n| codes.get(n).cloned());
                error(code.unwrap_or(Value::Null), "An internal error occurred.")
            }
            Some(Fault::Blocked) => error(json!("safety"), "The content was blocked for safety."),
            Some(Fault::FailedStep) => {
                let code = self.work.variant(self.seed, &[4, 8, 13, 14]);
                let error = json!({"code": code, "message": "Deadline expired before operation could complete."});
                (vec![json!({"type": "model_output", "error": error})], Map::new())
            }
            Some(Fault::FailedSilent | Fault::CancelledRemote) => (Vec::new(), Map::new()),
            Some(Fault::EmptyAnswer) => match self.work.variant(self.seed, &[0, 1, 2]) {
                Some(0) => (vec![self.thought()], self.usage("")),
                Some(1) => (vec![self.thought(), json!({"type": "model_output", "content": []})], self.usage("")),
                _ => said(String::new()),
            },
            Some(Fault::Incomplete) => said(self.question.half()),
            Some(Fault::BudgetExceeded) => (vec![self.thought()], self.usage("")),
            Some(Fault::RequiresAction) => {
                let arguments = json!({"digest": self.question.digest.to_string()});
                let call = json!({"type": "function_call", "id": "call_1", "name": "look_up", "arguments": arguments});
                (vec![self.thought(), call], self.usage(""))
            }
            // The comma breaks also what half of it would still be JSON: a number.
            Some(Fault::BadJson) => said(format!("{},", self.question.half())),
            _ => said(self.question.answer()),
        }
    }

    fn thought(&self) -> Value {
        let word = |part| hash(self.seed, "signature", self.work.digest.0, &[self.work.nth, part]);
        let signature: String = (0..4).map(|part| format!("{:016x}", word(part))).collect();
        json!({"type": "thought", "signature": format!("EpwC{signature}")})
    }

    fn usage(&self, text: &str) -> Map<String, Value> {
        let [input, thoughts, output] = self.question.tokens(text);
        fields(json!({"usage": {
            "total_input_tokens": input, "total_output_tokens": output, "total_thought_tokens": thoughts,
            "total_cached_tokens": 0, "total_tool_use_tokens": 0, "total_tokens": input + thoughts + output,
            "input_tokens_by_modality": [{"modality": "text", "tokens": input}],
            "output_tokens_by_modality": [{"modality": "text", "tokens": output}],
        }}))
    }
}

fn fields(value: Value) -> Map<String, Value> {
    if let Value::Object(fields) = value { fields } else { Map::new() }
}

fn set(resource: &mut Value, name: &str, value: Value) {
    if let Some(fields) = resource.as_object_mut() {
        fields.insert(name.to_owned(), value);
    }
}
