"""The arena as a process, for tests that talk to it over HTTP, and its log."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import httpx

from tests.waiting import free_port, wait_until

ANN_KEY = "the key of an annotator"
NAMES = ("good-model", "hostile-model-7b")
ROOT = Path(__file__).parents[1]


def models_file(file: Path, port: int, names: tuple[str, ...]) -> Path:
    rows = [{"name": name, "base_url": f"http://127.0.0.1:{port}/v1", "vision": True} for name in names]
    file.write_text(json.dumps({"models": rows}))  # JSON is YAML
    return file


def curate_process(*arguments: str, **options) -> subprocess.CompletedProcess:
    command = [sys.executable, "-c", "from flows.commands import main; main()", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, **options)


class Served:
    """The arena's process."""

    def __init__(self, folder: Path, models: Path, *more: str, **keys: str):
        self.folder, self.port = folder, free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        options = ["--models", models, "--logs", folder, "--presets", folder.parent / "presets", "--no-browser"]
        command = ["-c", "from flows.commands import main; main()", "arena", *options, "--board", "live", *more]
        self.process = subprocess.Popen(
            [sys.executable, *map(str, command), "--port", str(self.port)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"ANN_KEY": ANN_KEY} | keys,
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline().strip() == f"{self.url}/"
        wait_until(lambda: httpx.get(f"{self.url}/health").status_code == 200, self.process)

    def kill(self, how: int = signal.SIGKILL):
        self.process.send_signal(how)
        self.process.wait()
        self.process.stdout.close()

    def end(self):
        """As a service manager ends it."""
        if self.process.poll() is None:
            self.kill(signal.SIGTERM)


def hidden(page: str) -> dict[str, str]:
    """The fields of a task's form that nobody fills in."""
    return dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', page))


def logged(folder: Path) -> bytes:
    """All lines: of one day, and of a second one where midnight UTC came in between."""
    return b"".join(file.read_bytes() for file in sorted(folder.glob("vision-tmp-*-conv.json")))
