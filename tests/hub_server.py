"""A loopback Hub: what huggingface_hub and `datasets` ask of the real one, with faults on demand.

hub = LoopbackHub(); hub.fail("POST", "/commit/", 503, times=2); hub.repos["org/name"].tags
"""

import json
import re
from collections import Counter
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from threading import Event, Thread
from urllib.parse import parse_qs, unquote, urlsplit

import huggingface_hub
import pytest

from tests.http_server import LoopbackServer
from tests.hub_files import FileAnswers
from tests.hub_refs import RefAnswers
from tests.hub_repo import Repo

TOKEN = "hf_loopbackloopbackloopbackloopback"
_RESET = "reset"


class LoopbackHub:
    """Runs until `close`. `blobs` are the uploaded large files, `requests` is what was asked: (method, path).

    `received` counts the bytes of bodies by path. `account` is what it says of the token, `read_only` names
    repositories that the token may not write to.
    """

    def __init__(self) -> None:
        self.repos: dict[str, Repo] = {}
        self.blobs: dict[str, bytes] = {}
        self.requests: list[tuple[str, str]] = []
        self.token = TOKEN
        self.read_only: set[str] = set()
        self.account: dict = {
            "type": "user",
            "name": "me",
            "orgs": [{"type": "org", "name": "org", "roleInOrg": "write"}],
            "auth": {"type": "access_token", "accessToken": {"displayName": "tests", "role": "write"}},
        }
        self.received: Counter[str] = Counter()
        self._faults: list[list] = []
        self._stalls: dict[str, Event] = {}
        self._meanwhile: list[tuple[str, str, Callable[[], object]]] = []
        self._closing = Event()
        self.retry_after = 0
        self.says = ""
        """What it says of an injected fault, when not its status."""
        hub = self

        class Handler(_Handler):
            pass

        Handler.hub = hub
        self._server = LoopbackServer(("127.0.0.1", 0), Handler)
        self.endpoint = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self._thread.start()

    def is_the_hub(self, patch: pytest.MonkeyPatch) -> None:
        """Let clients of this process, and processes that it starts, find it, with a token."""
        patch.setenv("HF_ENDPOINT", self.endpoint)
        patch.setenv("HF_TOKEN", TOKEN)
        patch.setattr(huggingface_hub.constants, "ENDPOINT", self.endpoint)  # read on import
        template = self.endpoint + "/{repo_id}/resolve/{revision}/{filename}"
        patch.setattr(huggingface_hub.constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        patch.setattr(huggingface_hub.constants, "HF_HUB_DISABLE_XET", True)  # this Hub speaks plain LFS

    def fail(
        self, method: str, part: str, status: int, times: int = 1, after: bool = False, retry_after: int = 0
    ) -> None:
        """Answer the next requests whose path contains `part` with a status; `after`: carry out the request first."""
        self._faults.append([method, part, status, times, after])
        self.retry_after = retry_after

    def meanwhile(self, method: str, part: str, act: Callable[[], object]) -> None:
        """Call `act` before the next request whose path contains `part` is answered."""
        self._meanwhile.append((method, part, act))

    def acts(self, method: str, path: str) -> None:
        """Do what is to be done before this request is answered."""
        due = [each for each in self._meanwhile if each[0] == method and each[1] in path]
        self._meanwhile = [each for each in self._meanwhile if each not in due]
        for _, _, act in due:
            act()

    def drop(self, method: str, part: str, times: int = 1, after: bool = False) -> None:
        """Close the connection of the next such requests without an answer."""
        self._faults.append([method, part, _RESET, times, after])

    def stall(self, part: str) -> Event:
        """Read half of the next upload whose path contains `part`, and never answer. The event is set then."""
        return self._stalls.setdefault(part, Event())

    def stalled(self, path: str) -> bool:
        """Block an upload that should stall until the server closes."""
        events = [event for part, event in self._stalls.items() if part in path and not event.is_set()]
        for event in events:
            event.set()
            self._closing.wait()
        return bool(events)

    def fault(self, method: str, path: str) -> tuple[object, bool] | None:
        """(status, after) when the request should fail."""
        for fault in self._faults:
            if fault[0] == method and fault[1] in path and fault[3] > 0:
                fault[3] -= 1
                return fault[2], fault[4]
        return None

    def writes(self) -> list[str]:
        """Requests that change something."""
        asked = [f"{method} {path}" for method, path in self.requests if method != "GET" and method != "HEAD"]
        return [each for each in asked if "paths-info" not in each and "validate-yaml" not in each]

    def files(self, repo: str, revision: str = "main") -> dict[str, bytes]:
        """Content of a revision."""
        found = self.repos[repo]
        return found.commits[found.at(revision)]

    def close(self) -> None:
        """Stop serving."""
        self._closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Handler(FileAnswers, RefAnswers, BaseHTTPRequestHandler):
    hub: LoopbackHub
    protocol_version = "HTTP/1.1"

    def handle_all(self) -> None:
        split = urlsplit(self.path)
        self.query, path = parse_qs(split.query), unquote(split.path)
        self.body = self.receive(path, int(self.headers.get("content-length") or 0))
        if self.body is None:
            return
        self.hub.requests.append((self.command, path))
        self.hub.acts(self.command, path)
        fault = self.hub.fault(self.command, path)
        answer = None if fault and not fault[1] else self.answer(path)
        if fault:
            self.break_off(fault[0])
        elif answer:
            self.send(*answer)

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = handle_all  # noqa: N815 - the base class's names

    def receive(self, path: str, size: int) -> bytes | None:
        first = self.rfile.read(size // 2)
        self.hub.received[path] += len(first)
        if self.command == "PUT" and self.hub.stalled(path):
            self.close_connection = True
            return None
        rest = self.rfile.read(size - len(first))
        self.hub.received[path] += len(rest)
        return first + rest

    def break_off(self, status: object) -> None:
        if status == _RESET:
            self.close_connection = True
            self.connection.shutdown(2)
        else:
            headers = {"retry-after": str(self.hub.retry_after)} if self.hub.retry_after else {}
            self.send(int(str(status)), {"error": self.hub.says or f"injected {status}"}, headers)

    def answer(self, path: str) -> tuple[int, object, dict[str, str]]:
        if path.startswith("/lfs/"):
            return self.lfs_blob(path.rpartition("/")[2])
        guarded = path.startswith("/api/") or self.command not in ("GET", "HEAD") or self.private(path)
        if guarded and self.headers.get("authorization") != f"Bearer {self.hub.token}":
            return 401, {"error": "Invalid credentials in Authorization header"}, {}
        for pattern, name in _ROUTES:
            if match := re.fullmatch(pattern, f"{self.command.replace('HEAD', 'GET')} {path}"):
                return getattr(self, name)(*match.groups())
        return 404, {"error": f"no route {self.command} {path}"}, {}

    def private(self, path: str) -> bool:
        match = re.match(r"/datasets/([^/]+/[^/]+)/", path)
        return bool(match and match[1] in self.hub.repos and self.hub.repos[match[1]].private)

    def send(self, status: int, answer: object, headers: dict[str, str]) -> None:
        content = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        self.send_response(status)
        for name, value in {"content-length": str(len(content)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass

    # --- repositories ---------------------------------------------------------------------------

    def create(self):
        asked = json.loads(self.body)
        name = f"{asked['organization']}/{asked['name']}" if asked.get("organization") else f"me/{asked['name']}"
        if not name.startswith(("org/", "me/")):
            return 403, {"error": "You don't have the rights to create a dataset under this namespace"}, {}
        if name in self.hub.repos:
            return 409, {"error": "You already created this dataset repo", "url": self.url(name)}, {}
        self.hub.repos[name] = Repo(private=asked.get("visibility", "public") != "public")
        self.hub.repos[name].commit({".gitattributes": b"*.parquet filter=lfs\n"}, message="initial commit")
        return 200, {"url": self.url(name)}, {}

    def url(self, name: str) -> str:
        return f"{self.hub.endpoint}/datasets/{name}"

    def found(self, name: str, revision: str = "main"):
        repo = self.hub.repos.get(name)
        if repo is None:
            return None, None, (404, {"error": "Repository not found"}, {"x-error-code": "RepoNotFound"})
        commit = repo.at(revision)
        if commit is None:
            return repo, None, (404, {"error": "Invalid rev id"}, {"x-error-code": "RevisionNotFound"})
        return repo, commit, None

    def info(self, name: str, revision: str = "main"):
        repo, commit, error = self.found(name, revision)
        if error:
            return error
        siblings = [{"rfilename": path} for path in sorted(repo.commits[commit])]
        about = {
            "id": name,
            "_id": "0" * 24,
            "sha": commit,
            "private": repo.private,
            "tags": [],
            "downloads": 0,
            "likes": 0,
        }
        return 200, about | {"siblings": siblings, "author": name.partition("/")[0], "gated": False}, {}

    def history(self, name: str, revision: str):
        repo, commit, error = self.found(name, revision)
        if error:
            return error
        about = {"authors": [{"user": "me"}], "date": "2024-09-18T12:00:00.000Z", "message": ""}
        return self.page([about | {"id": oid, "title": repo.titles[oid]} for oid in repo.past(commit)])

    def may_write(self, name: str):
        error = self.found(name)[2]
        return error or ((403, {"error": "Forbidden"}, {}) if name in self.hub.read_only else (200, {}, {}))

    def yaml(self):
        return 200, {"errors": [], "warnings": []}, {}

    def whoami(self):
        return 200, self.hub.account, {}


_ID = r"([^/]+/[^/]+)"
_API = rf"/api/datasets/{_ID}"
_ROUTES = [
    ("POST /api/repos/create", "create"), ("POST /api/validate-yaml", "yaml"), ("GET /api/whoami-v2", "whoami"),
    (rf"GET {_API}", "info"), (rf"GET {_API}/revision/(.+)", "info"), (rf"GET {_API}/refs", "refs"),
    (rf"GET {_API}/auth-check/write", "may_write"), (rf"GET {_API}/commits/(.+)", "history"),
    (rf"POST {_API}/tag/(.+)", "tag"), (rf"DELETE {_API}/tag/(.+)", "untag"), (rf"POST {_API}/branch/(.+)", "branch"),
    (rf"DELETE {_API}/branch/(.+)", "unbranch"), (rf"POST {_API}/super-squash/(.+)", "squash"),
    (rf"GET {_API}/tree/([^/]+)/?(.*)", "tree"), (rf"POST {_API}/paths-info/(.+)", "paths_info"),
    (rf"POST {_API}/preupload/(.+)", "preupload"), (rf"POST {_API}/commit/(.+)", "commit"),
    (rf"GET {_API}/lfs-files", "lfs_files"), (rf"POST {_API}/lfs-files/batch", "lfs_delete"),
    (rf"POST /datasets/{_ID}\.git/info/lfs/objects/batch", "lfs_batch"),
    (rf"GET /datasets/{_ID}/resolve/([^/]+)/(.+)", "resolve"),
]  # fmt: skip
