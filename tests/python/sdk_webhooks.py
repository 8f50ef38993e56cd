"""Drives the webhooks of Google's own client, unchanged, against a simulator: sdk_webhooks.py BASE_URL API_VERSION

Receives the events itself and proves them with the standardwebhooks and cryptography packages. Prints one JSON line
per event: {"form", "type", "about"}. Exits with an error as soon as anything is not as it is at Gemini.
"""

import base64
import http.server
import json
import queue
import sys
import threading
import urllib.request

import standardwebhooks
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ed25519, padding, rsa
from google import genai

MODEL = "gemini-flash-latest"
EVENTS = ["interaction.completed", "interaction.failed", "batch.succeeded"]


def expect(true, what):
    if not true:
        sys.exit(f"{what} is not as expected")


def client(base_url, version, key="sdk-webhook-key"):
    options = {"base_url": base_url, "timeout": 20_000}
    if version != "default":
        options["api_version"] = version
    return genai.Client(api_key=key, http_options=options)


def missing(what, call):
    try:
        result = call()
    except Exception as error:
        expect(getattr(error, "status_code", None) == 404, f"{what}: {type(error).__name__} {error}")
        return
    sys.exit(f"{what} gave {result!r} instead of an error")


class Receiver(http.server.BaseHTTPRequestHandler):
    came = queue.Queue()

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.send_response(204)
        self.end_headers()
        self.came.put((headers, body))

    def log_message(self, *_):
        pass


def next_event():
    return Receiver.came.get(timeout=20)


def report(form, body):
    event = json.loads(body)
    print(json.dumps({"form": form, "type": event["type"], "about": event["data"].get("id")}), flush=True)


def resource(gemini, uri):
    made = [gemini.webhooks.create(uri=uri, subscribed_events=EVENTS, name=f"hook {n}") for n in range(5)]
    seen, token, pages = [], None, 0
    while True:
        page = gemini.webhooks.list(page_size=2, page_token=token)
        seen += page.webhooks
        pages, token = pages + 1, page.next_page_token
        if not token:
            break
    expect(pages == 3 and [one.id for one in seen] == [one.id for one in made], f"the list {seen!r}")
    first = made[0]
    expect(first.new_signing_secret.startswith("whsec_") and first.state == "enabled", f"a new webhook {first!r}")
    got = gemini.webhooks.get(first.id)
    expect(got.new_signing_secret is None and got.name == "hook 0" and got.create_time, f"a webhook {got!r}")
    expect(got.signing_secrets[0].truncated_secret and not got.signing_secrets[0].expire_time, "its secrets")
    changed = gemini.webhooks.update(first.id, update_mask="name,state", name="other", state="disabled", uri="http://x/")
    expect((changed.name, changed.state, changed.uri) == ("other", "disabled", uri), f"a changed webhook {changed!r}")
    for one in made:
        gemini.webhooks.delete(one.id)
    missing("GET after delete", lambda: gemini.webhooks.get(first.id))
    missing("a ping after delete", lambda: gemini.webhooks.ping(first.id))
    expect(not gemini.webhooks.list().webhooks, "the list in the end")


def proved(secret, headers, body):
    try:
        standardwebhooks.Webhook(secret).verify(body, headers)
        return True
    except standardwebhooks.WebhookVerificationError:
        return False


def static(gemini, uri):
    webhook = gemini.webhooks.create(uri=uri, subscribed_events=EVENTS)
    first = webhook.new_signing_secret
    gemini.webhooks.ping(webhook.id)
    headers, body = next_event()
    expect(proved(first, headers, body) and json.loads(body)["type"] == "ping", f"a ping {body!r}")

    rotate = lambda how: gemini.webhooks.rotate_signing_secret(webhook.id, revocation_behavior=how).secret
    second = rotate("revoke_previous_secrets_after_h24")
    created = gemini.interactions.create(model=MODEL, input="Static.", background=True)
    headers, body = next_event()
    expect(proved(first, headers, body) and proved(second, headers, body), "an event between two secrets")
    expect(json.loads(body)["data"]["id"] == created.id, f"an event {body!r}")
    expect(not proved(first, headers, body + b" "), "a changed event")
    report("v1", body)
    secrets = gemini.webhooks.get(webhook.id).signing_secrets
    expect([secret.expire_time is None for secret in secrets] == [True, False], f"the secrets {secrets!r}")

    third = rotate("revoke_previous_secrets_immediately")
    gemini.interactions.create(model=MODEL, input="Static again.", background=True)
    headers, body = next_event()
    found = [proved(secret, headers, body) for secret in (first, second, third)]
    expect(found == [False, False, True], f"an event after a revocation {found}")
    report("v1", body)
    gemini.webhooks.delete(webhook.id)


def bytes_of(text):
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def by_ed25519(keys, headers, body):
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    signature = base64.b64decode(headers["webhook-signature"].removeprefix("v1a,"))
    fits = []
    for key in keys:
        if key["kty"] == "OKP" and "kid" not in key:
            try:
                ed25519.Ed25519PublicKey.from_public_bytes(bytes_of(key["x"])).verify(signature, signed)
                fits.append(True)
            except InvalidSignature:
                fits.append(False)
    return fits


def by_token(keys, headers, uri):
    head, claims, signature = headers["webhook-signature"].split(".")
    kid = json.loads(bytes_of(head))["kid"]
    (key,) = [key for key in keys if key.get("kid") == kid]
    numbers = rsa.RSAPublicNumbers(*(int.from_bytes(bytes_of(key[part]), "big") for part in "en"))
    signed = f"{head}.{claims}".encode()
    numbers.public_key().verify(bytes_of(signature), signed, padding.PKCS1v15(), hashes.SHA256())
    claims = json.loads(bytes_of(claims))
    expect(claims["aud"] == uri and claims["exp"] > claims["iat"] and claims["jti"] == headers["webhook-id"], claims)


def dynamic(gemini, base_url, uri):
    fault(base_url, {})
    keys = json.load(urllib.request.urlopen(f"{base_url}/.well-known/jwks.json"))["keys"]
    config = {"uris": [uri], "user_metadata": {"key": "k", "nonce": "n"}}
    ask = lambda given: gemini.interactions.create(model=MODEL, input=given, background=True, webhook_config=config)
    ask("Dynamic.")
    headers, body = next_event()
    expect(by_ed25519(keys, headers, body) == [False, True, False], f"the signature {headers}")
    expect(json.loads(body)["user_metadata"] == config["user_metadata"], f"the metadata {body!r}")
    report("v1a", body)

    rows = [{"contents": [{"role": "user", "parts": [{"text": "In a batch."}]}]}]
    batch = gemini.batches.create(model=MODEL, src=rows, config={"display_name": "told", "webhook_config": config})
    headers, body = next_event()
    event = json.loads(body)
    expect(by_ed25519(keys, headers, body) == [False, True, False], f"the signature {headers}")
    expect(event["data"]["id"] == batch.name and event["user_metadata"] == config["user_metadata"], f"an event {body!r}")
    report("v1a", body)

    fault(base_url, {"event-jwt": 1})
    ask("Dynamic by a token.")
    headers, body = next_event()
    by_token(keys, headers, uri)
    report("jwt", body)
    fault(base_url, {})


def fault(base_url, rates):
    put = urllib.request.Request(f"{base_url}/simulator/faults", json.dumps(rates).encode(), method="PUT")
    urllib.request.urlopen(put).close()


def main(base_url, version):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    uri = f"http://127.0.0.1:{server.server_port}/hook"
    gemini = client(base_url, version)
    resource(gemini, uri)
    static(gemini, uri)
    dynamic(gemini, base_url, uri)
    expect(Receiver.came.empty(), "the number of events")


if __name__ == "__main__":
    main(*sys.argv[1:])
