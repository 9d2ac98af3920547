"""A Docker daemon on the loopback address that starts containers as processes of this machine.

It speaks as much of Docker's API as a worker of Prefect asks for. A container runs its entrypoint and command with the
environment that it was created with and the paths of an image, in an empty folder. Folders are not mounted: a test
binds each at its own path, as `deploy/pools/docker.json` does.
"""

import http.server
import json
import re
import struct
import subprocess
import threading
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

VERSION = {"Version": "28.0.0", "ApiVersion": "1.48", "MinAPIVersion": "1.24", "Os": "linux", "Arch": "amd64"}


class DockerDaemon:
    """Serves until `close`. `created` holds what each container was created with, by its id."""

    def __init__(self, folder: Path, image_path: str) -> None:
        """`folder` is where containers run; `image_path` is PATH of their image."""
        self.folder = folder
        self.image_path = image_path
        self.created = dict[str, dict[str, Any]]()
        self.names = dict[str, str]()
        self.processes = dict[str, subprocess.Popen[bytes]]()
        handler = type("Answers", (_Answers,), {"daemon_state": self})
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.address = f"tcp://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        """End every container, and the server."""
        for process in self.processes.values():
            process.kill()
            process.wait()
        self._server.shutdown()
        self._server.server_close()

    def start(self, container: str) -> None:
        """Run what a container was created with."""
        config = self.created[container]
        environment = dict(line.split("=", 1) for line in config["Env"])
        with (self.folder / f"{container}.log").open("wb") as log:
            self.processes[container] = subprocess.Popen(
                [*config["Entrypoint"], *config["Cmd"]],
                cwd=self.folder,
                env={"PATH": self.image_path, "HOME": str(self.folder)} | environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def state(self, container: str) -> dict[str, Any]:
        """What `docker inspect` says of a container."""
        process = self.processes.get(container)
        status = "created" if process is None else "running" if process.poll() is None else "exited"
        ended = process.returncode if process and status == "exited" else 0
        state = {"Status": status, "ExitCode": ended}
        return {"Id": container, "Name": f"/{self.names[container]}", "State": state, "Config": {"Tty": False}}


class _Answers(http.server.BaseHTTPRequestHandler):
    """Answers one request; paths may begin with a version of the API."""

    daemon_state: DockerDaemon
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        path = self._path()
        container = re.fullmatch(r"/containers/(\w+)/(json|logs)", path)
        if path == "/version":
            self._send(200, VERSION)
        elif path.startswith("/images/"):
            self._send(200, {"Id": "sha256:0", "RepoTags": [path.split("/")[2]]})
        elif container and container[2] == "json":
            self._send(200, self.daemon_state.state(container[1]))
        elif container:
            self.daemon_state.processes[container[1]].wait()
            log = (self.daemon_state.folder / f"{container[1]}.log").read_bytes()
            self._send(200, struct.pack(">BxxxL", 1, len(log)) + log if log else b"")  # one frame of stdout
        else:
            self._send(404, {"message": path})

    def do_POST(self) -> None:
        path = self._path()
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        started = re.fullmatch(r"/containers/(\w+)/start", path)
        if path == "/containers/create":
            container = f"{len(self.daemon_state.created):064x}"
            self.daemon_state.created[container] = json.loads(body)
            (self.daemon_state.names[container],) = parse_qs(urlsplit(self.path).query)["name"]
            self._send(201, {"Id": container, "Warnings": []})
        elif started:
            self.daemon_state.start(started[1])
            self._send(204, b"")
        elif path.endswith("/wait"):
            process = self.daemon_state.processes[path.split("/")[2]]
            self._send(200, {"StatusCode": process.wait()})
        else:
            self._send(404, {"message": path})

    def _path(self) -> str:
        return re.sub(r"^/v\d+\.\d+", "", urlsplit(self.path).path)

    def _send(self, status: int, answer: dict[str, Any] | bytes) -> None:
        content = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Api-Version", VERSION["ApiVersion"])
        if status != 204:
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Nothing is printed."""
