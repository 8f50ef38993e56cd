"""Drives Google's own client, unchanged, against a simulator: sdk_batches.py BASE_URL API_VERSION

Prints one JSON line per row of a batch that succeeded: {"name", "key", "contents", "text"}. Exits with an error as
soon as the client does not behave as it does against Gemini.
"""

import json
import os
import sys
import tempfile
import time

from google import genai
from google.genai import errors

MODEL = "gemini-flash-latest"


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
    except errors.APIError as error:
        expect(error.code == status, f"{what}: {error}")
        return error
    sys.exit(f"{what} gave {result!r} instead of an error")


def ended(gemini, job):
    """Polls until the batch is no longer running."""
    for _ in range(200):
        job = gemini.batches.get(name=job.name)
        if job.state.name not in ("JOB_STATE_PENDING", "JOB_STATE_RUNNING"):
            return job
        time.sleep(0.01)
    sys.exit(f"{job.name} is still {job.state}")


def contents(text):
    return [{"role": "user", "parts": [{"text": text}]}]


def report(job, key, asked, text):
    print(json.dumps({"name": job.name, "key": key, "contents": asked, "text": text}), flush=True)


def upload(gemini, rows, **config):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "rows.jsonl")
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        size = os.path.getsize(path)
        uploaded = gemini.files.upload(file=path, config={"mime_type": "application/jsonl", **config})
    expect(uploaded.size_bytes == size and uploaded.state.name == "ACTIVE", f"the file {uploaded!r}")
    return uploaded


def from_file(gemini, rows, name):
    asked = {f"row-{n}": contents(f"{name} 第{n}行") for n in range(rows)}
    spellings = [{"generation_config": {"temperature": 1.0}}, {"generationConfig": {"maxOutputTokens": 100}}]
    lines = [{"key": key, "request": {"contents": said, **spellings[n % 2]}} for n, (key, said) in enumerate(asked.items())]
    uploaded = upload(gemini, lines, display_name=name)
    expect(gemini.files.get(name=uploaded.name).display_name == name, "the file's display name")
    expect(uploaded.name in [file.name for file in gemini.files.list(config={"page_size": 2})], "the list of files")
    created = gemini.batches.create(model=MODEL, src=uploaded.name, config={"display_name": name})
    expect(created.state.name == "JOB_STATE_PENDING" and created.display_name == name, f"the batch {created!r}")
    return created, uploaded, asked


def collected(gemini, rows, name):
    created, uploaded, asked = from_file(gemini, rows, name)
    done = ended(gemini, created)
    expect(done.state.name == "JOB_STATE_SUCCEEDED" and done.end_time, f"the end {done!r}")
    output = gemini.files.download(file=done.dest.file_name).decode("utf-8")
    lines = [json.loads(line) for line in output.splitlines()]
    expect([line["key"] for line in lines] == list(asked), "the keys of the output")
    for line in lines:
        text = line["response"]["candidates"][0]["content"]["parts"][0]["text"]
        report(created, line["key"], asked[line["key"]], text)
    raises("files.get of an output", 400, lambda: gemini.files.get(name=done.dest.file_name))
    gemini.files.delete(name=uploaded.name)
    raises("files.get after delete", 404, lambda: gemini.files.get(name=uploaded.name))
    return created


def inline(gemini):
    asked = {f"inline-{n}": contents(f"inline {n}") for n in range(3)}
    requests = [{"contents": said, "metadata": {"key": key}} for key, said in asked.items()]
    job = gemini.batches.create(model=MODEL, src=requests, config={"display_name": "inline"})
    done = ended(gemini, job)
    for response in done.dest.inlined_responses:
        key = response.metadata["key"]
        report(job, key, asked[key], response.response.text)


def listed(gemini, jobs):
    names = [job.name for job in gemini.batches.list(config={"page_size": 2})]
    expect(names == [job.name for job in reversed(jobs)], f"the list {names}")


def stopped(gemini):
    cancelled, _, _ = from_file(gemini, 2, "to be cancelled")
    gemini.batches.cancel(name=cancelled.name)
    expect(ended(gemini, cancelled).state.name == "JOB_STATE_CANCELLED", "a cancelled batch")
    gemini.batches.delete(name=cancelled.name)
    raises("GET after delete", 404, lambda: gemini.batches.get(name=cancelled.name))


def refused(gemini, bad, job):
    raises("a bad key", 400, lambda: bad.batches.get(name=job.name))
    raises("an unknown batch", 404, lambda: gemini.batches.get(name="batches/unknown"))
    lines = [{"key": "a", "request": {"contents": contents("a"), "thinking_config": {}}}]
    create = lambda src, model=MODEL: gemini.batches.create(model=model, src=src)
    error = raises("a bad line", 400, lambda: create(upload(gemini, lines).name))
    expect("Error on line 1: invalid JSON, near column" in str(error), f"the message {error}")
    raises("an unknown file", 404, lambda: create("files/unknown"))
    raises("an unknown model", 404, lambda: create("files/unknown", "no-such-model"))


def main(base_url, version):
    # Batches are listed for a key.
    gemini, bad = client(base_url, version, f"key-{version}"), client(base_url, version, "bad-key")
    name = f"batch of {version}"
    jobs = [collected(gemini, 5, name), collected(gemini, 1, f"{name}, again"), collected(gemini, 1, f"{name}, last")]
    listed(gemini, jobs)
    refused(gemini, bad, jobs[0])
    inline(gemini)
    stopped(gemini)


if __name__ == "__main__":
    main(*sys.argv[1:])
