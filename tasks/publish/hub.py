"""Client of the Hugging Face Hub: retried requests, the content of a repository, and whether the token may write."""

import errno
import hashlib
import io
import json
import logging
import os
import re
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import httpx2
from huggingface_hub import HfApi, constants
from huggingface_hub.errors import HfHubHTTPError, RepositoryNotFoundError
from huggingface_hub.hf_api import RepoFile
from huggingface_hub.utils.tqdm import disable_progress_bars

from schemas.errors import BadInput, HubError, ReleaseConflict
from tasks.release.build import CARD, MANIFEST

HUB_TOKEN = "HF_TOKEN"  # noqa: S105 - the variable's name
ATTEMPTS = 6
_WAIT_SECONDS_MAX = 60.0
_RETRIED = {408, 425, 429, 500, 502, 503, 504}
_NOT_WRITTEN = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG}
_LATER = "nothing was lost; run the same command again, and what was uploaded is not uploaded again"
_REFUSED = {
    401: f"{HUB_TOKEN} is expired or wrong; make a new one with write access at huggingface.co/settings/tokens",
    402: "the account's plan does not allow it",
    403: f"{HUB_TOKEN} may not write there; check the organisation and the token's permissions",
    404: "no such repository, or the token may not see it",
    409: "the name is taken",
    412: "somebody else committed meanwhile; run the same command again",
    413: "a file is too large for the Hub",
}

T = TypeVar("T")


def hub_api() -> HfApi:
    """The Hub client with the token of the environment. Raises BadInput when there is no usable token, or offline."""
    if constants.HF_HUB_OFFLINE:
        raise BadInput("HF_HUB_OFFLINE is set, which forbids every request to the Hub; unset it")
    token = _token()
    if not token:
        raise BadInput(f"{HUB_TOKEN} is not set; set it to a token with write access to the repository")
    if not all("!" <= letter <= "~" for letter in token):
        raise BadInput(f"{HUB_TOKEN} holds a space or a letter that no token has; copy the token again")
    return HfApi(endpoint=os.environ.get("HF_ENDPOINT"), token=token)


def _token() -> str:
    """The token of the environment without the line break that a file ends with; what is sent is what is hidden."""
    return os.environ.get(HUB_TOKEN, "").strip()


def quiet_client() -> None:
    """Turn off the client's own progress bars and warnings."""
    disable_progress_bars()
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)


def _temporary(error: BaseException, doing: str) -> tuple[str, float]:
    """(description, seconds to wait as asked by the Hub) of a temporary failure.

    Raises HubError for a refusal and for a full disk here, ReleaseConflict for a file that cannot be read any more.
    """
    if isinstance(error, RuntimeError) and error.__cause__ is not None:
        error = error.__cause__  # the client wraps errors of its upload threads
    if isinstance(error, OSError) and error.errno in _NOT_WRITTEN:  # of this machine, with or without a file's name
        raise HubError(
            f"{doing}: this machine cannot write ({error.strerror}); mend that, and run the same command again"
        )
    if isinstance(error, OSError) and error.filename is not None:  # of this machine, not of the network
        name = Path(error.filename).name
        raise ReleaseConflict(f"{doing}: {name} cannot be read any more ({error.strerror}); nothing more is published")
    if isinstance(error, (httpx2.TransportError, OSError)) and not isinstance(error, HfHubHTTPError):
        return f"the connection failed ({type(error).__name__})", 0.0
    if not isinstance(error, HfHubHTTPError):
        raise error
    status = error.response.status_code
    if status not in _RETRIED:
        raise HubError(f"{doing}: the Hub answered {status}: {_REFUSED.get(status, _first_line(error))}") from None
    retry_after = error.response.headers.get("retry-after", "")
    return f"the Hub answered {status}", float(retry_after) if retry_after.isdecimal() else 0.0


def _first_line(error: Any) -> str:
    text = str(getattr(error, "server_message", None) or error).strip().splitlines() or ["no reason given"]
    return text[0].replace(_token() or "\0", "***")[:200]


REPO_KIND = "dataset"
FileContent = Path | bytes
"""A file of the release, or the bytes to send in its place."""
PREVIEW = "preview-"
"""Prefix of a preview's branch."""


def commit_title(version: str) -> str:
    """Title of the commit that publishes a version; the commit is found by it."""
    return f"Version {version}"


class Remote:
    """A repository on the Hub."""

    def __init__(self, api: HfApi, repo: str) -> None:
        self.api, self.repo = api, repo

    def with_retries(self, work: Callable[[], T], doing: str) -> T:
        """Call `work`, which must be safe to repeat, and retry after temporary failures of the Hub or the network.

        Raises HubError when the Hub refuses, or still fails after 6 attempts.
        """
        doing, failure = f"{doing} {self.repo}", ""
        for attempt in range(ATTEMPTS):
            try:
                return work()
            except (HfHubHTTPError, httpx2.TransportError, OSError, RuntimeError) as error:
                failure, seconds = _temporary(error, doing)
            if attempt + 1 < ATTEMPTS:
                time.sleep(min(_WAIT_SECONDS_MAX, max(seconds, 2.0**attempt)))
        raise HubError(f"{doing}: {failure} {ATTEMPTS} times; {_LATER}")

    def ask(self, request: Callable[..., T], doing: str, **words: Any) -> T:
        """Call a method of the client about this repository, with retries."""
        return self.with_retries(lambda: request(self.repo, repo_type=REPO_KIND, **words), doing)

    def private(self) -> bool | None:
        """Whether it is private; None when there is no such repository."""

        def ask() -> bool | None:
            try:
                return bool(self.api.repo_info(self.repo, repo_type=REPO_KIND).private)
            except RepositoryNotFoundError as error:
                if error.response.status_code == 401:  # the client reports a refused token as a missing repository
                    raise HfHubHTTPError("refused", response=error.response) from None
                return None

        return self.with_retries(ask, "looking at")

    def head(self, revision: str) -> str:
        """The commit of a branch or tag."""
        return str(self.api.repo_info(self.repo, repo_type=REPO_KIND, revision=revision).sha)

    def tags(self) -> Mapping[str, str]:
        """Tag -> commit."""
        refs = self.ask(self.api.list_repo_refs, "reading the tags of")
        return {tag.name: tag.target_commit for tag in refs.tags}

    def branches(self) -> Mapping[str, str]:
        """Branch -> commit."""
        refs = self.ask(self.api.list_repo_refs, "reading the branches of")
        return {branch.name: branch.target_commit for branch in refs.branches}

    def previews(self) -> Mapping[str, str]:
        """Preview branch -> commit."""
        return {name: commit for name, commit in self.branches().items() if name.startswith(PREVIEW)}

    def past(self, revision: str) -> Mapping[str, str]:
        """Commit -> title, of a branch or tag and all before it, newest first."""
        commits = self.ask(self.api.list_repo_commits, "reading the history of", revision=revision)
        return {commit.commit_id: commit.title for commit in commits}

    def commit_of(self, version: str) -> str | None:
        """The commit on main that published a version, also when the version has no tag."""
        return next((commit for commit, title in self.past("main").items() if title == commit_title(version)), None)

    def squash(self, branch: str) -> None:
        """Leave a branch one commit, with the files and the title of its last one."""
        title = next(iter(self.past(branch).values()))
        self.ask(self.api.super_squash_history, "squashing the history of", branch=branch, commit_message=title)

    def tree(self, revision: str) -> dict[str, RepoFile]:
        """Path -> file."""
        entries = self.api.list_repo_tree(self.repo, repo_type=REPO_KIND, revision=revision, recursive=True)
        return {entry.path: entry for entry in entries if isinstance(entry, RepoFile)}

    def read(self, path: str, revision: str) -> bytes:
        """Content of an existing file."""

        def load() -> bytes:
            with tempfile.TemporaryDirectory(prefix="hub-") as folder:
                got = self.api.hf_hub_download(
                    self.repo, path, repo_type=REPO_KIND, revision=revision, local_dir=folder
                )
                return Path(got).read_bytes()

        return self.with_retries(load, f"reading {path} of")

    def differing(self, files: Mapping[str, FileContent], revision: str) -> list[str]:
        """The paths of `files` that a revision lacks or has with other content.

        Raises ReleaseConflict for a file that is gone here.
        """

        def compare() -> list[str]:
            there = self.tree(revision)
            return [path for path, content in files.items() if path not in there or not _same(there[path], content)]

        return self.with_retries(compare, "reading back")


def _same(there: RepoFile, content: FileContent) -> bool:
    if there.lfs is not None:
        return bool(there.lfs.sha256 == digest("sha256", content))
    size = len(content) if isinstance(content, bytes) else content.stat().st_size
    return bool(there.blob_id == digest("sha1", content, b"blob %d\0" % size))  # as git names it


def digest(algorithm: str, content: FileContent, prefix: bytes = b"") -> str:
    """Hex digest of the prefix followed by the content."""
    summed = hashlib.new(algorithm, prefix, usedforsecurity=False)
    with io.BytesIO(content) if isinstance(content, bytes) else content.open("rb") as stream:
        return hashlib.file_digest(stream, lambda: summed).hexdigest()


_READERS = ("read", "no_access")
"""Roles in an organisation that may not create repositories."""


def require_write(remote: Remote, exists: bool) -> None:
    """Raises HubError when the token may not write to the repository, or may not create it."""
    api, repo = remote.api, remote.repo
    if exists:
        remote.ask(api.auth_check, "asking for write access to", write=True)
        return
    account = remote.with_retries(lambda: api.whoami(cache=True), "asking whose token may make")
    for why in _refusals(account, repo.partition("/")[0]):
        raise HubError(f"{HUB_TOKEN} may not make {repo}: {why}")


def _refusals(account: Mapping[str, Any], namespace: str) -> Iterator[str]:
    """Reasons why the token may not create a repository. Unknown kinds of tokens pass, and the Hub decides."""
    token = (account.get("auth") or {}).get("accessToken") or {}
    role, scoped = token.get("role"), (token.get("fineGrained") or {}).get("scoped")
    if role == "read":
        yield "it is a read token; make one with write access at huggingface.co/settings/tokens"
    elif role == "write":
        roles = {str(org.get("name")).lower(): org.get("roleInOrg") for org in account.get("orgs") or []}
        account_name, owner = str(account.get("name")).lower(), namespace.lower()
        if owner not in {account_name, *roles}:
            yield f"its account is no member of {namespace}; give another --repo, or the token of a member"
        elif owner != account_name and roles[owner] in _READERS:
            may = "ask an administrator there for the role contributor or write"
            yield f"its account may only read in {namespace}; {may}"
    elif role == "fineGrained" and scoped is not None and not any(_lets_write(scope, namespace) for scope in scoped):
        yield (
            f"it has no write access to all repositories of {namespace}; tick that at huggingface.co/settings/tokens, "
            "or make the repository there and give the token write access to it"
        )


def _lets_write(scope: Mapping[str, Any], namespace: str) -> bool:
    entity = scope.get("entity") or {}
    named = str(entity.get("name") or namespace).lower() == namespace.lower()
    return entity.get("type") in ("user", "org") and named and "repo.write" in (scope.get("permissions") or [])


WITHDRAWN_CARD = b"# Withdrawn\n\nThis version was withdrawn by its publisher.\n"
"""The card that `curate yank` leaves."""
_HOUSEKEEPING = re.compile(r"\.gitattributes|\.gitignore|LICEN[CS]E(\.\w+)?")
_READ_BYTES_MAX = 64 * 1024 * 1024
_OF_A_RELEASE = {"version", "software", "policy_hash", "files"}
"""Keys by which a `manifest.json` is recognised as that of a release."""


def require_ours(remote: Remote) -> None:
    """Raises BadInput for a repository with another dataset or a handwritten card, which a release would replace."""
    there = remote.with_retries(lambda: remote.tree("main"), "looking at")
    card, manifest = _read(remote, there, CARD), None
    with suppress(ValueError, RecursionError):
        manifest = json.loads(_read(remote, there, MANIFEST))
    if card == WITHDRAWN_CARD or (isinstance(manifest, dict) and manifest.keys() >= _OF_A_RELEASE):
        return
    others = sorted(path for path in there if path != CARD and not _HOUSEKEEPING.fullmatch(path))
    if others:
        raise BadInput(
            f"{remote.repo} holds another dataset already ({others[0]!r} and no {MANIFEST} of a release); "
            "give another --repo"
        )
    # the Hub itself writes only front matter
    if re.sub(rb"\A---\r?\n.*?(\r?\n)?---[ \t]*(\r?\n|\Z)", b"", card, flags=re.DOTALL).strip():
        raise BadInput(
            f"{remote.repo} has a {CARD} that somebody wrote and no release; delete it there, or give another --repo"
        )


def shown_version(remote: Remote, tree: Mapping[str, RepoFile]) -> str | None:
    """The version that the manifest on main names; None without one that can be read."""
    with suppress(ValueError, RecursionError):
        manifest = json.loads(_read(remote, tree, MANIFEST))
        return manifest.get("version") if isinstance(manifest, dict) else None
    return None


def _read(remote: Remote, there: Mapping[str, RepoFile], path: str) -> bytes:
    """Content of a file; b"" when it is missing or larger than a manifest or card can be."""
    return remote.read(path, "main") if path in there and there[path].size <= _READ_BYTES_MAX else b""
