"""Disturbs the nights of a whole deployment, and compares them with quiet nights of the same logs.

    python -m tests.chaos nights FOLDER [--seed 0] [--nights 10] [--lines 2000] [--minutes 60] [--s3]

FOLDER must not exist. PostgreSQL, Prefect's server, `deploy/worker.sh` and a receiver of alarms are started. Each night
gets its log files, and troubles of `ANYWHERE` at random moments of its run. After the last night nothing is disturbed.
Where the release differs, `FOLDER/disturbed` has the disturbed store, and `FOLDER/quiet` the other.
Then the release must be that of the quiet nights, no run may be at work, and each run that failed or crashed must have
given one alarm, and nothing else any. With `--s3` the store is a bucket behind a way that is cut; else it is on a disk
that is filled, a tmpfs, which only root can make. Prefect's waiting times are shortened (`HASTE`).
"""

import argparse
import gzip
import hashlib
import os
import pwd
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import s3fs
import yaml
from prefect.events.schemas.automations import AutomationCore

from tasks.demo.arena import generate_arena
from tests.builders import USER_KEY
from tests.cut_off import cut_off_at
from tests.http_server import HttpServer, Reply
from tests.places import ROOT
from tests.s3_server import s3_process
from tests.waiting import free_port, wait_until

BIN = Path(sys.executable).parent
AUTOMATIONS = ROOT / "docs" / "automations.yaml"
NOBODY = "00000000-0000-0000-0000-000000000000"
DISK_MB = 5000
BUCKET = "arena"
HEARTBEAT_SECONDS, SILENT_SECONDS = 30, 75
"""Time between two heartbeats of a run, and without one until the shipped automation ends it; 180 and 420 at home."""
HASTE = {
    "PREFECT_FLOWS_HEARTBEAT_FREQUENCY": str(HEARTBEAT_SECONDS),
    "PREFECT_WORKER_QUERY_SECONDS": "2",
    "PREFECT_SERVER_SERVICES_TRIGGERS_PROACTIVE_GRANULARITY": "1",
    "PREFECT_SERVER_CONCURRENCY_INITIAL_DEPLOYMENT_LEASE_DURATION": "60",
}
FINAL = {"COMPLETED", "FAILED", "CRASHED", "CANCELLED"}
UNFINISHED = ["RUNNING", "PENDING", "CANCELLING"]
PATIENCE_SECONDS = 1200
LATE_SECONDS = 16 * 60
"""Prefect waits 15 minutes for events that a killed server lost, before it tells of those that came after them."""
"""Time after which a run that has not ended is left to the report."""

MAKE_BLOCK = """
import sys
from prefect.blocks.notifications import CustomWebhookNotificationBlock
text = {"text": "{{subject}} | {{body}}"}
print(CustomWebhookNotificationBlock(name="told", url=sys.argv[1], json_data=text).save("told", overwrite=True))
"""


class Machine:
    """The processes of a deployment, and the folders they work on."""

    worker: subprocess.Popen
    server: subprocess.Popen

    def __init__(self, folder: Path, s3: dict[str, str]) -> None:
        self.folder, self.logs = folder, folder / "logs"
        self.store = f"s3://{BUCKET}/store" if s3 else str(folder / "disk" / "store")
        self.port, database_port, health_port = free_port(), free_port(), free_port()
        self.api = f"http://127.0.0.1:{self.port}/api"
        self.database_port = database_port
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
        self.environment |= HASTE | s3 | {
            "PATH": f"{BIN}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "DO_NOT_TRACK": "1",
            "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
            "PREFECT_API_URL": self.api,
            "PREFECT_WORKER_WEBSERVER_PORT": str(health_port),
            "CURATE_CONFIG": str(folder / "curate.yaml"),
            "CURATE_USER_KEY": USER_KEY,
            "no_proxy": "127.0.0.1",
        }  # fmt: skip
        self._processes: list[subprocess.Popen] = []

    def database(self, *command: str) -> None:
        """Call a program of PostgreSQL, which refuses to run as root, on the folder of its data."""
        data = self.folder / "postgres"
        user = pwd.getpwnam("nobody") if os.getuid() == 0 else pwd.getpwuid(os.getuid())
        data.mkdir(exist_ok=True)
        os.chown(data, user.pw_uid, user.pw_gid)
        who = {"user": user.pw_uid, "group": user.pw_gid} if os.getuid() == 0 else {}
        program, *arguments = command
        subprocess.run(
            [program, "-D", data / "data", *arguments], check=True, cwd=data, stdout=subprocess.DEVNULL, **who
        )

    def start_database(self) -> None:
        """Start it; it has been stopped, or killed."""
        options = f"-p {self.database_port} -k {self.folder / 'postgres'} -c listen_addresses=127.0.0.1 -c fsync=off"
        self.database("pg_ctl", "-o", options, "-l", str(self.folder / "postgres" / "log"), "-w", "start")

    def start_server(self) -> None:
        """Start Prefect's server, and wait until it answers."""
        variables = {
            "PREFECT_HOME": str(self.folder / "served"),
            "PREFECT_SERVER_CONCURRENCY_LEASE_STORAGE": "prefect.server.concurrency.lease_storage.filesystem",
            "PREFECT_SERVER_DATABASE_CONNECTION_URL": (
                f"postgresql+asyncpg://prefect@127.0.0.1:{self.database_port}/postgres"
            ),
        }
        command = ["prefect", "server", "start", "--host", "127.0.0.1", "--port", str(self.port), "--no-ui"]
        self.server = self._started(command, "server.log", variables)
        wait_until(lambda: httpx.get(f"{self.api}/health").status_code == 200, self.server)

    def start_worker(self) -> None:
        """Deploy and start the worker."""
        self.worker = self._started(
            [str(ROOT / "deploy" / "worker.sh")], "worker.log", {"PREFECT_HOME": str(self.folder / "worked")}
        )

    def _started(self, command: list[str], log: str, variables: dict[str, str]) -> subprocess.Popen:
        with (self.folder / log).open("ab") as written:
            streams = {"stdout": written, "stderr": written, "start_new_session": True}
            self._processes.append(subprocess.Popen(command, cwd=ROOT, env=self.environment | variables, **streams))
        return self._processes[-1]

    def runs_at_work(self) -> list[int]:
        """Processes of flow runs, which are children of the worker."""
        children = Path(f"/proc/{self.worker.pid}/task/{self.worker.pid}/children").read_text().split()
        return [int(child) for child in children if b"prefect" in Path(f"/proc/{child}/cmdline").read_bytes()]

    def ask(self, path: str, body: Any = None) -> Any:
        """The server's answer to a POST, or to a GET without `body`; asked again until it gives one."""

        def answer() -> list[Any]:
            url = f"{self.api}/{path}"
            replied = httpx.get(url, timeout=30) if body is None else httpx.post(url, json=body, timeout=30)
            if replied.is_client_error:
                raise SystemExit(f"Prefect's server refuses {path}: {replied.text}")
            return [replied.json()] if replied.is_success else []

        return wait_until(answer)[0]

    def start_run(self, deployment: str) -> str:
        """Order a run of a deployment; returns its id."""
        made = self.ask(f"deployments/name/curate/{deployment}")["id"]
        return str(self.ask(f"deployments/{made}/create_flow_run", {})["id"])

    def state(self, run: str) -> dict[str, Any]:
        """Name, type and message of a run's state."""
        return dict(self.ask(f"flow_runs/{run}")["state"])

    def start_what_ended(self) -> None:
        """Start the worker again if it ended by itself, ten seconds later, as its unit does."""
        if self.worker.poll() is not None:
            time.sleep(10)
            self.start_worker()

    def stop(self) -> None:
        """End all processes."""
        for process in (started for started in reversed(self._processes) if started.poll() is None):
            for number in (signal.SIGTERM, signal.SIGKILL):
                with suppress(ProcessLookupError, subprocess.TimeoutExpired):
                    os.killpg(process.pid, number)
                    process.wait(20)
        with suppress(subprocess.CalledProcessError):
            self.database("pg_ctl", "-m", "immediate", "stop")


def kill_run(machine: Machine, _: random.Random) -> None:
    """SIGKILL to the processes of all runs, as when memory ends."""
    _kill(machine.runs_at_work())


def _kill(processes: list[int]) -> None:
    for process in processes:
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


def kill_worker(machine: Machine, draw: random.Random) -> None:
    """SIGKILL to the worker; its service starts it again."""
    machine.worker.kill()
    machine.worker.wait()
    time.sleep(draw.uniform(1, 10))
    machine.start_worker()


def kill_worker_with_run(machine: Machine, draw: random.Random) -> None:
    """SIGKILL to the worker and all runs, as in a power cut."""
    runs = machine.runs_at_work()
    machine.worker.kill()
    _kill(runs)
    machine.worker.wait()
    time.sleep(draw.uniform(1, 10))
    machine.start_worker()


def kill_server(machine: Machine, draw: random.Random) -> None:
    """SIGKILL to Prefect's server; its service starts it again."""
    os.killpg(machine.server.pid, signal.SIGKILL)
    machine.server.wait()
    time.sleep(draw.uniform(1, 10))
    machine.start_server()


def kill_database(machine: Machine, draw: random.Random) -> None:
    """PostgreSQL aborts, and starts again."""
    machine.database("pg_ctl", "-m", "immediate", "stop")
    time.sleep(draw.uniform(1, 10))
    machine.start_database()


def fill_disk(machine: Machine, _: random.Random) -> None:
    """Nothing can be written to the store's disk for twenty seconds."""
    filler = machine.folder / "disk" / "filler"
    with suppress(OSError), filler.open("wb", buffering=0) as full:
        while full.write(b"\0" * (1 << 20)):
            pass
    time.sleep(20)
    filler.unlink()


def two_at_once(machine: Machine, _: random.Random) -> None:
    """A backfill is ordered while the night is at work."""
    machine.start_run("backfill")


def rotate(machine: Machine, draw: random.Random) -> None:
    """A log file of an earlier night gets another name."""
    if whole := sorted(machine.logs.glob("*-conv.json"))[:-1]:
        file = draw.choice(whole)
        file.rename(file.with_name(f"{file.name}.1"))


def compress(machine: Machine, draw: random.Random) -> None:
    """A log file of an earlier night becomes a `.gz`."""
    if whole := sorted(machine.logs.glob("*-conv.json"))[:-1]:
        file = draw.choice(whole)
        file.with_name(f".{file.name}.part").write_bytes(gzip.compress(file.read_bytes()))
        file.with_name(f".{file.name}.part").rename(file.with_name(f"{file.name}.gz"))
        file.unlink()


Trouble = Callable[[Machine, random.Random], None]
ANYWHERE: list[Trouble] = [
    kill_run, kill_worker, kill_worker_with_run, kill_server, kill_database, two_at_once, rotate, compress
]  # fmt: skip
"""Troubles that happen while a run is at work; beside them a disk is full, or a bucket is cut off."""


@contextmanager
def bucket_behind_a_way() -> Iterator[tuple[dict[str, str], Trouble]]:
    """An S3 server with a bucket: variables of the environment for a way to it, and the trouble that cuts the way."""
    with s3_process(BUCKET) as (variables, _), ExitStack() as stack:
        port = int(variables["AWS_ENDPOINT_URL"].rpartition(":")[2])
        gone = threading.Event()
        way = stack.enter_context(cut_off_at(port, b"no request has these words", gone=gone))

        def cut_s3(_: Machine, draw: random.Random) -> None:
            """No request reaches the bucket for some seconds."""
            gone.set()
            time.sleep(draw.uniform(5, 40))
            gone.clear()

        yield variables | {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{way}"}, cut_s3


@contextmanager
def small_disk(folder: Path) -> Iterator[None]:
    """A disk of `DISK_MB` at a folder."""
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_MB}m", "tmpfs", folder], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


def files_by_night(source: Path, nights: int) -> list[list[Path]]:
    """The log files of an arena, in order, divided among the nights."""
    files = sorted(source.glob("*-conv.json"))
    if len(files) < nights:
        raise SystemExit(f"the demo arena has {len(files)} log files; give at most as many --nights")
    ends = [round(number * len(files) / nights) for number in range(nights + 1)]
    return [files[begin:end] for begin, end in pairwise(ends)]


def contents_of(store: str, s3: dict[str, str]) -> dict[str, str]:
    """File of the newest release -> SHA-256."""
    if s3:
        files = _bucket_of(s3)
        contents = {
            path.partition("/releases/")[2]: files.cat_file(path) for path in files.find(f"{BUCKET}/store/releases")
        }
    else:
        releases = Path(store) / "releases"
        contents = {
            str(path.relative_to(releases)): path.read_bytes() for path in releases.rglob("*") if path.is_file()
        }
    newest = max(path.partition("/")[0] for path in contents if path.endswith("/manifest.json"))
    return {
        path: hashlib.sha256(content).hexdigest() for path, content in contents.items() if path.startswith(f"{newest}/")
    }


def _bucket_of(s3: dict[str, str]) -> s3fs.S3FileSystem:
    return s3fs.S3FileSystem(endpoint_url=s3["AWS_ENDPOINT_URL"], key="nobody", secret="nothing")


def keep_for_a_look(machine: Machine, s3: dict[str, str], folder: Path) -> None:
    """Copy releases, tables and run records out of a disk or bucket that goes away."""
    for part in ("releases", "tables", "runs"):
        if s3:
            _bucket_of(s3).get(f"{BUCKET}/store/{part}", str(folder / part), recursive=True)
        else:
            shutil.copytree(Path(machine.store) / part, folder / part)


def quiet_nights(machine: Machine, nights: list[list[Path]]) -> dict[str, str]:
    """The newest release after nights that nothing disturbs, by `curate run`: file -> SHA-256."""
    logs, store = machine.folder / "quiet-logs", machine.folder / "quiet"
    shutil.copytree(nights[0][0].parent / "serve_images", logs / "serve_images")
    environment = {name: value for name, value in machine.environment.items() if name != "PREFECT_API_URL"}
    for files in nights:
        for file in files:
            shutil.copy(file, logs)
        command = [sys.executable, "-c", "from flows.commands import main; main()", "run", "--logs", logs]
        done = subprocess.run([*command, "--store", store], env=environment, cwd=ROOT, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"a quiet night failed: {done.stderr[-2000:]}")
    return contents_of(str(store), {})


def make_automations(machine: Machine, alarms: HttpServer) -> None:
    """The shipped automations, which tell `alarms`: the id of the run, and what people are told."""
    made = subprocess.run(
        [sys.executable, "-c", MAKE_BLOCK, f"{alarms.url}/told"],
        env=machine.environment,
        check=True,
        capture_output=True,
        text=True,
    )
    shipped = AUTOMATIONS.read_text("utf-8").replace(NOBODY, made.stdout.split()[-1])
    for automation in yaml.safe_load(shipped)["automations"]:
        if automation["name"] == "end killed runs":
            automation["trigger"]["within"] = SILENT_SECONDS
        for action in automation["actions"]:
            if "flow_run" in action.get("body", ""):
                action["body"] = "{{ flow_run.id }} " + action["body"]
        machine.ask("automations/", AutomationCore.model_validate(automation).model_dump(mode="json"))


def disturbed_night(
    machine: Machine, draw: random.Random, troubles: list[Trouble], seconds: float, say: Callable[[str], None]
) -> str:
    """A night with troubles at random moments of its first `seconds`; returns the name of the last state of its run.

    Where the run is over before a trouble comes, another one is ordered, so that each trouble meets a run at work.
    """
    patient_until = time.monotonic() + PATIENCE_SECONDS
    moments = sorted(draw.uniform(0, seconds) for _ in troubles)
    run = begun_run(machine, patient_until)
    at_work = time.monotonic()
    for moment, trouble in zip(moments, troubles, strict=True):
        time.sleep(max(0.0, at_work + moment - time.monotonic()))
        if machine.state(run)["type"] in FINAL:
            say(f"  {run} is {machine.state(run)['name']} already")
            run = begun_run(machine, patient_until)
        say(f"  {trouble.__name__} ({machine.state(run)['name']})")
        trouble(machine, draw)
    while (state := machine.state(run))["type"] not in FINAL and time.monotonic() < patient_until:
        machine.start_what_ended()
        time.sleep(1)
    say(f"  {run} is {state['name']} after {time.monotonic() - at_work:.0f} s: {(state['message'] or '')[:150]}")
    return str(state["name"])


def begun_run(machine: Machine, patient_until: float) -> str:
    """The id of a new run that is no longer on its way."""
    run = machine.start_run("nightly")
    while machine.state(run)["type"] in ("SCHEDULED", "PENDING") and time.monotonic() < patient_until:
        machine.start_what_ended()
        time.sleep(1)
    return run


def findings(machine: Machine, alarms: HttpServer) -> list[str]:
    """Runs that are not at an end, and alarms that are missing, doubled or about nothing."""
    patient_until = time.monotonic() + PATIENCE_SECONDS
    while (
        unfinished := _runs(machine, {"state": {"type": {"any_": UNFINISHED}}})
    ) and time.monotonic() < patient_until:
        machine.start_what_ended()
        time.sleep(5)  # such as a backfill that was ordered during the last night
    time.sleep(10)  # until alarms are delivered
    failed = {"state": {"type": {"any_": ["FAILED", "CRASHED"]}}, "deployment_id": {"is_null_": False}}
    expected, late_until = Counter(str(run["id"]) for run in _runs(machine, failed)), time.monotonic() + LATE_SECONDS
    while (given := _given(alarms)).keys() < expected.keys() and time.monotonic() < late_until:
        time.sleep(5)
    return [
        *(f"left {run['state_name']}: {run['name']}" for run in unfinished),
        *(f"{count} alarms are missing for run {run}" for run, count in (expected - given).items()),
        *(f"{count} alarms too many about {run or 'no run'}" for run, count in (given - expected).items()),
    ]


def _given(alarms: HttpServer) -> Counter[str]:
    """How many alarms were given by the id of their run."""
    # what follows the subject of an alarm begins with the id of its run
    return Counter(request["text"].partition(" | ")[2].partition(" ")[0] for request in alarms.requests)


def _runs(machine: Machine, where: dict[str, Any]) -> list[dict[str, Any]]:
    return list(machine.ask("flow_runs/filter", {"flow_runs": where}))


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of `python -m tests.chaos nights`."""
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--nights", type=int, default=10)
    parser.add_argument("--lines", type=int, default=2000, help="of one night, about")
    parser.add_argument("--minutes", type=float, default=60, help="after which nights are quiet")
    parser.add_argument("--s3", action="store_true")


def run(options: argparse.Namespace) -> int:
    """Print what happens, and at the end what is wrong; 1 when something is."""
    folder, draw, began = options.folder.resolve(), random.Random(options.seed), time.monotonic()
    folder.mkdir(parents=True)

    def say(line: str) -> None:
        print(f"{time.monotonic() - began:6.0f} s  {line}", flush=True)  # noqa: T201 - the output of a command

    lines = options.nights * options.lines
    generate_arena(
        folder / "arena",
        conversations=lines * 3 // 8,
        battles=lines // 8,
        seed=options.seed,
        images_max=24,
        problems=False,
    )
    nights = files_by_night(folder / "arena" / "logs", options.nights)
    with ExitStack() as stack:
        if options.s3:
            s3, of_store = stack.enter_context(bucket_behind_a_way())
        else:
            stack.enter_context(small_disk(folder / "disk"))
            s3, of_store = {}, fill_disk
        machine = Machine(folder, s3)
        (folder / "curate.yaml").write_text(yaml.safe_dump({"logs": str(machine.logs), "store": machine.store}))
        quiet = quiet_nights(machine, nights)
        say(f"{options.nights} quiet nights: {len(quiet)} files")
        alarms = HttpServer()
        stack.callback(alarms.close)
        alarms.answer(Reply({}))
        shutil.copytree(folder / "arena" / "logs" / "serve_images", machine.logs / "serve_images")
        stack.callback(machine.stop)
        machine.database("initdb", "-U", "prefect", "--auth=trust", "--no-sync")
        machine.start_database()
        machine.start_server()
        make_automations(machine, alarms)
        machine.start_worker()
        wait_until(lambda: httpx.get(f"{machine.api}/deployments/name/curate/nightly").is_success, machine.worker)
        seconds, kinds, first_night = 120.0, list[Trouble](), time.monotonic()
        for number, files in enumerate(nights, 1):
            in_time = time.monotonic() - first_night < 60 * options.minutes
            if len(kinds) < 2:  # each trouble comes once before any comes again
                kinds += draw.sample([*ANYWHERE, of_store], k=len(ANYWHERE) + 1)
            troubles = [kinds.pop() for _ in range(2)] if in_time else []
            half = in_time and number < options.nights and draw.random() < 0.5
            remainder = put_logs(machine, files, half, draw)
            names = [trouble.__name__ for trouble in troubles] + ["half a log file"] * half
            say(f"night {number}: {', '.join(names)}")
            begun = time.monotonic()
            disturbed_night(machine, draw, troubles, seconds, say)
            seconds = min(seconds, time.monotonic() - begun)
            with (machine.logs / files[-1].name).open("ab") as log:
                log.write(remainder)
        say("a night that nothing disturbs")
        last = disturbed_night(machine, draw, [], 0, say)
        problems = findings(machine, alarms) + ([] if last == "Completed" else [f"the last night is {last}"])
        for request in alarms.requests:
            say(f"alarm: {request['text']}")
        chaotic = contents_of(machine.store, s3)
        if chaotic != quiet:
            keep_for_a_look(machine, s3, folder / "disturbed")
    differing = sorted({path for path, _ in quiet.items() ^ chaotic.items()})
    problems += [f"{len(differing)} of {len(quiet)} files differ: {', '.join(differing[:5])}"] if differing else []
    good = f"the same {len(chaotic)} files, no run at work, {len(alarms.requests)} alarms, each for one run"
    for line in problems or [good]:
        say(line)
    return int(bool(problems))


def put_logs(machine: Machine, files: list[Path], half: bool, draw: random.Random) -> bytes:
    """Add a night's log files, of the last one only the beginning where `half`; returns what is not yet written."""
    for file in files[:-1]:
        shutil.copy(file, machine.logs)
    whole = files[-1].read_bytes()
    end = draw.randrange(1, len(whole)) if half else len(whole)
    (machine.logs / files[-1].name).write_bytes(whole[:end])
    return whole[end:]
