"""Receives webhooks and verifies them (Standard Webhooks). Python 3.9 or newer, no packages:
WEBHOOK_SECRET=whsec_… PORT=8000 python3 receiver.py
"""
import base64, hashlib, hmac, json, os, re, threading, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TOLERANCE_S = 300  # An older request may be a copy that somebody recorded and sends again.
MAX_BODY = 32 * 1024 * 1024  # Bytes. The details of a large return have up to 24 MiB.
MAX_IDS = 100_000

# The key is what the text after the prefix encodes, not the text.
KEY = base64.b64decode(os.environ.get("WEBHOOK_SECRET", "").removeprefix("whsec_"))
if not KEY:
    raise SystemExit("WEBHOOK_SECRET must be the secret of the webhook: whsec_…")

# Lost at a restart. In production store the id (unique) and the event in a table before you respond.
seen, lock, printing = {}, threading.Lock(), threading.Lock()


def is_genuine(headers, body):
    message_id, sent_at = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    if not message_id or not re.fullmatch("[0-9]{1,12}", sent_at):
        return False
    if abs(time.time() - int(sent_at)) > TOLERANCE_S:
        return False
    # The bytes as they came: JSON that was parsed and written again has another signature.
    signed = f"{message_id}.{sent_at}.".encode() + body
    expected = b"v1," + base64.b64encode(hmac.digest(KEY, signed, hashlib.sha256))
    # While a secret rotates, the header has a signature of each secret. One match is enough.
    # Constant time: how long a comparison takes must not show how much of a guess is right.
    signatures = headers.get("webhook-signature", "").encode().split(b" ")
    return any(hmac.compare_digest(one, expected) for one in signatures)


def is_new(message_id):
    with lock:
        if message_id in seen:
            return False
        seen[message_id] = True
        if len(seen) > MAX_IDS:
            del seen[next(iter(seen))]  # the oldest
        return True


class Receiver(BaseHTTPRequestHandler):
    timeout = 30  # Seconds. A client that sends nothing must not keep its thread.

    def do_POST(self):
        length = int(self.headers.get("content-length", 0))
        body = self.rfile.read(length) if 0 <= length <= MAX_BODY else b""
        genuine = len(body) == length and is_genuine(self.headers, body)
        # Respond, then work: after 15 seconds the sender gives up and sends it again. A repeat gets 2xx, too.
        self.send_response(204 if genuine else 401)
        self.end_headers()
        if genuine and is_new(self.headers["webhook-id"]):
            is_test = self.headers.get("x-service-test") == "true"
            handle(self.headers["webhook-id"], json.loads(body), is_test)


# The data of a test event is a sample: its return does not exist.
def handle(message_id, event, is_test):
    kind = "test " if is_test else ""
    with printing:  # Threads would mix their lines.
        print(f"{message_id} {kind}{event['trigger']} {json.dumps(event)}", flush=True)


server = ThreadingHTTPServer(("", int(os.environ.get("PORT", "8000"))), Receiver)
print("ready", flush=True)
server.serve_forever()
