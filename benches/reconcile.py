"""What the original script did with a batch's output, for comparison: a ledger in SQLite, a row updated for each line.

    reconcile.py INPUT OUTPUT ROWS row|once

Fills a ledger with the first ROWS rows of INPUT (not timed), then takes the first ROWS lines of OUTPUT and prints
seconds, core seconds and counts as JSON. `row` commits after every row, as the original does; `once` commits at the end.
"""

import itertools
import json
import os
import sqlite3
import sys
import tempfile
import time

PASSING = {429, 500, 502, 503, 504}
LASTING = {400, 403, 404, 422}
ATTEMPTS = 4

UPDATE = """
UPDATE rows SET
    status = ?,
    last_error = ?,
    result = COALESCE(?, result),
    attempts = attempts + CASE WHEN ? = 'retryable' THEN 1 ELSE 0 END,
    updated_at = ?
WHERE key = ?
"""


def fill(path, source, rows):
    conn = sqlite3.connect(path)
    conn.execute(
        "CREATE TABLE rows (key TEXT PRIMARY KEY, payload TEXT, status TEXT DEFAULT 'pending',"
        " attempts INTEGER DEFAULT 0, last_error TEXT, result TEXT, updated_at REAL)"
    )
    with open(source, encoding="utf-8") as lines:
        parsed = (json.loads(line) for line in itertools.islice(lines, rows))
        conn.executemany(
            "INSERT INTO rows (key, payload) VALUES (?, ?)",
            ((row["key"], json.dumps(row["request"], ensure_ascii=False)) for row in parsed),
        )
    conn.commit()
    return conn


def judge(error):
    code = error.get("code")
    if code in PASSING:
        return "retryable"
    if code in LASTING:
        return "permanent"
    text = (error.get("message") or "").lower()
    if any(word in text for word in ("safety", "blocked", "recitation")):
        return "permanent"
    return "retryable"


def value_of(response):
    try:
        parts = response["candidates"][0]["content"]["parts"]
        return json.loads("".join(part.get("text", "") for part in parts))
    except (KeyError, IndexError, ValueError):
        return None


def mark(conn, each, key, status, problem, value=None):
    conn.execute(UPDATE, (status, problem, value, status, time.time(), key))
    if each:
        conn.commit()


def reconcile(conn, path, rows, each):
    counts = {"succeeded": 0, "retryable": 0, "permanent": 0}
    with open(path, encoding="utf-8") as lines:
        for line in itertools.islice(lines, rows):
            line = line.strip()
            if not line:
                continue
            record = json.loads(line)
            key = record["key"]
            if "response" in record and "error" not in record:
                value = value_of(record["response"])
                if value is None:
                    mark(conn, each, key, "permanent", "schema_extract_failed")
                    counts["permanent"] += 1
                else:
                    mark(conn, each, key, "succeeded", None, json.dumps(value, ensure_ascii=False))
                    counts["succeeded"] += 1
                continue
            error = record.get("error", {"message": "unknown"})
            verdict = judge(error)
            row = conn.execute("SELECT attempts FROM rows WHERE key = ?", (key,)).fetchone()
            attempts = row[0] if row else 0
            if verdict == "retryable" and attempts + 1 >= ATTEMPTS:
                verdict = "permanent"
            mark(conn, each, key, verdict, json.dumps(error, ensure_ascii=False))
            counts[verdict] += 1
    conn.commit()
    return counts


def main():
    source, output, rows, commits = sys.argv[1:]
    with tempfile.TemporaryDirectory(dir=os.path.dirname(output)) as folder:
        conn = fill(os.path.join(folder, "ledger.db"), source, int(rows))
        started, cores = time.perf_counter(), time.process_time()
        counts = reconcile(conn, output, int(rows), commits == "row")
        seconds, cores = time.perf_counter() - started, time.process_time() - cores
        conn.close()
    print(json.dumps({"seconds": seconds, "cores": cores, **counts}))


if __name__ == "__main__":
    main()
