//! A line that is a job.

use serde_json::value::RawValue;

use super::super::job::{JobKey, Mode};
use super::super::json::{self, Json, Member};
use super::super::webhook::Hook;
use super::fields::{Fields, is_create_field, is_label_text};
use super::{Header, JobLine, KEY_LABEL, LineError, header, member, members_of, raw, text_of};

/// Fields of a line that are for this program: they count for the key, and are neither sent nor unknown.
const FOR_GLEANER: [&str; 3] = ["mode", "idempotency_key", "expect"];

/// Reads a line after the header (without its line ending; a BOM before the first one is taken off by the caller).
/// None: a blank line.
///
/// # Errors
/// A line that no job can be made of.
pub fn parse_line(line: &[u8], header: &Header) -> Result<Option<JobLine>, LineError> {
    if line.trim_ascii().is_empty() {
        return Ok(None);
    }
    let text = text_of(line)?;
    let members = members_of(Json::parse(text)?).map_err(|kind| LineError {
        class: "bad_line:not_an_object",
        message: format!("a line must be a JSON object, not {kind}"),
    })?;
    refuse_other_kinds_of_line(&members)?;
    check(&Fields::of_line(&members))?;
    let additions = additions(&members, header);
    job(merged(members, &additions)?, header).map(Some)
}

/// A row of a batch run, and a header that is not the first line.
fn refuse_other_kinds_of_line(members: &[Member<'_>]) -> Result<(), LineError> {
    let has = |name| member(members, name).is_some();
    if has(header::NAME) {
        return Err(Fields::of_line(members).bad(header::NAME, "options stand alone in the first line of a file"));
    }
    if has("key") && has("request") && !has("input") {
        let message = "this looks like a row of a batch run ({\"key\", \"request\"}), which is run with --mode batch or under a \
                       header that says so; a job's line has an input";
        return Err(LineError { class: "bad_line:row", message: message.to_owned() });
    }
    Ok(())
}

/// Checks the fields that a line sets itself; the header's were checked when it was read.
fn check(line: &Fields<'_, '_>) -> Result<(), LineError> {
    let Some(input) = line.get("input") else { return Err(line.bad("input", "missing; every job has one")) };
    match &input.value {
        Json::Text(text) if !text.is_empty() => {}
        Json::Array(items) if !items.is_empty() => {}
        Json::Object(members) if !members.is_empty() => {}
        Json::Text(_) | Json::Array(_) | Json::Object(_) => return Err(line.bad("input", "must not be empty")),
        other => {
            let why = format!("must be a string, an array or an object, not {}", other.kind());
            return Err(line.bad("input", &why));
        }
    }
    match line.text("idempotency_key")? {
        Some(key) if !is_label_text(key) => Err(line.bad("idempotency_key", "must be 1 to 63 of a-z 0-9 _ -")),
        _ => Ok(()),
    }?;
    line.object("expect")?;
    line.check_create_fields()
}

/// What the header adds to this line, as JSON texts: what changes the request and the line doesn't set. A header's
/// model or agent is for lines that name neither.
fn additions(line: &[Member<'_>], header: &Header) -> Vec<(String, String)> {
    let has = |name: &str| member(line, name).is_some();
    let has_target = has("model") || has("agent");
    let mut additions = Vec::new();
    // Spelling out the default changes no request, so it changes no key either.
    if let Some(mode) = header.mode.filter(|mode| *mode != Mode::Interaction && !has("mode")) {
        additions.push(("mode".to_owned(), json::quoted(mode.word())));
    }
    if let Some(model) = header.model.as_ref().filter(|_| !has_target) {
        additions.push(("model".to_owned(), json::quoted(model)));
    }
    for (name, value) in &header.request {
        let is_target = name == "model" || name == "agent";
        let is_set = if is_target { has_target } else { has(name) };
        if !is_set {
            additions.push((name.clone(), value.get().to_owned()));
        }
    }
    additions
}

/// The line's object with the header's additions: what the key is made of.
fn merged<'a>(mut members: Vec<Member<'a>>, additions: &'a [(String, String)]) -> Result<Vec<Member<'a>>, LineError> {
    for (name, text) in additions {
        members.push(Member { name: name.as_str().into(), value: Json::parse(text)?, text });
    }
    Ok(members)
}

fn job(members: Vec<Member<'_>>, header: &Header) -> Result<JobLine, LineError> {
    let whole = Fields::of_line(&members);
    let mode = whole.mode()?.unwrap_or(Mode::Interaction);
    let target = whole.target()?.map(str::to_owned);
    let own_key = whole.text("idempotency_key")?.map(|key| JobKey(key.to_owned()));
    let expect = whole.get("expect").map(|expect| raw(expect.text)).transpose()?;
    let mut request = Vec::new();
    let mut unsent = Vec::new();
    for field in &members {
        if is_create_field(&field.name) {
            request.push((field.name.clone().into_owned(), raw(field.text)?));
        } else if !FOR_GLEANER.contains(&field.name.as_ref()) {
            unsent.push(field.name.clone().into_owned());
        }
    }
    let canonical = Json::Object(members).canonical();
    Ok(JobLine {
        key: own_key.unwrap_or_else(|| json::idempotency_key(&canonical)),
        content: json::digest(&canonical),
        mode,
        target,
        request,
        expect: expect.or_else(|| header.expect.clone()),
        unsent,
    })
}

impl JobLine {
    /// The body of the create call: the line's fields as written, `model` where none is named, `background`,
    /// `store`, the label `gleaner` with the key, and `webhook_config` where Gemini is to call back.
    #[must_use]
    pub fn create_body(&self, default_model: &str, hook: Option<&Hook<'_>>) -> Vec<u8> {
        let mut body = String::from("{");
        for (name, value) in self.request.iter().filter(|(name, _)| name != "labels") {
            push_member(&mut body, name, value.get());
        }
        if self.target.is_none() {
            push_member(&mut body, "model", &json::quoted(default_model));
        }
        push_member(&mut body, "background", "true");
        push_member(&mut body, "store", "true");
        push_member(&mut body, "labels", &self.labels());
        if let Some(hook) = hook {
            push_member(&mut body, "webhook_config", &hook.of_interaction().to_string());
        }
        body.push('}');
        body.into_bytes()
    }

    /// The line's labels and the program's own.
    fn labels(&self) -> String {
        let labels = self.request.iter().find(|(name, _)| name == "labels").map(|(_, labels)| labels.get());
        // They are an object, so what is left without the last brace is open for one more member.
        let mut open = labels.and_then(|labels| labels.strip_suffix('}')).unwrap_or("{").trim_end().to_owned();
        push_member(&mut open, KEY_LABEL, &json::quoted(&self.key.0));
        open.push('}');
        open
    }

    /// The request as one value, for the check of what its answer must be (not for sending: numbers may lose
    /// digits, and the program's own fields are not in it).
    ///
    /// # Errors
    /// None for a line that [`parse_line`] made: it has read every field before.
    pub fn request_value(&self) -> Result<serde_json::Value, LineError> {
        let fields = self.request.iter().map(|(name, value)| Ok((name.clone(), value_of(value)?)));
        fields.collect::<Result<serde_json::Map<_, _>, LineError>>().map(serde_json::Value::Object)
    }
}

fn value_of(raw: &RawValue) -> Result<serde_json::Value, LineError> {
    Ok(Json::parse(raw.get())?.to_value())
}

/// Adds a member to an object that was opened.
fn push_member(object: &mut String, name: &str, value: &str) {
    if !object.ends_with('{') {
        object.push(',');
    }
    object.push_str(&json::quoted(name));
    object.push(':');
    object.push_str(value);
}
