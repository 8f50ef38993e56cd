//! A line that is a job.

use serde_json::value::RawValue;

use super::super::changes::Changes;
use super::super::job::{JobKey, Mode};
use super::super::json::{self, Json, Member};
use super::super::webhook::Hook;
use super::fields::{Fields, is_create_field, is_label_text};
use super::{Header, JobLine, KEY_LABEL, LineError, call, header, member, members_of, raw, text_of};

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
    let mode = Fields::of_line(&members).mode()?.or(header.mode).unwrap_or(Mode::Interaction);
    check(&Fields::of_line(&members), mode, header)?;
    let additions = additions(&members, header, mode);
    job(merged(members, &additions)?, header, mode).map(Some)
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
fn check(line: &Fields<'_, '_>, mode: Mode, header: &Header) -> Result<(), LineError> {
    match line.text("idempotency_key")? {
        Some(key) if !is_label_text(key) => Err(line.bad("idempotency_key", "must be 1 to 63 of a-z 0-9 _ -")),
        _ => Ok(()),
    }?;
    line.object("expect")?;
    if mode == Mode::Call {
        call::asks(line)?;
        return call::check(line);
    }
    let is_foreign = |(name, _): &&(String, Box<RawValue>)| !is_create_field(name);
    if let Some((name, _)) = header.request.iter().find(is_foreign).filter(|_| header.mode == Some(Mode::Call)) {
        return Err(line.bad("mode", &format!("an interaction has no {name}, which the header sets for every line")));
    }
    check_input(line)?;
    line.check_create_fields()
}

/// The input of an interaction.
fn check_input(line: &Fields<'_, '_>) -> Result<(), LineError> {
    let Some(input) = line.get("input") else {
        let why = if line.get("contents").is_some() {
            "missing; contents are for a plain call: say \"mode\": \"call\""
        } else {
            "missing; every job has one"
        };
        return Err(line.bad("input", why));
    };
    match &input.value {
        Json::Text(text) if !text.is_empty() => Ok(()),
        Json::Array(items) if !items.is_empty() => Ok(()),
        Json::Object(members) if !members.is_empty() => Ok(()),
        Json::Text(_) | Json::Array(_) | Json::Object(_) => Err(line.bad("input", "must not be empty")),
        other => {
            let why = format!("must be a string, an array or an object, not {}", other.kind());
            Err(line.bad("input", &why))
        }
    }
}

/// What the header adds to this line, as JSON texts: what changes the request and the line doesn't set. A header's
/// model or agent is for lines that name neither.
fn additions(line: &[Member<'_>], header: &Header, mode: Mode) -> Vec<(String, String)> {
    let has = |name: &str| {
        // A call's fields are the same in either spelling.
        let is_same =
            |own: &str| mode == Mode::Call && call::sent_as(name).is_some_and(|sent| call::sent_as(own) == Some(sent));
        line.iter().any(|own| own.name == name || is_same(&own.name))
    };
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

fn job(members: Vec<Member<'_>>, header: &Header, mode: Mode) -> Result<JobLine, LineError> {
    let whole = Fields::of_line(&members);
    if mode == Mode::Call {
        // The header's fields too: it may not have known that they are for a call.
        call::check(&whole)?;
    }
    let target = whole.target()?.map(str::to_owned);
    let own_key = whole.text("idempotency_key")?.map(|key| JobKey(key.to_owned()));
    let expect = whole.get("expect").map(|expect| raw(expect.text)).transpose()?;
    let request = if mode == Mode::Call { call::sent(&members)? } else { created_with(&members)? };
    let is_sent = |name: &str| match mode {
        Mode::Call => name == "input" || name == "model" || call::sent_as(name).is_some(),
        Mode::Interaction | Mode::Batch => is_create_field(name),
    };
    let unsent = members.iter().map(|field| field.name.as_ref());
    let unsent = unsent.filter(|name| !is_sent(name) && !FOR_GLEANER.contains(name)).map(str::to_owned).collect();
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

/// The create call's fields as written.
fn created_with(members: &[Member<'_>]) -> Result<Vec<(String, Box<RawValue>)>, LineError> {
    let fields = members.iter().filter(|field| is_create_field(&field.name));
    fields.map(|field| Ok((field.name.clone().into_owned(), raw(field.text)?))).collect()
}

impl JobLine {
    /// The body of the create call: the line's fields as written, the model or agent that the job goes to, `background`,
    /// `store`, the label `gleaner` with the key, and `webhook_config` where Gemini is to call back.
    ///
    /// Another model than the line's own, which a replay asked for, takes the place of the line's model or agent.
    #[must_use]
    pub fn create_body(&self, model: &str, hook: Option<&Hook<'_>>) -> Vec<u8> {
        let mut body = String::from("{");
        let is_own = self.target.as_deref() == Some(model);
        for (name, value) in self.request.iter().filter(|(name, _)| name != "labels") {
            if is_own || !matches!(name.as_str(), "model" | "agent") {
                push_member(&mut body, name, value.get());
            }
        }
        if !is_own {
            push_member(&mut body, "model", &json::quoted(model));
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

    /// The body of a plain call. The model stands in the path.
    #[must_use]
    pub fn call_body(&self) -> Vec<u8> {
        self.whole_request().into_bytes()
    }

    /// The request as one JSON object.
    fn whole_request(&self) -> String {
        let mut body = String::from("{");
        for (name, value) in &self.request {
            push_member(&mut body, name, value.get());
        }
        body.push('}');
        body
    }

    /// The line with the fields that a replay puts in the place of its own. Its key and its content stay: it is the same
    /// job. The model that a replay names stands on the job.
    ///
    /// # Errors
    /// Fields that a line could not have either, in words that begin with `request.`.
    pub fn changed(&self, changes: &Changes) -> Result<Self, LineError> {
        let Some(patch) = &changes.request else { return Ok(self.clone()) };
        let members = members_of(Json::parse(patch.get())?).map_err(|kind| LineError {
            class: "bad_line:field",
            message: format!("request: must be an object, not {kind}"),
        })?;
        let fields = Fields { path: "request.", ..Fields::of_line(&members) };
        if let Some(target) = members.iter().find(|field| matches!(field.name.as_ref(), "model" | "agent")) {
            return Err(fields.bad(&target.name, "another model is given beside the request's fields, as model"));
        }
        let is_call = self.mode == Mode::Call;
        let is_known =
            |name: &str| if is_call { name == "input" || call::sent_as(name).is_some() } else { is_create_field(name) };
        let (request, changes) = if is_call {
            call::check(&fields)?;
            let has_contents = members.iter().any(|field| field.name == "input");
            let own = self.request.iter().filter(|(name, _)| !(has_contents && name == "contents")).cloned().collect();
            // Under the names that are sent; null still says that a field is to go.
            let patch = Self { request: call::sent(&members)?, ..self.clone() }.whole_request();
            (own, Changes { model: None, request: Some(raw(&patch)?) })
        } else {
            fields.check_create_fields()?;
            (self.request.clone(), Changes { model: None, request: Some(patch.clone()) })
        };
        if let Some(unknown) = members.iter().find(|field| !is_known(&field.name)) {
            return Err(fields.bad(&unknown.name, "Gemini's request has no such field"));
        }
        let text = changes.apply(&Self { request, ..self.clone() }.whole_request())?;
        let members = members_of(Json::parse(&text)?).unwrap_or_default();
        let fields = Fields { path: "request.", ..Fields::of_line(&members) };
        let request = if is_call {
            call::asks(&fields)?;
            call::check(&fields)?;
            call::sent(&members)?
        } else {
            check_input(&fields)?;
            created_with(&members)?
        };
        Ok(Self { request, ..self.clone() })
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
