"""Client of the Hugging Face Hub: requests with retries, and the content of a repository."""

import hashlib
import io
import logging
import os
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import httpx2
from huggingface_hub import HfApi
from huggingface_hub.errors import HfHubHTTPError, RepositoryNotFoundError
from huggingface_hub.hf_api import RepoFile
from huggingface_hub.utils.tqdm import disable_progress_bars

from schemas.errors import BadInput, HubError, ReleaseConflict

TOKEN_VARIABLE = "HF_TOKEN"  # noqa: S105 - the variable's name
ATTEMPTS = 6
_WAIT_SECONDS_MAX = 60.0
_RETRIED = {408, 425, 429, 500, 502, 503, 504}
_LATER = "nothing was lost; run the same command again, and what was uploaded is not uploaded again"
_REFUSED = {
    401: f"{TOKEN_VARIABLE} is expired or wrong; make a new one with write access at huggingface.co/settings/tokens",
    402: "the account's plan does not allow it",
    403: f"{TOKEN_VARIABLE} may not write there; check the organisation and the token's permissions",
    404: "no such repository, or the token may not see it",
    409: "the name is taken",
    412: "somebody else committed meanwhile; run the same command again",
    413: "a file is too large for the Hub",
}

T = TypeVar("T")


def hub_api() -> HfApi:
    """The Hub client with the token of the environment. Raises BadInput when there is no usable token."""
    token = os.environ.get(TOKEN_VARIABLE, "").strip()
    if not token:
        raise BadInput(f"{TOKEN_VARIABLE} is not set; set it to a token with write access to the repository")
    if not all("!" <= letter <= "~" for letter in token):
        raise BadInput(f"{TOKEN_VARIABLE} holds a space or a letter that no token has; copy the token again")
    return HfApi(endpoint=os.environ.get("HF_ENDPOINT"), token=token)


def quiet_client() -> None:
    """Turn off the client's own progress bars and warnings."""
    disable_progress_bars()
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)


def _temporary(error: BaseException, doing: str) -> tuple[str, float]:
    """(description, seconds to wait as asked by the Hub) of a temporary failure. Raises HubError for a refusal."""
    if isinstance(error, RuntimeError) and error.__cause__ is not None:
        error = error.__cause__  # the client wraps errors of its upload threads
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
    return text[0].replace(os.environ.get(TOKEN_VARIABLE) or "\0", "***")[:200]


KIND = "dataset"
Content = Path | bytes
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
        return self.with_retries(lambda: request(self.repo, repo_type=KIND, **words), doing)

    def private(self) -> bool | None:
        """Whether it is private; None when there is no such repository."""

        def ask() -> bool | None:
            try:
                return bool(self.api.repo_info(self.repo, repo_type=KIND).private)
            except RepositoryNotFoundError as error:
                if error.response.status_code == 401:  # the client reports a refused token as a missing repository
                    raise HfHubHTTPError("refused", response=error.response) from None
                return None

        return self.with_retries(ask, "looking at")

    def head(self, revision: str) -> str:
        """The commit of a branch or tag."""
        return str(self.api.repo_info(self.repo, repo_type=KIND, revision=revision).sha)

    def tags(self) -> Mapping[str, str]:
        """Tag -> commit."""
        refs = self.ask(self.api.list_repo_refs, "reading the tags of")
        return {tag.name: tag.target_commit for tag in refs.tags}

    def previews(self) -> Mapping[str, str]:
        """Preview branch -> commit."""
        refs = self.ask(self.api.list_repo_refs, "reading the branches of")
        return {branch.name: branch.target_commit for branch in refs.branches if branch.name.startswith(PREVIEW)}

    def commit_of(self, version: str) -> str | None:
        """The commit on main that published a version, also when the version has no tag."""
        commits = self.ask(self.api.list_repo_commits, "reading the history of")
        return next((each.commit_id for each in commits if each.title == commit_title(version)), None)

    def tree(self, revision: str) -> dict[str, RepoFile]:
        """Path -> file."""
        found = self.api.list_repo_tree(self.repo, repo_type=KIND, revision=revision, recursive=True)
        return {entry.path: entry for entry in found if isinstance(entry, RepoFile)}

    def read(self, path: str, revision: str) -> bytes:
        """Content of an existing file."""

        def load() -> bytes:
            with tempfile.TemporaryDirectory(prefix="hub-") as folder:
                got = self.api.hf_hub_download(self.repo, path, repo_type=KIND, revision=revision, local_dir=folder)
                return Path(got).read_bytes()

        return self.with_retries(load, f"reading {path} of")

    def differing(self, files: Mapping[str, Content], revision: str) -> list[str]:
        """The paths of `files` that a revision lacks or has with other content."""
        there = self.with_retries(lambda: self.tree(revision), "reading back")
        return [path for path, content in files.items() if path not in there or not _same(there[path], content)]


def _same(there: RepoFile, content: Content) -> bool:
    if there.lfs is not None:
        return bool(there.lfs.sha256 == digest("sha256", content))
    size = len(content) if isinstance(content, bytes) else content.stat().st_size
    return bool(there.blob_id == digest("sha1", content, b"blob %d\0" % size))  # as git names it


def digest(algorithm: str, content: Content, prefix: bytes = b"") -> str:
    """Hex digest of the prefix followed by the content."""
    summed = hashlib.new(algorithm, prefix, usedforsecurity=False)
    with io.BytesIO(content) if isinstance(content, bytes) else content.open("rb") as stream:
        return hashlib.file_digest(stream, lambda: summed).hexdigest()
