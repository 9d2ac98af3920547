"""The commands of docs/operating.md, typed in their order into terminals of a fresh clone."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from prefect.blocks.notifications import CustomWebhookNotificationBlock
from prefect.settings import PREFECT_API_URL, temporary_settings

from tasks.demo.arena import generate_arena
from tests.tasks.ingest.logs import chat, write
from tests.waiting import free_port, listens, wait_until

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs" / "operating.md").read_text(encoding="utf-8")
ELSEWHERE = {
    "curate decide": "tests/flows/test_nights.py",
    "curate measure": "tests/flows/test_provider_down.py",
    "curate run": "tests/flows/test_kept_stores.py",
    "curate measure --since DAY --until DAY": "tests/flows/test_estimate.py",
    "curate release": "tests/flows/test_nights.py",
    "curate release --store … --accept-drift": "tests/flows/test_drift.py",
    "curate estimate": "tests/flows/test_estimate.py",
    "curate estimate --scale --logs LOGS": "tests/flows/test_before_work.py",
    "curate doctor": "tests/flows/test_settings_file.py",
    "curate doctor --store STORE": "tests/tasks/storage/test_audit.py",
    "curate explain ID --store STORE": "tests/flows/test_tutorial.py",
    "curate explain ID --store …": "tests/flows/test_tutorial.py",
    "curate init": "tests/flows/test_settings_file.py",
    "curate arena": "tests/tasks/arena/test_served.py",
    "curate run … --policy FILE": "tests/flows/test_nights.py",
    "curate yank VERSION --repo ORG/NAME": "tests/tasks/publish/test_command.py",
    "curate backup": "tests/tasks/takedown/test_backup.py",
    "curate migrate STORE": "tests/tasks/takedown/test_migrate.py",
    "curate status": "tests/tasks/upkeep/test_standing.py",
    "curate status [STORE]": "tests/tasks/upkeep/test_standing.py",
    "curate scrub": "tests/tasks/ingest/test_scrub.py",
    "curate subject": "tests/tasks/takedown/test_subject.py",
    "curate view": "tests/tasks/explore/test_view_command.py",
    "curate takedown": "tests/tasks/takedown/test_take_down.py",
    ".venv/bin/uv pip install -c constraints.txt -e '.[s3]'": "tests/flows/test_object_store.py",
}
"""Commands inside sentences that other tests run, or that are named without anything to type."""
ASKS_THE_SERVER = ("prefect flow-run ls --state-type FAILED", "prefect block ls")
"""Commands inside sentences that are typed while the backfill is at work."""
NOBODY = "00000000-0000-0000-0000-000000000000"


class Terminal:
    """A shell that is typed into, line by line."""

    def __init__(self, folder: Path, environment: dict[str, str], output: Path) -> None:
        self._output = output.open("wb")
        self._shell = subprocess.Popen(
            ["bash", "--norc"],
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def type(self, line: str) -> str:
        """Run to its end; returns what it printed. The test fails when its status is not 0."""
        assert self._shell.stdin and self._shell.stdout
        self._shell.stdin.write(f"{{ {line}\n}} </dev/null; ended=$?; echo; echo __ended $ended\n".encode())
        self._shell.stdin.flush()
        printed = []
        for raw in self._shell.stdout:
            shown = raw.decode()
            if shown.startswith("__ended "):
                assert shown == "__ended 0\n", f"{line}\n{''.join(printed)}"
                break
            printed.append(shown)
        return "".join(printed)

    def leave_running(self, line: str) -> None:
        """Start what does not end."""
        assert self._shell.stdin
        # Its output goes to the file, also when the line ends with a comment: nobody reads the pipe, which fills.
        self._shell.stdin.write(f"exec >{self._output.name} 2>&1 {line}\n".encode())
        self._shell.stdin.flush()

    def close(self) -> None:
        """End the shell and what runs in it."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError, subprocess.TimeoutExpired):
                os.killpg(self._shell.pid, number)
                self._shell.wait(15)
        assert self._shell.stdin and self._shell.stdout
        for pipe in (self._shell.stdin, self._shell.stdout):
            with suppress(BrokenPipeError):
                pipe.close()
        self._output.close()


@pytest.fixture
def clone(tmp_path) -> Path:
    """A fresh clone, whose environment is the one that runs the tests: `make .venv/core` finds it up to date."""
    if not (ROOT / ".git").exists():
        pytest.skip("this folder is no git checkout, so it cannot be cloned")
    folder = tmp_path / "clone"
    subprocess.run(["git", "clone", "-q", ROOT, folder], check=True)
    shutil.copy(ROOT / "docs" / "operating.md", folder / "docs")
    (folder / ".venv").mkdir()
    for entry in ("bin", "lib", "pyvenv.cfg"):
        (folder / ".venv" / entry).symlink_to(Path(sys.prefix) / entry)
    (folder / ".venv" / "core").touch()
    return folder


@pytest.fixture
def environment(tmp_path, clone) -> dict[str, str]:
    """What a login shell has, apart from ports and folders that no other test may share."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    return kept | {
        "PREFECT_HOME": str(tmp_path / "prefect"),
        "PREFECT_SERVER_API_PORT": str(free_port()),
        "COLUMNS": "200",
        "PYTHONPATH": str(clone),  # the environment's own folder of code is another one
        "PREFECT_SERVER_SERVICES_SCHEDULER_LOOP_SECONDS": "5",  # of 60, and of 15 for the worker
        "PREFECT_WORKER_QUERY_SECONDS": "1",
    }


@pytest.fixture
def terminals(clone, environment, tmp_path) -> Iterator[list[Terminal]]:
    """Three terminals in the clone: for the server, for the worker, and one to type into."""
    opened = [Terminal(clone, environment, tmp_path / name) for name in ("server", "worker", "typed")]
    yield opened
    for each in reversed(opened):
        each.close()


def _soon() -> str:
    """Lines of prefect.yaml for a night in fifteen seconds, and, in case that deploying takes longer, each minute."""
    first = datetime.now(UTC) + timedelta(seconds=15)
    return f'interval: 60\n        anchor_date: "{first.isoformat()}"'


def _asked(port: str, path: str, body: dict | None = None) -> Any:
    """The answer of the server to a GET, or to a POST of `body`."""
    sent = None if body is None else json.dumps(body).encode()
    asked = urllib.request.Request(f"http://127.0.0.1:{port}/api/{path}", sent, {"content-type": "application/json"})
    with urllib.request.urlopen(asked, timeout=60) as answer:
        return json.load(answer)


def _first(port: str, deployment: str) -> tuple[bool, str] | None:
    """Whether the scheduler made the first run of a deployment, and its state."""
    runs = _asked(port, "flow_runs/filter", {"sort": "EXPECTED_START_TIME_ASC"})
    found = ((run["auto_scheduled"], run["state_name"]) for run in runs if run["name"].startswith(deployment))
    return next(found, None)


def test_every_command_inside_a_sentence_is_run_by_a_test():
    named = re.findall(r"`((?:curate|prefect|make|\.venv/bin/\S+)[ \n][^`]*)`", GUIDE)
    assert {" ".join(command.split()) for command in named} == {*ASKS_THE_SERVER, *ELSEWHERE}
    assert all((ROOT / file).exists() for file in ELSEWHERE.values())


def test_the_guide_is_followed_from_a_fresh_clone_to_a_release_and_a_scheduled_night(
    clone, environment, terminals, tmp_path
):
    install, exports, settings, start, database, deploy, backfill, automation = [
        block
        for language, block in re.findall(r"^```(\w*)\n(.*?)^```", GUIDE, re.DOTALL | re.MULTILINE)
        if not language
    ]
    assert "POSTGRES" in database.upper()  # tests/flows/test_postgres.py
    logs, store = tmp_path / "logs", tmp_path / "store"
    generate_arena(tmp_path, conversations=7, battles=3, seed=4, images_max=4, problems=False)
    write(logs, "vision-tmp-2024-06-02-conv.json", chat("planted", "How tall is the tower?", "About forty metres."))
    exports = exports.replace("/path/to/logs", str(logs)).replace("/path/to/store", str(store))
    exports = exports.replace("=…", "='a key for the store of this test'")
    port = environment["PREFECT_SERVER_API_PORT"]
    exports = exports.replace(":4200/", f":{port}/")
    served, worked, typed = terminals
    for terminal in terminals:
        for line in (install + exports).splitlines():
            terminal.type(line)
    for line in settings.splitlines():
        assert "Traceback" not in (printed := typed.type(line))
    assert "\nready" in printed
    server, pool, worker = start.splitlines()
    served.leave_running(server)
    wait_until(lambda: listens(port))
    assert _asked(port, "admin/settings")["server"]["analytics_enabled"] is False
    typed.type(pool)
    worked.leave_running(worker)
    deployments = clone / "prefect.yaml"
    at_half_past_two = deployments.read_text(encoding="utf-8")
    assert at_half_past_two.count('cron: "30 2 * * *"') == 1
    deployments.write_text(at_half_past_two.replace('cron: "30 2 * * *"', _soon()), encoding="utf-8")
    typed.type(deploy.strip())
    typed.type(backfill.strip())
    automations = clone / "docs" / "automations.yaml"
    with temporary_settings({PREFECT_API_URL: f"http://127.0.0.1:{port}/api"}):  # what a person does in the UI
        told = str(CustomWebhookNotificationBlock(name="told", url="http://127.0.0.1:9/told").save("told"))
    automations.write_text(automations.read_text(encoding="utf-8").replace(NOBODY, told), encoding="utf-8")
    shown = [typed.type(automation.strip()), *(typed.type(command) for command in ASKS_THE_SERVER)]
    assert [printed for printed in shown if "Traceback" in printed] == []
    assert "end killed runs" in [each["name"] for each in _asked(port, "automations/filter", {})]
    wait_until(lambda: _first(port, "nightly") == (True, "Completed"))
    wait_until(lambda: _first(port, "backfill") == (False, "Completed"))
    assert list((store / "releases").glob("*/manifest.json"))
