"""Files on the Hugging Face hub. Its address is read on import, so every test starts a process."""

import os
import socket
import subprocess
import sys
import time
from http.server import BaseHTTPRequestHandler
from threading import Thread

import pytest

from tests.http_server import LoopbackServer

pytest.importorskip("huggingface_hub")

SCRIPT = """
import sys
from schemas.errors import MissingProvider
from tasks.providers.production.local.weights import hub_file
try:
    file = hub_file("org/model", ["weights.safetensors", "weights.bin"])
except MissingProvider as missing:
    print("missing:", missing)
    sys.exit()
print("found")
print(file.read_text())
"""


class Hub(BaseHTTPRequestHandler):
    """Has one file, weights.bin, and remembers what it was asked for."""

    asked = []

    def do_HEAD(self):
        self.asked.append(f"{self.command} {self.path.rpartition('/')[2]}")
        there = self.path == "/org/model/resolve/main/weights.bin"
        self.send_response(200 if there else 404)
        self.send_header("content-length", "5" if there else "0")
        if there:
            self.send_header("etag", '"abc"')
            self.send_header("x-repo-commit", "0" * 40)
        else:
            self.send_header("x-error-code", "EntryNotFound")
        self.end_headers()
        if there and self.command == "GET":
            self.wfile.write(b"bytes")

    def do_GET(self):
        self.do_HEAD()

    def log_message(self, *_):
        pass


@pytest.fixture
def hub():
    Hub.asked = []
    server = LoopbackServer(("127.0.0.1", 0), Hub)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def look(tmp_path):
    def look(endpoint, **settings):
        kept = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
        own = {"HF_ENDPOINT": endpoint, "HF_HOME": str(tmp_path), "HF_HUB_DISABLE_XET": "1", "HF_HUB_OFFLINE": "0"}
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT], env=kept | own | settings, capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return look


def test_offered_file_is_downloaded_and_next_time_taken_from_the_cache(hub, look):
    assert look(hub) == "found\nbytes\n"
    assert "HEAD weights.safetensors" in Hub.asked
    assert Hub.asked.count("GET weights.bin") == 1
    Hub.asked.clear()
    assert look(hub) == "found\nbytes\n"
    assert Hub.asked == []


def test_unreachable_hub_is_told_in_seconds_with_the_way_out(look):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        begin = time.monotonic()
        told = look(f"http://127.0.0.1:{unused.getsockname()[1]}")
    assert told.startswith("missing:")
    assert "hf download org/model weights.safetensors" in told
    assert time.monotonic() - begin < 20


def test_offline_mode_is_respected(hub, look):
    assert look(hub, HF_HUB_OFFLINE="1").startswith("missing:")
    assert Hub.asked == []
