"""Drives Google's own client, unchanged, against a simulator: sdk_interactions.py BASE_URL API_VERSION

Prints one JSON line per interaction that is left: {"id", "input", "output_text", "status"}. Exits with an
error as soon as the client does not behave as it does against Gemini.
"""

import json
import sys
import time

import pydantic
from google import genai
from google.genai import errors

MODEL = "gemini-flash-latest"


class Fact(pydantic.BaseModel):
    title: str
    year: int | None = None
    sources: list[str]


class Facts(pydantic.BaseModel):
    facts: list[Fact] = pydantic.Field(min_length=1, max_length=3)
    mood: str


def client(base_url, version, key="sdk-test-key"):
    options = {"base_url": base_url, "timeout": 20_000}
    if version != "default":
        options["api_version"] = version
    return genai.Client(api_key=key, http_options=options)


def expect(true, what):
    if not true:
        sys.exit(f"{what} is not as expected")


def raises(what, status, call):
    """The call must raise the client's API error with that HTTP status."""
    try:
        result = call()
    except Exception as error:  # The client has two families of errors.
        found = getattr(error, "status_code", None) or getattr(error, "code", None)
        expect(found == status, f"{what}: {type(error).__name__} {found} {error}")
        return error
    sys.exit(f"{what} gave {result!r} instead of an error")


def finished(gemini, interaction):
    """Polls until the interaction is no longer running."""
    for _ in range(200):
        interaction = gemini.interactions.get(interaction.id)
        if interaction.status not in ("queued", "in_progress"):
            return interaction
        time.sleep(0.01)
    sys.exit(f"{interaction.id} is still {interaction.status}")


def report(interaction, given):
    line = {"id": interaction.id, "input": given, "output_text": interaction.output_text, "status": interaction.status}
    print(json.dumps(line), flush=True)


def background(gemini):
    given = "海の潮汐について、三つの事実を教えてください。" * 4
    created = gemini.interactions.create(model=MODEL, input=given, background=True, labels={"task": "t-1"})
    expect(created.status == "in_progress" and created.id.startswith("v1_"), f"the create's answer {created!r}")
    expect(not created.steps, "a running interaction's steps")
    done = finished(gemini, created)
    expect(done.status == "completed" and done.model == MODEL and done.usage.total_tokens > 0, f"the end {done!r}")
    kinds = [step.type for step in done.steps]
    expect(kinds == ["user_input", "thought", "model_output"], f"the timeline {kinds}")
    report(done, given)
    raises("the cancel of an ended interaction", 400, lambda: gemini.interactions.cancel(created.id))


def foreground(gemini):
    given = [{"type": "text", "text": "Describe"}, {"type": "text", "text": " the tides."}]
    done = gemini.interactions.create(model=MODEL, input=given)
    expect(done.status == "completed" and done.output_text.endswith("Describe the tides."), f"a foreground answer {done!r}")
    expect([step.type for step in done.steps] == ["thought", "model_output"], "the steps of a create's answer")
    again = gemini.interactions.get(done.id)
    expect(again.output_text == done.output_text, "what GET makes of a create's answer")
    # The client sends a list of contents as one step of the user.
    report(again, [{"type": "user_input", "content": given}])


def structured(gemini):
    schema = Facts.model_json_schema()
    for number, form in enumerate([{"type": "text", "mime_type": "application/json", "schema": schema}] * 2):
        given = f"Facts, number {number}"
        form = form if number == 0 else [form]
        created = gemini.interactions.create(model=MODEL, input=given, background=True, response_format=form)
        done = finished(gemini, created)
        facts = Facts.model_validate_json(done.output_text)
        expect(facts.facts[0].title.startswith("sim "), f"the structured answer {facts!r}")
        report(done, given)


def agent(gemini):
    name = "deep-research-preview-04-2026"
    created = gemini.interactions.create(agent=name, input="Look it up.", background=True)
    done = finished(gemini, created)
    expect(done.agent == name, f"the agent {done.agent}")
    report(done, "Look it up.")


def cancelled(gemini):
    created = gemini.interactions.create(model=MODEL, input="To be cancelled.", background=True)
    answer = gemini.interactions.cancel(created.id)
    expect(answer.status == "cancelled", f"the answer of a cancel {answer!r}")
    report(gemini.interactions.get(created.id), "To be cancelled.")


def deleted(gemini):
    created = gemini.interactions.create(model=MODEL, input="To be deleted.")
    gemini.interactions.delete(created.id)
    raises("GET after delete", 404, lambda: gemini.interactions.get(created.id))
    raises("delete after delete", 404, lambda: gemini.interactions.delete(created.id))


def refused(gemini, bad):
    ask = lambda who, **fields: who.interactions.create(**{"model": MODEL, "input": "x", **fields})
    raises("a bad key", 400, lambda: ask(bad))
    raises("an unknown model", 404, lambda: ask(gemini, model="no-such-model"))
    error = raises("an unknown field", 400, lambda: ask(gemini, extra_body={"metadata": {"idem": "1"}}))
    expect("metadata" in str(error), f"the message {error}")
    raises("background without store", 400, lambda: ask(gemini, background=True, store=False))
    raises("an unknown interaction", 404, lambda: gemini.interactions.get("v1_unknown"))


def calls(gemini, bad):
    answer = gemini.models.generate_content(model=MODEL, contents="Three facts about tides.")
    expect(answer.text.startswith("sim ") and answer.text.endswith(": Three facts about tides."), f"{answer.text!r}")
    expect(answer.candidates[0].finish_reason.name == "STOP" and answer.usage_metadata.total_token_count > 0, "a call")
    config = {"response_mime_type": "application/json", "response_schema": Facts}
    answer = gemini.models.generate_content(model=MODEL, contents="Facts.", config=config)
    expect(isinstance(answer.parsed, Facts) and answer.parsed.mood.startswith("sim "), f"a structured call {answer!r}")
    call = lambda who, model: (lambda: who.models.generate_content(model=model, contents="x"))
    expect(isinstance(raises("a call with a bad key", 400, call(bad, MODEL)), errors.APIError), "the error's class")
    raises("a call of an unknown model", 404, call(gemini, "no-such-model"))


def main(base_url, version):
    gemini, bad = client(base_url, version), client(base_url, version, "bad-key")
    for part in (background, foreground, structured, agent, cancelled, deleted):
        part(gemini)
    refused(gemini, bad)
    calls(gemini, bad)


if __name__ == "__main__":
    main(*sys.argv[1:])
