"""What `deploy/` holds: files that their tools accept, a worker that deploys and works, an explorer behind a login."""

import http.server
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import urllib.request
from contextlib import closing
from pathlib import Path

import httpx
import pytest
import yaml

from tests.small_store import small_store
from tests.waiting import free_port, wait_until

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
BIN = Path(sys.executable).parent


def _needs(tool: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(not shutil.which(tool), reason=f"{tool} is not installed")


def _commands(unit: Path) -> list[str]:
    return re.findall(r"^ExecStart=(.+)$", unit.read_text("utf-8"), re.MULTILINE)


@_needs("systemd-analyze")
def test_systemd_takes_the_units(tmp_path):
    for unit in UNITS:
        there = re.sub(r"^ExecStart=.*", "ExecStart=/bin/true", unit.read_text("utf-8"), flags=re.MULTILINE)
        (tmp_path / unit.name).write_text(there, "utf-8")
    units = [str(tmp_path / unit.name) for unit in UNITS]
    done = subprocess.run(["systemd-analyze", "verify", *units], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_units_and_services_start_the_same_commands():
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))["services"]
    started = {name: " ".join(service.get("entrypoint", [])) for name, service in services.items()}
    for unit in UNITS:
        (command,) = _commands(unit)
        own = re.sub(r"/srv/curate/(?:\.venv/bin/)?|--host \S+ ", "", command).replace("/srv/curation/", "/data/")
        assert own == re.sub(r"--host \S+ ", "", started[unit.stem.removeprefix("curate-")])
    published = [port for service in services.values() for port in service.get("ports", [])]
    assert published and all(port.startswith("127.0.0.1:") for port in published)


@_needs("docker-compose")
def test_compose_takes_the_file_and_names_what_is_not_set(tmp_path):
    for file in ("compose.yaml", "Caddyfile"):
        shutil.copy(DEPLOY / file, tmp_path)
    example = (DEPLOY / "curate.env.example").read_text("utf-8")
    (tmp_path / "curate.env").write_text(re.sub(r"=( +#.*)?$", "=something", example, flags=re.MULTILINE))
    command = ["docker-compose", "-f", "compose.yaml", "--env-file", "curate.env", "config", "-q"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (tmp_path / "curate.env").write_text(example)
    refused = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert refused.returncode and "set it in curate.env" in refused.stderr


def test_the_worker_deploys_every_flow_and_waits_for_runs(scheduling_server, tmp_path):
    config = tmp_path / "curate.yaml"
    config.write_text(f"logs: {tmp_path}\nstore: {tmp_path / 'store'}\n", "utf-8")
    own = {"PREFECT_API_URL": scheduling_server, "CURATE_CONFIG": str(config), "PREFECT_HOME": str(tmp_path / "home")}
    environment = os.environ | own | {"PATH": f"{BIN}:{os.environ['PATH']}"}
    with (tmp_path / "worker.log").open("w") as log:
        quiet = {"stdout": log, "stderr": log, "start_new_session": True}
        started = subprocess.Popen([DEPLOY / "worker.sh"], cwd=ROOT, env=environment, **quiet)
    try:
        workers = wait_until(lambda: _post(f"{scheduling_server}/work_pools/curation/workers/filter"), started)
        assert workers[0]["status"] == "ONLINE"
        deployed = {each["name"] for each in _post(f"{scheduling_server}/deployments/filter")}
        assert {"nightly", "backfill", "release", "refresh-bench", "publish"} <= deployed
    finally:
        os.killpg(started.pid, signal.SIGTERM)
        started.wait(60)
        for each in _post(f"{scheduling_server}/deployments/filter"):
            request = urllib.request.Request(f"{scheduling_server}/deployments/{each['id']}", method="DELETE")
            urllib.request.urlopen(request, timeout=60).close()


def _post(url: str) -> list[dict]:
    request = urllib.request.Request(url, b"{}", {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


class _Login(http.server.BaseHTTPRequestHandler):
    """Lets in who has the cookie `colleague`."""

    def do_GET(self) -> None:
        self.send_response(202 if "colleague=1" in self.headers.get("Cookie", "") else 401)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nothing is printed."""


@_needs("caddy")
def test_the_explorer_is_behind_the_login_and_behind_its_own_token(tmp_path):
    login = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Login)
    threading.Thread(target=login.serve_forever, daemon=True).start()
    ports = {"8384": str(free_port()), "8443": str(free_port())}
    file = re.sub("8384|8443", lambda found: ports[found[0]], (DEPLOY / "Caddyfile").read_text("utf-8"))
    (tmp_path / "Caddyfile").write_text(file, "utf-8")
    (unit,) = (unit for unit in UNITS if "explorer" in unit.name)
    (view,) = _commands(unit)
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
        link = re.search(r"http://[^/\s]+(/\?token=\S+)", _until(explorer, "token="))
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


def _until(process: subprocess.Popen[str], word: str) -> str:
    """What a process prints up to the line with `word`."""
    lines = list[str]()
    while not lines or word not in lines[-1]:
        line = process.stdout.readline()
        assert line, "".join(lines)
        lines.append(line)
    return "".join(lines)
