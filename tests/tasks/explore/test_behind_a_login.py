"""The explorer of `deploy/`, behind a login."""

import http.server
import os
import re
import subprocess
import threading
from contextlib import closing

import httpx

from tests.flows.test_deploy_folder import BIN, DEPLOY, UNITS, commands_of, needs, printed_until
from tests.places import ROOT
from tests.small_store import small_store
from tests.waiting import free_port, wait_until


class _Login(http.server.BaseHTTPRequestHandler):
    """Lets in who has the cookie `colleague`."""

    def do_GET(self) -> None:
        self.send_response(202 if "colleague=1" in self.headers.get("Cookie", "") else 401)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nothing is printed."""


@needs("caddy")
def test_the_explorer_is_behind_the_login_and_behind_its_own_token(tmp_path):
    login = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Login)
    threading.Thread(target=login.serve_forever, daemon=True).start()
    ports = {"8384": str(free_port()), "8443": str(free_port())}
    file = re.sub("8384|8443", lambda found: ports[found[0]], (DEPLOY / "Caddyfile").read_text("utf-8"))
    (tmp_path / "Caddyfile").write_text(file, "utf-8")
    (unit,) = (unit for unit in UNITS if "explorer" in unit.name)
    (view,) = commands_of(unit)
    view = view.replace("/srv/curate/.venv/bin", str(BIN)).replace(
        "/srv/curation/store", small_store(tmp_path / "store").root
    )
    proxy = ["caddy", "run", "--config", "Caddyfile", "--adapter", "caddyfile"]
    there = f"http://127.0.0.1:{ports['8443']}"
    told = {
        "EXPLORER_LOGIN": f"127.0.0.1:{login.server_port}",
        "EXPLORER_ADDRESS": there,
        "XDG_DATA_HOME": str(tmp_path),
    }
    environment = os.environ | told
    quiet = {"stderr": subprocess.DEVNULL, "cwd": tmp_path, "env": environment | {"PYTHONPATH": str(ROOT)}}
    explorer = subprocess.Popen(view.replace("8384", ports["8384"]).split(), stdout=subprocess.PIPE, text=True, **quiet)
    caddy = subprocess.Popen(proxy, stdout=subprocess.DEVNULL, **quiet)
    try:
        link = re.search(r"http://[^/\s]+(/\?token=\S+)", printed_until(explorer, "token="))
        assert link
        with closing(httpx.Client(base_url=there, timeout=30, follow_redirects=True)) as visitor:
            first = wait_until(lambda: visitor.get(link[1]).status_code, caddy)
            assert first == 401, "nobody comes in without the login"
            visitor.cookies.set("colleague", "1")
            assert visitor.get("/").status_code == 403, "the login alone is not enough: the link has a token"
            entered = visitor.get(link[1])
            assert entered.status_code == 200 and "<html" in entered.text
            own = {"Origin": there, "Sec-Fetch-Site": "same-origin"}
            assert visitor.get("/", headers=own).status_code == 200
            assert visitor.get("/", headers=own | {"Origin": "https://elsewhere.example"}).status_code == 403
    finally:
        for process in (explorer, caddy):
            process.terminate()
            process.wait(30)
        explorer.stdout.close()
        login.shutdown()
        login.server_close()
