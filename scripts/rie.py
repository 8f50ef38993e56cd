"""Functions in Lambda's Runtime Interface Emulator, and the parts of a stack that they work on. Used by measurements."""

import os
import urllib.error
import urllib.request
import time
from pathlib import Path

import here


def emulator_of_lambda():
    """The emulator's program, which comes with sam."""
    given = os.environ.get("GLEANER_RIE")
    machine = "arm64" if os.uname().machine in ("aarch64", "arm64") else "x86_64"
    pattern = f".venv-sam/lib/*/site-packages/samcli/local/rapid/aws-lambda-rie-{machine}"
    found = [Path(given)] if given else sorted(here.ROOT.glob(pattern))
    if not found:
        here.stop_with("the Runtime Interface Emulator is missing: run `make local` once, or name it in GLEANER_RIE")
    return found[0]


def command(port, *program):
    """What starts a function whose invocations come in at a port."""
    api = here.free_port()
    addresses = ["--runtime-interface-emulator-address", f"127.0.0.1:{port}", "--runtime-api-address", f"127.0.0.1:{api}"]
    return [str(part) for part in (emulator_of_lambda(), *addresses, *program)]


def invoke(port, event=b"{}", patience=60):
    """Invokes a function that is starting or has started, and returns its answer as text."""
    url = f"http://127.0.0.1:{port}/2015-03-31/functions/function/invocations"
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    for _ in range(200):
        try:
            with opener.open(urllib.request.Request(url, event, method="POST"), timeout=patience) as answer:
                return answer.read().decode()
        except urllib.error.URLError as error:
            if not isinstance(error.reason, ConnectionRefusedError):
                raise
            time.sleep(0.05)
    here.stop_with("the Runtime Interface Emulator does not answer")


def make_parts(port):
    """The parts of a stack, in an emulator of AWS; what a function is told of them."""
    kinds = {"pk": "S", "open": "S", "due": "N", "handle": "S"}
    here.client("dynamodb", port).create_table(
        TableName="items",
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": name, "AttributeType": kind} for name, kind in kinds.items()],
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
        GlobalSecondaryIndexes=[
            {
                "IndexName": "due",
                "KeySchema": [{"AttributeName": "open", "KeyType": "HASH"}, {"AttributeName": "due", "KeyType": "RANGE"}],
                "Projection": {"ProjectionType": "INCLUDE", "NonKeyAttributes": ["since"]},
            },
            {
                "IndexName": "handle",
                "KeySchema": [{"AttributeName": "handle", "KeyType": "HASH"}],
                "Projection": {"ProjectionType": "KEYS_ONLY"},
            },
        ],
    )
    s3 = here.client("s3", port)
    s3.create_bucket(Bucket="objects")
    s3.put_bucket_versioning(Bucket="objects", VersioningConfiguration={"Status": "Enabled"})
    queue, dead = (here.client("sqs", port).create_queue(QueueName=name)["QueueUrl"] for name in ("work", "dead"))
    keys = '{"gemini_api_keys": ["any-key"]}'
    secret = here.client("secretsmanager", port).create_secret(Name="keys", SecretString=keys)["ARN"]
    return {
        **here.environment(port),
        "GLEANER_TABLE": "items",
        "GLEANER_BUCKET": "objects",
        "GLEANER_WORK_QUEUE": queue,
        "GLEANER_DEAD_LETTERS": dead,
        "GLEANER_GEMINI_SECRET": secret,
    }
