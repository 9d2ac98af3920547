"""The explorer of `deploy/`, behind a login."""

import http.server
import os
import re
import subprocess
import threading
from contextlib import closing

import httpx
import pytest

from schemas.upkeep import Audited
from tasks.shown import item_key
from tasks.storage.keyed_ids import pseudonym
from tasks.storage.records import audit_entries, make_audit_folder
from tests.flows.test_deploy_folder import BIN, DEPLOY, UNITS, check_health, commands_of, needs, printed_until
from tests.looked_store import EMAIL, looked_store
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
    store = looked_store(tmp_path / "store").store
    view = view.replace("/srv/curate/.venv/bin", str(BIN)).replace("/srv/curation/store", store.root)
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
        assert check_health("explorer", "8384", free_port()) != 0, "nothing answers"
        link = re.search(r"http://[^/\s]+(/\?token=\S+)", printed_until(explorer, "token="))
        assert link
        assert check_health("explorer", "8384", int(ports["8384"])) == 0
        with closing(httpx.Client(base_url=there, timeout=30, follow_redirects=True)) as visitor:
            first = wait_until(lambda: visitor.get(link[1]).status_code, caddy)
            assert first == 401, "nobody comes in without the login"
            visitor.cookies.set("colleague", "1")
            assert visitor.get("/").status_code == 403, "the login alone is not enough: the link has a token"
            entered = visitor.get(link[1])
            assert entered.status_code == 200 and "<html" in entered.text
            own = {"Origin": there, "Sec-Fetch-Site": "same-origin"}
            assert visitor.get("/", headers=own).status_code == 200
            elsewhere = own | {"Origin": "https://elsewhere.example"}
            assert visitor.get("/", headers=elsewhere).status_code == 403
            item = f"/items/{item_key('conversation', 'personal')}"
            assert EMAIL not in visitor.get(item).text
            assert visitor.post(f"{item}/open", headers=elsewhere).status_code == 403
            assert EMAIL not in visitor.get(item).text
            assert EMAIL in visitor.post(f"{item}/open", headers=own).text
            visitor.cookies.delete("colleague")
            assert visitor.post(f"{item}/open", headers=own).status_code == 401
    finally:
        for process in (explorer, caddy):
            process.terminate()
            process.wait(30)
        explorer.stdout.close()
        login.shutdown()
        login.server_close()
    assert [entry.what for entry in audit_entries(store)] == [Audited.LOOKED]


_AUDIT_ALONE_IS_WRITABLE = """
set -e
mount --bind "$1/audit" "$2"
mount --bind "$1" "$1"
mount -o remount,bind,ro "$1"
mount --bind "$2" "$1/audit"
shift 2
exec "$@"
"""
"""As in `deploy/`: the store is mounted for reading, and its audit log for writing."""


def _mounts_are_allowed() -> bool:
    return subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(not _mounts_are_allowed(), reason="this user may not mount")
def test_the_explorer_of_a_deployment_shows_masked_content_and_writes_the_audit_log_alone(tmp_path):
    store = small_store(tmp_path / "store")
    make_audit_folder(store)  # as each run does, which also makes the key for names of people
    assert pseudonym(store, "an operator")
    (tmp_path / "audit").mkdir()
    view = [BIN / "curate", "view", store.root, "--port", str(free_port()), "--no-browser"]
    mounted = ["unshare", "--mount", "sh", "-c", _AUDIT_ALONE_IS_WRITABLE, "sh", store.root, tmp_path / "audit", *view]
    explorer = subprocess.Popen(
        mounted,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    try:
        link = re.search(r"http://\S+token=\S+", printed_until(explorer, "token="))
        assert link
        with closing(httpx.Client(timeout=30, follow_redirects=True)) as colleague:
            first_page = colleague.get(link[0])
            item = re.search(r'href="(/items/[^"?]+)"', first_page.text)
            assert item
            own = {"Origin": str(first_page.url.join("/")).rstrip("/")}
            opened = colleague.post(f"{first_page.url.join(item[1])}/open", headers=own)
            assert opened.status_code == 200 and "Show this item" not in opened.text
    finally:
        explorer.terminate()
        explorer.wait(30)
        explorer.stdout.close()
    assert [entry.what for entry in audit_entries(store)] == [Audited.LOOKED]
