"""What `standardwebhooks` itself signs, and what it takes.

Reads one JSON object a line: `{"do": "sign", "secret", "id", "timestamp", "body"}` is answered with the signature,
`{"do": "verify", "secret", "headers", "body", "now"}` with `ok`, or `refused <why>`. The library's only change is the
clock, which stands at `now` (Unix seconds).
"""

import json
import sys
from datetime import datetime, timezone

from standardwebhooks import webhooks


class Standing(datetime):
    at = 0.0

    @classmethod
    def now(cls, tz=None):
        return cls.fromtimestamp(cls.at, tz=tz)


webhooks.datetime = Standing


def answer(question):
    hook = webhooks.Webhook(question["secret"])
    if question["do"] == "sign":
        at = datetime.fromtimestamp(question["timestamp"], tz=timezone.utc)
        return hook.sign(msg_id=question["id"], timestamp=at, data=question["body"])
    Standing.at = question["now"]
    try:
        hook.verify(question["body"], question["headers"], json_parse=False)
    except Exception as error:  # whatever it meets, it has not verified
        return "refused " + ascii(f"{type(error).__name__}: {error}")
    return "ok"


for line in sys.stdin:
    print(answer(json.loads(line)), flush=True)
