"""A partner's app: a merchant lets it in, and it calls the API for the shop. Python 3.9 or newer, no packages:
BASE_URL=https://… CLIENT_ID=… CLIENT_SECRET=… REDIRECT_URI=http://127.0.0.1:7777/callback python3 app.py
"""
import base64, hashlib, json, os, secrets, threading, urllib.error, urllib.request, uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

BASE_URL, CLIENT_ID, CLIENT_SECRET, REDIRECT_URI = (
    os.environ[name] for name in ("BASE_URL", "CLIENT_ID", "CLIENT_SECRET", "REDIRECT_URI")
)
SCOPE = os.environ.get("SCOPE", "returns:submit warehouse")
SERVER = f"{BASE_URL}/partners"

# Lost at a restart. In production store what began a sign-in in the session of the browser, and tokens encrypted.
started, tokens_of = {}, {}
# One refresh at a time: a second use of a refresh token ends the access.
refreshing = threading.Lock()


def authorization_url():
    state, verifier = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
    started[state] = verifier
    digest = hashlib.sha256(verifier.encode()).digest()
    query = {
        "response_type": "code",
        "client_id": CLIENT_ID,
        "redirect_uri": REDIRECT_URI,
        "scope": SCOPE,
        "state": state,
        "code_challenge": base64.urlsafe_b64encode(digest).rstrip(b"=").decode(),
        "code_challenge_method": "S256",
    }
    return state, f"{SERVER}/authorize?{urlencode(query)}"


def send(url, headers, body=None, method=None):
    """Returns status and body."""
    request = urllib.request.Request(url, data=body, headers=headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=15) as response:
            return response.status, json.loads(response.read() or b"{}")
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read() or b"{}")


def post(path, form):
    """Sends a form, with the proof that this is the app."""
    proof = base64.b64encode(f"{CLIENT_ID}:{CLIENT_SECRET}".encode()).decode()
    status, body = send(SERVER + path, {"authorization": f"Basic {proof}"}, urlencode(form).encode())
    if status == 200:
        return body
    raise ValueError(f"{path}: {status} {body.get('error')}: {body.get('error_description')}")


def keep(tokens):
    payload = tokens["access_token"].split(".")[1]
    claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    tokens_of[str(claims["shop_id"])] = tokens
    return {"shop_id": claims["shop_id"], "scope": tokens["scope"], "expires_in": tokens["expires_in"]}


def callback(query, cookie):
    state = query.get("state", "")
    verifier = started.pop(state, None)
    # Without these checks another site could connect its own shop here (RFC 9700, 4.7), or pose as this server (RFC 9207).
    if not verifier or f"state={state}" not in cookie or query.get("iss") != SERVER:
        raise ValueError("the answer belongs to no sign-in here")
    if "error" in query:
        raise ValueError(f"{query['error']}: {query.get('error_description')}")
    form = {"grant_type": "authorization_code", "code": query["code"]}
    return keep(post("/oauth/token", {**form, "redirect_uri": REDIRECT_URI, "code_verifier": verifier}))


def refresh(shop):
    with refreshing:
        form = {"grant_type": "refresh_token", "refresh_token": tokens_of[shop]["refresh_token"]}
        return keep(post("/oauth/token", form))


def call(shop, method, path, body=None):
    """Calls the API for a shop. After a 401 it refreshes, and repeats the call with the same idempotency key."""
    headers = {"content-type": "application/json", "idempotency-key": str(uuid.uuid4())}

    def attempt():
        bearer = {"authorization": f"Bearer {tokens_of[shop]['access_token']}"}
        data = None if body is None else json.dumps(body).encode()
        return send(f"{BASE_URL}/api/2026-10{path}", {**headers, **bearer}, data, method)

    status, answer = attempt()
    if status == 401:
        refresh(shop)
        status, answer = attempt()
    if status >= 300:
        raise ValueError(f"{path}: {status} {json.dumps(answer)}")
    return answer


def send_back(shop, query):
    """The whole way of a unit: what may come back, the return, its arrival. Then the policy or a person refunds it."""
    order = query.get("order", "")
    lines = call(shop, "GET", f"/orders/eligibility?order_name={quote(order, safe='')}")["lines"]
    line = next((one for one in lines if one["returnable_quantity"] > 0), None)
    if line is None:
        raise ValueError(f"nothing of {order} may come back")
    items = [{"provider_line_item_id": line["provider_line_item_id"], "quantity": 1}]
    made = call(shop, "POST", "/returns", {"order_name": order, "items": items})
    arrived = [{"line_item_id": one["line_item_id"], "quantity": 1} for one in made["line_items"]]
    call(shop, "POST", "/warehouse/arrivals", {"return_id": made["id"], "items": arrived})
    return {"return_id": made["id"]}


def details(shop, query):
    found = call(shop, "GET", f"/warehouse/return/details?return_id={quote(query.get('id', ''))}")
    return {name: found[name] for name in ("id", "state", "refund")}


def disconnect(shop, _query):
    post("/oauth/revoke", {"token": tokens_of[shop]["refresh_token"]})
    del tokens_of[shop]
    return {"disconnected": shop}


ACTIONS = {
    "/return": send_back,
    "/details": details,
    "/refresh": lambda shop, _query: refresh(shop),
    "/disconnect": disconnect,
}


class App(BaseHTTPRequestHandler):
    timeout = 30  # Seconds. A client that sends nothing must not keep its thread.

    def do_POST(self):
        self.do_GET()

    def do_GET(self):
        parts = urlsplit(self.path)
        query = dict(parse_qsl(parts.query))
        if parts.path == "/connect":
            state, url = authorization_url()
            # The cookie ties the answer to this browser.
            cookie = f"state={state}; HttpOnly; SameSite=Lax; Max-Age=900"
            return self.respond(303, b"", {"location": url, "set-cookie": cookie})
        # A GET may be sent by a preview of a link, or twice.
        if parts.path in ACTIONS and ACTIONS[parts.path] is not details and self.command != "POST":
            return self.respond(405, b"use POST\n", {"allow": "POST"})
        try:
            if parts.path == urlsplit(REDIRECT_URI).path:
                body = callback(query, self.headers.get("cookie", ""))
            elif parts.path in ACTIONS and query.get("shop") in tokens_of:
                body = ACTIONS[parts.path](query["shop"], query)
            else:
                return self.respond(404, b"open /connect first\n", {})
        except ValueError as error:
            return self.respond(502, str(error).encode(), {})
        self.respond(200, json.dumps(body).encode(), {"content-type": "application/json"})

    def respond(self, status, body, headers):
        self.send_response(status)
        for name, value in {**headers, "content-length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", urlsplit(REDIRECT_URI).port or 80), App)
    print("ready", flush=True)
    server.serve_forever()
