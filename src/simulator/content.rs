//! GenerateContentResponse, in every shape that it is known in (gemini-api, section 5.4).

use serde_json::{Value, json};

use super::answer::Question;
use super::faults::Fault;

/// What becomes of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// The answer.
    Whole,
    /// The answer in several parts behind a thought, and a second candidate.
    Parts,
    /// `STOP` without parts.
    Empty,
    /// Only thoughts.
    Thoughts,
    /// A candidate that holds only citations.
    Citations,
    /// `MALFORMED_FUNCTION_CALL`.
    MalformedCall,
    /// `OTHER`.
    Other,
    /// `SAFETY`, without content.
    Safety,
    /// No candidate, since the prompt was blocked.
    PromptBlocked,
    /// `MAX_TOKENS` in the middle of the answer.
    Cut,
    /// `MAX_TOKENS` before the answer began.
    CutEmpty,
    /// JSON that ends in the middle.
    BadJson,
}

impl Shape {
    /// What a fault makes of an answer.
    pub(super) fn of(fault: Option<Fault>) -> Self {
        match fault {
            Some(Fault::RowParts) => Self::Parts,
            Some(Fault::RowEmpty | Fault::EmptyAnswer) => Self::Empty,
            Some(Fault::RowThoughts) => Self::Thoughts,
            Some(Fault::RowCitations) => Self::Citations,
            Some(Fault::RowMalformedCall) => Self::MalformedCall,
            Some(Fault::RowOther) => Self::Other,
            Some(Fault::RowSafety) => Self::Safety,
            Some(Fault::RowPromptBlocked | Fault::Blocked) => Self::PromptBlocked,
            Some(Fault::RowMaxTokens | Fault::Incomplete) => Self::Cut,
            Some(Fault::RowMaxTokensEmpty) => Self::CutEmpty,
            Some(Fault::RowBadJson | Fault::BadJson) => Self::BadJson,
            _ => Self::Whole,
        }
    }
}

/// Whom an answer comes from.
#[derive(Debug, Clone, Copy)]
pub(super) struct Source<'a> {
    pub(super) model: &'a str,
    pub(super) id: &'a str,
    /// The text of a whole answer has so many bytes at least.
    pub(super) at_least: usize,
}

/// The response to a question.
pub(super) fn response(source: Source<'_>, question: &Question, shape: Shape) -> Value {
    let text = match shape {
        Shape::Whole | Shape::Parts => Some(question.long_answer(source.at_least)),
        Shape::Cut => Some(question.half()),
        // The comma breaks also what half of it would still be JSON: a number.
        Shape::BadJson => Some(format!("{},", question.half())),
        _ => None,
    };
    let [input, thoughts, output] = question.tokens(text.as_deref().unwrap_or_default());
    let mut usage = json!({
        "promptTokenCount": input, "candidatesTokenCount": output, "thoughtsTokenCount": thoughts,
        "totalTokenCount": input + output + thoughts,
    });
    let mut answer = json!({"modelVersion": source.model, "responseId": source.id});
    let Some(fields) = answer.as_object_mut() else { return answer };
    if shape == Shape::PromptBlocked {
        usage = json!({"promptTokenCount": input, "totalTokenCount": input});
        fields.insert("promptFeedback".into(), json!({"blockReason": "PROHIBITED_CONTENT"}));
    } else {
        fields.insert("candidates".into(), candidates(shape, text));
    }
    fields.insert("usageMetadata".into(), usage);
    answer
}

fn candidates(shape: Shape, text: Option<String>) -> Value {
    let thought = json!({"text": "Thinking about it.", "thought": true});
    let content = match (shape, text) {
        (Shape::Parts, Some(text)) => {
            let middle = text.char_indices().nth(text.chars().count() / 2).map_or(0, |(place, _)| place);
            let (first, rest) = text.split_at(middle);
            json!({"role": "model", "parts": [thought, {"text": first}, {"text": rest, "thoughtSignature": "EpwC"}]})
        }
        (_, Some(text)) => json!({"role": "model", "parts": [{"text": text}]}),
        (Shape::Thoughts, None) => json!({"role": "model", "parts": [thought, {"thoughtSignature": "EpwC"}]}),
        (_, None) => json!({"role": "model"}),
    };
    let finish = match shape {
        Shape::MalformedCall => "MALFORMED_FUNCTION_CALL",
        Shape::Other => "OTHER",
        Shape::Safety => return json!([{"finishReason": "SAFETY", "index": 0}]),
        Shape::Citations => {
            let source = json!({"startIndex": 0, "endIndex": 10, "uri": "https://example.test/"});
            return json!([{"citationMetadata": {"citationSources": [source]}, "index": 0}]);
        }
        Shape::Cut | Shape::CutEmpty => "MAX_TOKENS",
        _ => "STOP",
    };
    let first = json!({"content": content, "finishReason": finish, "index": 0});
    if shape == Shape::Parts {
        let second = json!({"role": "model", "parts": [{"text": "another candidate"}]});
        return json!([first, {"content": second, "finishReason": "STOP", "index": 1}]);
    }
    json!([first])
}
