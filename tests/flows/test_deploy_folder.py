"""What `deploy/` holds: files that their tools accept, and a worker that deploys and works."""

import http.server
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import threading
import tomllib
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from tests.docker_context import context_files
from tests.image_root import checked, extras_of, fingerprint, instructions_of, stages_of
from tests.waiting import free_port, wait_until

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
SERVICES = yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))["services"]
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
BIN = Path(sys.executable).parent


def needs(tool: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(not shutil.which(tool), reason=f"{tool} is not installed")


def commands_of(unit: Path) -> list[str]:
    return re.findall(r"^ExecStart=(.+)$", unit.read_text("utf-8"), re.MULTILINE)


OPERATORS_FILES = """
deploy/curate.env deploy/curate.env.bak deploy/tls.key deploy/tls.pem .env .env.local server.env flows/.env
flows/commands/worker.env curate.yaml tasks/curate.yaml schemas/secret/user_key tasks/token.pem
tasks/__pycache__/planted.cpython-311.pyc store/secret/user_key store/tables/x/1.parquet .prefect/server.db
arena-2024/releases/1.0.0/README.md logs/2024-06-20-conv.json demo/store/runs/1.json .venv/core .venv/bin/python
.aws/credentials backups/list.json models.yaml id_rsa notes.py
"""
"""Secrets, data and environments, as they may lie in the clone of somebody who operates it."""
IN_AN_IMAGE = """
LICENSE NOTICE Makefile README.md constraints.txt prefect.yaml pyproject.toml deploy/pools deploy/worker.sh
docs/automations.yaml arena_curation flows schemas tasks
"""


@pytest.fixture(scope="module")
def operated_clone(tmp_path_factory) -> Path:
    """A clone with this folder's lists of what is left out, and with files of its operator."""
    if not (ROOT / ".git").exists():
        pytest.skip("this folder is no git checkout, so it cannot be cloned")
    folder = tmp_path_factory.mktemp("operated") / "clone"
    subprocess.run(["git", "clone", "-q", ROOT, folder], check=True)
    for name in (".dockerignore", ".gitignore"):
        shutil.copy(ROOT / name, folder)
    subprocess.run(["git", "-C", folder, "add", ".dockerignore", ".gitignore"], check=True)
    for name in OPERATORS_FILES.split():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("planted")
    return folder


def _of_the_package(clone: Path) -> set[str]:
    """Tracked files that an image is made of."""
    listed = subprocess.run(
        ["git", "ls-files", *IN_AN_IMAGE.split()], cwd=clone, check=True, capture_output=True, text=True
    )
    return set(listed.stdout.splitlines())


def _context(folder: Path) -> set[str]:
    """Files of a clone that Docker sends."""
    files = (path.relative_to(folder) for path in folder.rglob("*") if path.is_symlink() or not path.is_dir())
    return context_files(folder, [file.as_posix() for file in files])


def test_an_image_is_made_of_the_package_and_of_no_file_of_its_operator(operated_clone):
    assert _context(operated_clone) == _of_the_package(operated_clone)
    lists = {path.relative_to(operated_clone).as_posix() for path in operated_clone.rglob("*ignore") if path.is_file()}
    assert lists == {".dockerignore", ".gitignore"}, "one beside the Dockerfile would count in its place"


class _Daemon(http.server.BaseHTTPRequestHandler):
    """Takes the context of a build from Docker's command, and builds nothing."""

    contexts: list[bytes] = []
    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        self._answer(b"")

    def do_GET(self) -> None:
        self._answer(b"{}")

    def do_POST(self) -> None:
        chunks = list[bytes]()
        while size := int(self.rfile.readline(), 16):
            chunks.append(self.rfile.read(size))
            self.rfile.readline()
        self.contexts.append(b"".join(chunks))
        self._answer(b'{"stream": "taken"}')

    def _answer(self, content: bytes) -> None:
        self.send_response(200)
        for name, value in {"Api-Version": "1.41", "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Nothing is printed."""


@needs("docker")
def test_docker_itself_sends_the_package_and_no_file_of_an_operator(operated_clone):
    daemon = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Daemon)
    threading.Thread(target=daemon.serve_forever, daemon=True).start()
    own = {"DOCKER_HOST": f"tcp://127.0.0.1:{daemon.server_port}", "DOCKER_BUILDKIT": "0"}
    command = ["docker", "build", "-f", "deploy/Dockerfile", "."]
    try:
        done = subprocess.run(command, cwd=operated_clone, env=os.environ | own, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr
    finally:
        daemon.shutdown()
        daemon.server_close()
    (context,) = _Daemon.contexts
    with tarfile.open(fileobj=io.BytesIO(context)) as packed:
        sent = {member.name for member in packed if not member.isdir()}
    assert sent - {".dockerignore", "deploy/Dockerfile"} == _of_the_package(operated_clone)


def test_what_the_dockerfile_copies_and_runs_is_in_the_context(operated_clone, tmp_path):
    for name in _context(operated_clone):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(operated_clone / name, tmp_path / name)
    dockerfile = (DEPLOY / "Dockerfile").read_text("utf-8")
    assert re.findall(r"^COPY (?:--\S+ )*(.+) \S+$", dockerfile, re.MULTILINE) == ["."]
    (made,) = re.findall(r"^RUN (make .+)$", dockerfile, re.MULTILINE)
    dry = subprocess.run([*made.split(), "--dry-run"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert dry.returncode == 0 and "-m venv" in dry.stdout, "the environment is made in the image, not copied"
    project = tomllib.loads((tmp_path / "pyproject.toml").read_text("utf-8"))["project"]
    deployed = yaml.safe_load((tmp_path / "prefect.yaml").read_text("utf-8"))["deployments"]
    modules = {each["entrypoint"].rpartition(".")[0] for each in deployed}
    entrypoints = {f"{module.replace('.', '/')}.py" for module in modules}
    pinned = re.findall(r"(?:-c|--build-constraints) (\S+)", dockerfile)
    started = SERVICES["worker"]["entrypoint"]
    for needed in (project["readme"], *entrypoints, *pinned, *started):
        assert (tmp_path / needed).is_file(), needed
    assert os.access(tmp_path / "deploy" / "worker.sh", os.X_OK)


def test_the_lines_of_the_dockerfile_were_run_since_it_or_the_dependencies_changed():
    changed = [target for target in ("core", "production") if checked().get(target) != fingerprint(target)]
    assert not changed, "run `make image`, and commit deploy/image-checked.txt"


def test_production_installs_extras_that_exist_at_versions_that_are_pinned():
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    extras = extras_of("production")
    assert {"production", "s3", "arena", "pools", "scale"} <= {*extras} <= declared.keys()
    pins = set(re.findall(r"^([\w.-]+)==", (ROOT / "constraints.txt").read_text("utf-8"), re.MULTILINE))
    names = {re.split(r"[^\w.-]", requirement)[0] for extra in extras for requirement in declared[extra]}
    assert names and not {name.lower().replace("_", "-") for name in names} - {pin.lower() for pin in pins}


def test_git_adds_no_file_of_an_operator_nor_a_linked_environment(operated_clone):
    def added() -> str:
        command = ["git", "add", "-A", "--dry-run"]
        return subprocess.run(command, cwd=operated_clone, check=True, capture_output=True, text=True).stdout

    assert added() == ""
    shutil.rmtree(operated_clone / ".venv")
    (operated_clone / ".venv").symlink_to(sys.prefix)
    assert added() == ""


@needs("systemd-analyze")
def test_systemd_takes_the_units(tmp_path):
    for unit in UNITS:
        there = re.sub(r"^ExecStart=.*", "ExecStart=/bin/true", unit.read_text("utf-8"), flags=re.MULTILINE)
        (tmp_path / unit.name).write_text(there, "utf-8")
    units = [str(tmp_path / unit.name) for unit in UNITS]
    done = subprocess.run(["systemd-analyze", "verify", *units], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_units_and_services_start_the_same_commands():
    started = {name: " ".join(service.get("entrypoint", [])) for name, service in SERVICES.items()}
    for unit in UNITS:
        (command,) = commands_of(unit)
        own = re.sub(r"/srv/curate/(?:\.venv/bin/)?|--host \S+ ", "", command).replace("/srv/curation/", "/data/")
        assert own == re.sub(r"--host \S+ ", "", started[unit.stem.removeprefix("curate-")])
    published = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert published and all(port.startswith("127.0.0.1:") for port in published)


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_has_a_health_check_limits_and_no_root(name):
    service = SERVICES[name]
    assert {"healthcheck", "mem_limit", "cpus"} <= service.keys()
    assert service["cap_drop"] == ["ALL"] and service["security_opt"] == ["no-new-privileges:true"]
    users = [text for instruction, text in _of_our_image() if instruction == "USER"]
    assert users and "root" not in users, "our own image has a user"
    is_ours = service["image"].startswith("arena-curation:")
    user = service.get("user", users[-1] if is_ours else "root").partition(":")[0]
    assert user not in ("root", "0")


def _of_our_image() -> list[tuple[str, str]]:
    return instructions_of(stages_of((DEPLOY / "Dockerfile").read_text("utf-8")), "gpu")


def check_health(name: str, port: str, instead: int) -> int:
    """The exit status of a service's health check, on another port of this machine."""
    kind, *command = SERVICES[name]["healthcheck"]["test"]
    assert kind == "CMD" and any(port in word for word in command)
    there = [word.replace(port, str(instead)) for word in command]
    return subprocess.run([BIN / "python", *there[1:]], capture_output=True, check=False).returncode


@needs("docker-compose")
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
    own |= {"CURATE_LOG_FORMAT": "json", "PREFECT_LOGGING_LEVEL": "INFO"}
    environment = os.environ | own | {"PATH": f"{BIN}:{os.environ['PATH']}"}
    with (tmp_path / "worker.log").open("w") as file:
        quiet = {"stdout": file, "stderr": file, "start_new_session": True}
        started = subprocess.Popen([DEPLOY / "worker.sh"], cwd=ROOT, env=environment, **quiet)
    try:
        workers = wait_until(lambda: _post(f"{scheduling_server}/work_pools/curation/workers/filter"), started)
        assert workers[0]["status"] == "ONLINE"
        assert check_health("server", "4200", httpx.URL(scheduling_server).port or 0) == 0
        wait_until(lambda: check_health("worker", "4201", 4201) == 0, started)
        deployed = {each["name"]: each["id"] for each in _post(f"{scheduling_server}/deployments/filter")}
        assert {"nightly", "backfill", "release", "refresh-bench", "publish"} <= deployed.keys()
        run = _post(f"{scheduling_server}/deployments/{deployed['backfill']}/create_flow_run")["id"]
        there = f"{scheduling_server}/flow_runs/{run}"
        wait_until(lambda: httpx.get(there).json()["state"]["name"] == "Bad input", started)  # the folder has no logs
        line = json.dumps(httpx.get(there).json()["state"]["message"])  # which its process logs after that
        wait_until(lambda: line in (tmp_path / "worker.log").read_text("utf-8"), started)
    finally:
        os.killpg(started.pid, signal.SIGTERM)
        started.wait(60)
        for each in _post(f"{scheduling_server}/deployments/filter"):
            _delete(f"{scheduling_server}/deployments/{each['id']}")
    log = (tmp_path / "worker.log").read_text("utf-8")
    assert all("message" in json.loads(line) for line in log.splitlines()), "the log is JSON alone"
    docker = subprocess.run(
        [DEPLOY / "worker.sh"],
        cwd=ROOT,
        env=environment | {"CURATE_POOL": "docker"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert docker.returncode == 2 and "of another type than docker" in docker.stderr
    _delete(f"{scheduling_server}/work_pools/curation")


def _delete(url: str) -> None:
    urllib.request.urlopen(urllib.request.Request(url, method="DELETE"), timeout=60).close()


def _post(url: str) -> Any:
    request = urllib.request.Request(url, b"{}", {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def printed_until(process: subprocess.Popen[str], word: str) -> str:
    """What a process prints up to the line with `word`."""
    lines = list[str]()
    while not lines or word not in lines[-1]:
        line = process.stdout.readline()
        assert line, "".join(lines)
        lines.append(line)
    return "".join(lines)


LEASES = "PREFECT_SERVER_CONCURRENCY_LEASE_STORAGE"


def test_unit_compose_file_and_guide_keep_leases_in_the_same_place():
    text = (DEPLOY / "systemd" / "curate-server.service").read_text("utf-8")
    unit = dict(re.findall(r"^Environment=(\w+)=(\S+)$", text, re.M))
    server = yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))["services"]["server"]
    guide = dict(re.findall(r"^export (\w+)=(\S+)$", (ROOT / "docs" / "operating.md").read_text("utf-8"), re.M))
    assert unit[LEASES] == server["environment"][LEASES] == guide[LEASES]
    assert server["volumes"] == ["server:/data"], "the image keeps PREFECT_HOME there"


def test_a_run_keeps_its_lease_when_the_server_is_killed(tmp_path):
    """Without its lease Prefect ends the run of a deployment that has a limit, as all of ours have."""
    (storage,) = re.findall(rf"{LEASES}=(\S+)", (DEPLOY / "systemd" / "curate-server.service").read_text("utf-8"))
    port = free_port()
    variables = {"PREFECT_HOME": str(tmp_path), LEASES: storage, "PREFECT_SERVER_ANALYTICS_ENABLED": "false"}
    environment = {name: value for name, value in os.environ.items() if name != "PREFECT_API_URL"} | variables
    command = [BIN / "prefect", "server", "start", "--host", "127.0.0.1", "--port", str(port), "--no-ui"]
    url = f"http://127.0.0.1:{port}/api"
    limits, post = f"{url}/v2/concurrency_limits", partial(httpx.post, timeout=60)  # a machine under load answers late

    @contextmanager
    def server() -> Iterator[None]:
        started = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            wait_until(lambda: httpx.get(f"{url}/health").is_success, started)
            yield
        finally:
            started.kill()
            started.wait()

    with server():
        assert post(f"{limits}/", json={"name": "of a deployment", "limit": 1}).is_success
        slot = {"names": ["of a deployment"], "slots": 1, "mode": "concurrency", "lease_duration": 300}
        # a server under load, whose database is locked, refuses the first
        lease = wait_until(lambda: post(f"{limits}/increment-with-lease", json=slot).json().get("lease_id"))
    with server():
        renewed = post(f"{limits}/leases/{lease}/renew", json={"lease_duration": 300})
    assert renewed.is_success, renewed.text
