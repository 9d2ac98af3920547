"""What conftest.py promises: tests can connect only to this machine, and what is left out is said."""

import os
import socket
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from types import SimpleNamespace
from urllib.request import urlopen

import pytest

from tests.places import ROOT, needs_data

ELSEWHERE = "192.0.2.1"  # reserved for documentation (RFC 5737)


@pytest.mark.parametrize("host", [ELSEWHERE, "2001:db8::1", "example.com"])
def test_a_connection_to_another_machine_is_refused(host):
    with pytest.raises(pytest.fail.Exception, match="only reach this machine"):
        socket.create_connection((host, 80), timeout=0.1)


def test_a_datagram_to_another_machine_is_refused():
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as opened,
        pytest.raises(pytest.fail.Exception, match=ELSEWHERE),
    ):
        opened.sendto(b"x", (ELSEWHERE, 53))


def test_code_that_ignores_errors_does_not_get_past_the_guard():
    def careless():
        try:
            socket.create_connection((ELSEWHERE, 80), timeout=0.1)
        except Exception:
            return "offline"

    with pytest.raises(pytest.fail.Exception):
        careless()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_server_on_this_machine_can_be_reached(host):
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        with urlopen(f"http://{host}:{server.server_port}/", timeout=5) as answer:
            assert answer.status == 204
        thread.join()


def test_a_unix_socket_can_be_reached():
    left, right = socket.socketpair(socket.AF_UNIX)
    with left, right:
        left.sendmsg([b"hello"])
        assert right.recv(5) == b"hello"


def test_tests_that_were_left_out_for_want_of_data_are_told_in_one_line(request):
    def told(*reasons: str) -> list[str]:
        lines, skipped = [], [SimpleNamespace(longrepr=("file.py", 1, f"Skipped: {reason}")) for reason in reasons]
        conftest = request.config.pluginmanager.get_plugin(str(ROOT / "tests" / "conftest.py"))
        conftest.pytest_terminal_summary(SimpleNamespace(stats={"skipped": skipped}, write_line=lines.append))
        return lines

    assert told("no chromium") == []
    (line,) = told(needs_data.kwargs["reason"], "no chromium", needs_data.kwargs["reason"])
    assert line.startswith("left out: 2 tests, because real data is neither ") and "CURATE_TEST_DATA" in line


def test_a_folder_of_data_that_was_named_is_read_or_the_test_fails():
    """The condition of `needs_data` is read anew in an interpreter in which the folder is named and is not there."""
    code = "from tests.places import DATA, needs_data; print(DATA.is_dir(), *needs_data.args)"
    named = os.environ | {"CURATE_TEST_DATA": "/nowhere"}
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=named, capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["False", "False"], "it is not there, and no reason to skip"
