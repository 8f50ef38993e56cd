"""The ledgers of the three write-ups that this program grew out of, made by their own rules.

The tables, the keys and the order of the writes are the scripts'; what they leave out is filled in: a client that talks to
the simulator, the opening of `rows` and `dead_letter`, the extraction of a value. Each scenario leaves the file as a script
would that was ended at the worst moments.

usage: seed_ledgers.py jobs FILE BASE_URL | rows FILE [COUNT] | letters FILE COUNT | all FILE BASE_URL
Prints one JSON object that says what was made.
"""

import hashlib
import json
import sqlite3
import sys
import time
import urllib.request

KEY = "test-key-1"
WEEK = 7 * 24 * 3600.0


# --- interactions: a ledger of handles -------------------------------------------------------------------------------

def open_jobs(path):
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA journal_mode=WAL")
    db.execute("""CREATE TABLE IF NOT EXISTS jobs (
        idem TEXT PRIMARY KEY, handle TEXT, status TEXT NOT NULL, submitted_at REAL, updated_at REAL NOT NULL)""")
    db.execute("CREATE INDEX IF NOT EXISTS idx_status ON jobs(status)")
    return db


def key_of(job):
    canonical = json.dumps(job, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(canonical.encode("utf-8")).hexdigest()[:32]


def reserve(db, idem):
    try:
        db.execute("INSERT INTO jobs(idem, status, updated_at) VALUES (?, 'reserving', ?)", (idem, time.time()))
        return True
    except sqlite3.IntegrityError:
        return False


class Client:
    """What of Google's client the scripts use. The label stands for their metadata."""

    def __init__(self, base_url):
        self.base_url = base_url

    def _ask(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.base_url + "/v1beta" + path, data=data, method=method)
        request.add_header("x-goog-api-key", KEY)
        request.add_header("content-type", "application/json")
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request) as answer:
            return json.load(answer)

    def create(self, text, idem):
        body = {"model": "gemini-flash-latest", "input": text, "background": True, "labels": {"idem": idem}}
        return self._ask("POST", "/interactions", body)["id"]

    def get(self, handle):
        found = self._ask("GET", "/interactions/" + handle.removeprefix("interactions/"))
        return found["status"] not in ("queued", "in_progress"), found


class Ended(Exception):
    """The script is ended here."""


def submit(db, client, job, end=None, name="{}"):
    idem = key_of(job)
    if not reserve(db, idem):
        return False
    if end == "before create":
        raise Ended
    handle = client.create(job["input"], idem)
    if end == "after create":
        raise Ended
    now = time.time()
    db.execute("UPDATE jobs SET handle=?, status='submitted', submitted_at=?, updated_at=? WHERE idem=?",
               (name.format(handle), now, now, idem))
    return True


def reclaim(db, client, only, on_result, fails=()):
    for idem, handle in db.execute(
            "SELECT idem, handle FROM jobs WHERE status='submitted' AND handle IS NOT NULL").fetchall():
        if idem not in only:
            continue
        done, found = client.get(handle)
        while not done:
            done, found = client.get(handle)
        if idem in fails:
            db.execute("UPDATE jobs SET status='failed', updated_at=? WHERE idem=?", (time.time(), idem))
            continue
        db.execute("UPDATE jobs SET status='done', updated_at=? WHERE idem=?", (time.time(), idem))
        on_result(idem, found)
        db.execute("UPDATE jobs SET status='consumed', updated_at=? WHERE idem=?", (time.time(), idem))


def make_jobs(path, base_url):
    db, client = open_jobs(path), Client(base_url)
    jobs = [{"input": f"第{n}章を一文で要約してください。", "date": "2026-11-28", "n": n} for n in range(12)]
    keys = [key_of(job) for job in jobs]
    states = {}
    for n, job in enumerate(jobs):
        end = {9: "before create", 10: "after create"}.get(n)
        name = "interactions/{}" if n % 2 else "{}"
        try:
            assert submit(db, client, job, end, name)
            assert not submit(db, client, job), "the same job again does nothing"
            states[keys[n]] = "submitted"
        except Ended:
            states[keys[n]] = "reserving"
    # recover_orphans attaches a handle that a listing shows, and writes no time of its submission.
    handle = client.create(jobs[11]["input"] + "!", keys[11])
    db.execute("UPDATE jobs SET handle=?, status='submitted', submitted_at=NULL WHERE idem=?", (handle, keys[11]))
    reclaim(db, client, keys[:2], lambda idem, found: None)
    reclaim(db, client, keys[2:3], lambda idem, found: None, fails=keys[2:3])

    def dies(idem, found):
        raise Ended

    try:
        reclaim(db, client, keys[3:4], dies)
    except Ended:
        pass
    states.update({keys[0]: "consumed", keys[1]: "consumed", keys[2]: "failed", keys[3]: "done"})
    found = dict(db.execute("SELECT idem, status FROM jobs").fetchall())
    assert found == states, (found, states)
    handles = {idem: handle for idem, handle in db.execute("SELECT idem, handle FROM jobs").fetchall()}
    return {"jobs": [{"key": key, "line": job, "status": states[key], "handle": handles[key]}
                     for key, job in zip(keys, jobs)]}, db


# --- batches: a ledger of rows ---------------------------------------------------------------------------------------

TRANSIENT, PERMANENT = {429, 500, 502, 503, 504}, {400, 403, 404, 422}
MAX_ATTEMPTS = 4


def open_rows(path):
    db = sqlite3.connect(path)
    db.execute("""CREATE TABLE IF NOT EXISTS rows (
        key TEXT PRIMARY KEY, payload TEXT NOT NULL, status TEXT NOT NULL DEFAULT 'pending',
        attempts INTEGER NOT NULL DEFAULT 0, last_error TEXT, result TEXT, updated_at REAL)""")
    return db


def verdict_of(error):
    code, message = error.get("code"), (error.get("message") or "").lower()
    if code in TRANSIENT:
        return "retryable"
    if code in PERMANENT or "safety" in message or "blocked" in message or "recitation" in message:
        return "permanent"
    return "retryable"


def value_of(response):
    try:
        text = response["candidates"][0]["content"]["parts"][0]["text"]
        return json.loads(text)
    except (KeyError, IndexError, ValueError):
        return None


def mark(db, key, status, last_error, result=None):
    db.execute("""UPDATE rows SET status = ?, last_error = ?, result = COALESCE(?, result),
        attempts = attempts + CASE WHEN ? = 'retryable' THEN 1 ELSE 0 END, updated_at = ? WHERE key = ?""",
               (status, last_error, result, status, time.time(), key))


def reconcile(db, records):
    for record in records:
        key = record["key"]
        if "response" in record and "error" not in record:
            value = value_of(record["response"])
            if value is None:
                mark(db, key, "permanent", "schema_extract_failed")
            else:
                mark(db, key, "succeeded", None, result=json.dumps(value, ensure_ascii=False))
            continue
        error = record.get("error", {"message": "unknown"})
        verdict = verdict_of(error)
        (attempts,) = db.execute("SELECT attempts FROM rows WHERE key = ?", (key,)).fetchone()
        if verdict == "retryable" and attempts + 1 >= MAX_ATTEMPTS:
            verdict = "permanent"
        mark(db, key, verdict, json.dumps(error, ensure_ascii=False))
    db.commit()


def make_rows(path, count=40):
    db = open_rows(path)
    for n in range(count):
        payload = {"contents": [{"parts": [{"text": f"商品{n}のタグを付けてください"}]}],
                   "generationConfig": {"responseMimeType": "application/json"}}
        db.execute("INSERT INTO rows(key, payload, updated_at) VALUES (?, ?, ?)",
                   (f"row-{n:05}", json.dumps(payload, ensure_ascii=False), time.time()))
    db.commit()

    def outcome(n, attempt):
        key = f"row-{n:05}"
        good = {"candidates": [{"content": {"parts": [{"text": json.dumps({"tag": f"タグ{n}", "n": n})}]}}]}
        match n % 10:
            case 0 | 1 | 2 | 3:
                return {"key": key, "response": good}
            case 4:  # fails twice, then succeeds
                return {"key": key, "response": good} if attempt > 2 else {
                    "key": key, "error": {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}}
            case 5:  # every attempt
                return {"key": key, "error": {"code": 429, "message": "quota"}}
            case 6:
                return {"key": key, "error": {"code": 400, "message": "bad request", "status": "INVALID_ARGUMENT"}}
            case 7:
                return {"key": key, "response": {"candidates": [{"finishReason": "SAFETY"}]}}
            case 8:  # fails once, and is still to be tried again
                return {"key": key, "error": {"message": "deadline"}} if attempt == 1 else None
            case _:  # never comes back
                return None

    for attempt in range(1, MAX_ATTEMPTS + 1):
        # What build_retry_batch takes goes out again.
        due = [key for (key,) in db.execute("SELECT key FROM rows WHERE status IN ('pending', 'retryable')")]
        records = [outcome(int(key.removeprefix("row-")), attempt) for key in due]
        reconcile(db, [record for record in records if record])
    states = db.execute("SELECT key, status, attempts, result FROM rows ORDER BY rowid").fetchall()
    return {"rows": [{"key": k, "status": s, "attempts": a, "value": r and json.loads(r)} for k, s, a, r in states]}, db


# --- plain calls: dead letters ---------------------------------------------------------------------------------------

class ApiError(Exception):
    def __init__(self, status_code, message):
        super().__init__(message)
        self.status_code, self.message = status_code, message


def open_letters(path):
    db = sqlite3.connect(path)
    db.execute("""CREATE TABLE IF NOT EXISTS dead_letter (
        job_id TEXT PRIMARY KEY, payload_json TEXT NOT NULL, model TEXT, error_class TEXT, error_message TEXT,
        attempts INTEGER NOT NULL, first_seen REAL NOT NULL, last_seen REAL NOT NULL, status TEXT NOT NULL)""")
    return db


def park(db, now, job_id, payload, model, error_class, error_message, attempts):
    db.execute("""INSERT INTO dead_letter VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'parked')
        ON CONFLICT(job_id) DO UPDATE SET error_class=excluded.error_class, error_message=excluded.error_message,
        attempts=excluded.attempts, last_seen=excluded.last_seen, status='parked'""",
               (job_id, json.dumps(payload, ensure_ascii=False), model, error_class, error_message, attempts, now, now))
    db.commit()


def kind_of(status_code, message):
    text = (message or "").upper()
    if status_code in PERMANENT or "INVALID_ARGUMENT" in text or "FAILED_PRECONDITION" in text:
        return "permanent"
    if "SAFETY" in text or "BLOCKED" in text:
        return "permanent"
    return "retryable"


def run_with_dead_letter(db, now, job_id, payload, model, call_model, max_attempts=4):
    for attempt in range(1, max_attempts + 1):
        try:
            return call_model(payload)
        except ApiError as error:
            kind = kind_of(error.status_code, error.message)
            if kind == "permanent" or attempt >= max_attempts:
                word = "permanent" if kind == "permanent" else "exhausted"
                park(db, now, job_id, payload, model, f"{word}:{error.status_code}", error.message, attempt)
                return None


def replay(db, call_model, limit):
    for job_id, payload in db.execute(
            "SELECT job_id, payload_json FROM dead_letter WHERE status='parked' ORDER BY last_seen LIMIT ?",
            (limit,)).fetchall():
        call_model(json.loads(payload))
        db.execute("UPDATE dead_letter SET status='recovered', last_seen=? WHERE job_id=?", (time.time(), job_id))
    db.commit()


def make_letters(path, count):
    db = open_letters(path)
    began = time.time() - WEEK

    def fails(n):
        code = [400, 503, 429, 403][n % 4]

        def call_model(payload):
            raise ApiError(code, f"{code}: その{n}")
        return call_model

    for n in range(count):
        # Ids are any text, and payloads what the caller's call_model takes.
        job_id = f"article-{n}" if n % 3 else f"記事 {n}/朝刊"
        payload = [
            {"contents": [{"role": "user", "parts": [{"text": f"要約 {n}"}]}], "generationConfig": {"temperature": 0.2}},
            {"prompt": f"要約してください {n}", "tone": "plain"},
            {"contents": f"Summarise {n}"},
            {"text": f"nobody knows what {n} is"},
        ][n % 4]
        run_with_dead_letter(db, began + n, job_id, payload, "gemini-flash-latest", fails(n))
    # Two of them are replayed by hand after that, the oldest ones.
    replay(db, lambda payload: {}, 2)
    rows = db.execute("SELECT job_id, status, error_class, error_message, attempts, first_seen, payload_json"
                      " FROM dead_letter ORDER BY rowid").fetchall()
    names = ["job_id", "status", "class", "message", "attempts", "first_seen", "payload"]
    return {"letters": [dict(zip(names, row)) for row in rows]}, db


def main():
    what, path, *rest = sys.argv[1:]
    made, open_files = {}, []
    if what in ("jobs", "all"):
        more, db = make_jobs(path, rest[0])
        made.update(more)
        open_files.append(db)
    if what in ("rows", "all"):
        more, db = make_rows(path, int(rest[0]) if what == "rows" and rest else 40)
        made.update(more)
        open_files.append(db)
    if what in ("letters", "all"):
        more, db = make_letters(path, int(rest[0]) if what == "letters" else 8)
        made.update(more)
        open_files.append(db)
    print(json.dumps(made))
    sys.stdout.flush()
    if what in ("jobs", "all"):
        # As a script that is killed: the log stays beside the file.
        import os
        os._exit(0)


main()
