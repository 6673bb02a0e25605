"""A Redfish BMC: the emulator of sushy-tools, whose power is that of no machine. It has no sessions of its own; here
they are put in front of it. It notes each request, for the test to read.

Arguments: folder with cert.pem and key.pem, port, password, and of `sessions` and `lies` what it is to have.
"""

import base64
import io
import json
import ssl
import sys
from pathlib import Path

import bcrypt
from sushy_tools.emulator.main import app

folder, port, password, *wants = sys.argv[1:]
folder = Path(folder)
UUID = "5f6b5b3e-0f2d-4c39-9f0e-2f6d3b6a0c11"
SESSIONS = "/redfish/v1/SessionService/Sessions"
hashed = bcrypt.hashpw(password.encode(), bcrypt.gensalt(10)).decode()
(folder / "htpasswd").write_text(f"admin:{hashed}\n")
app.configure(
    extra_config={
        "SUSHY_EMULATOR_FAKE_DRIVER": True,
        "SUSHY_EMULATOR_FAKE_SYSTEMS": [
            {"uuid": UUID, "name": "host", "power_state": "On", "external_notifier": False, "nics": []}
        ],
        "SUSHY_EMULATOR_STATE_DIR": str(folder),
        "SUSHY_EMULATOR_AUTH_FILE": str(folder / "htpasswd"),
    }
)
inner = app.wsgi_app
basic = "Basic " + base64.b64encode(f"admin:{password}".encode()).decode()
tokens = set()


def note(environ, what):
    with (folder / "requests").open("a") as log:
        log.write(f"{environ['REQUEST_METHOD']} {environ['PATH_INFO']} {what}\n")


def outer(environ, start_response):
    path, method = environ["PATH_INFO"], environ["REQUEST_METHOD"]
    if path.rstrip("/") == "/redfish/v1" and "sessions" in wants:
        note(environ, "")
        body = json.loads(b"".join(inner(environ, lambda *_: None)))
        body["Links"] = {"Sessions": {"@odata.id": SESSIONS}}
        start_response("200 OK", [("Content-Type", "application/json")])
        return [json.dumps(body).encode()]
    if path == SESSIONS and method == "POST" and "sessions" in wants:
        asked = json.loads(environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"])))
        note(environ, "")
        if (asked["UserName"], asked["Password"]) != ("admin", password):
            start_response("401 Unauthorized", [])
            return [b"{}"]
        token = f"token-{len(tokens) + 1}"
        tokens.add(token)
        start_response("201 Created", [("X-Auth-Token", token), ("Location", f"{SESSIONS}/{token}")])
        return [b"{}"]
    if path.startswith(SESSIONS) and method == "DELETE":
        note(environ, "")
        tokens.discard(environ.get("HTTP_X_AUTH_TOKEN"))
        start_response("204 No Content", [])
        return []
    token = environ.get("HTTP_X_AUTH_TOKEN")
    how = "token" if token in tokens else "password" if "HTTP_AUTHORIZATION" in environ else "none"
    if (folder / "forget").exists():
        # The BMC was restarted: it knows no session any more.
        (folder / "forget").unlink()
        tokens.clear()
        how = "none"
    if how == "token":
        environ["HTTP_AUTHORIZATION"] = basic
    if method == "POST" and path.endswith("ComputerSystem.Reset"):
        body = environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"]))
        note(environ, f"{how} {json.loads(body)['ResetType']}")
        if "lies" in wants:
            start_response("204 No Content", [])
            return []
        environ["wsgi.input"] = io.BytesIO(body)
    else:
        note(environ, how)
    return inner(environ, start_response)


app.wsgi_app = outer
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
app.run(host="127.0.0.1", port=int(port), ssl_context=context)
