"""What a dataset repository on the Hub holds."""

import hashlib
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from huggingface_hub import HfApi
from huggingface_hub.errors import HfHubHTTPError, RepositoryNotFoundError
from huggingface_hub.hf_api import RepoFile

from tasks.publish.hub import patiently

KIND = "dataset"
Content = Path | bytes
"""A file of the release, or what goes in its place."""
PREVIEW = "preview-"
"""Begins the branch of a preview."""
Wait = Callable[[float], None]
T = TypeVar("T")


def commit_title(version: str) -> str:
    """What the commit that brings a version is called, and found by."""
    return f"Version {version}"


class Remote:
    """One repository, asked patiently."""

    def __init__(self, api: HfApi, repo: str, wait: Wait = time.sleep) -> None:
        self.api, self.repo, self._wait = api, repo, wait

    def patiently(self, work: Callable[[], T], doing: str) -> T:
        """`work`, again while the Hub is unwell. Raises HubError."""
        return patiently(work, f"{doing} {self.repo}", self._wait)

    def private(self) -> bool | None:
        """Whether only its members see it; None when there is no such repository."""

        def ask() -> bool | None:
            try:
                return bool(self.api.repo_info(self.repo, repo_type=KIND).private)
            except RepositoryNotFoundError as error:
                if error.response.status_code == 401:  # the client takes a refused token for an absent repository
                    raise HfHubHTTPError("refused", response=error.response) from None
                return None

        return self.patiently(ask, "looking at")

    def head(self, revision: str) -> str:
        """The commit of a branch or tag."""
        return str(self.api.repo_info(self.repo, repo_type=KIND, revision=revision).sha)

    def tags(self) -> Mapping[str, str]:
        """Tag -> commit."""
        refs = self.patiently(lambda: self.api.list_repo_refs(self.repo, repo_type=KIND), "reading the tags of")
        return {tag.name: tag.target_commit for tag in refs.tags}

    def previews(self) -> Mapping[str, str]:
        """Branch of a preview -> commit."""
        refs = self.patiently(lambda: self.api.list_repo_refs(self.repo, repo_type=KIND), "reading the branches of")
        return {branch.name: branch.target_commit for branch in refs.branches if branch.name.startswith(PREVIEW)}

    def commit_of(self, version: str) -> str | None:
        """The commit on main that brought a version, also when it got no tag or lost it."""
        commits = self.patiently(
            lambda: self.api.list_repo_commits(self.repo, repo_type=KIND), "reading the history of"
        )
        return next((each.commit_id for each in commits if each.title == commit_title(version)), None)

    def tree(self, revision: str) -> dict[str, RepoFile]:
        """Path -> file."""
        found = self.api.list_repo_tree(self.repo, repo_type=KIND, revision=revision, recursive=True)
        return {entry.path: entry for entry in found if isinstance(entry, RepoFile)}

    def read(self, path: str, revision: str) -> bytes:
        """Content of a file that is there."""

        def load() -> bytes:
            with tempfile.TemporaryDirectory(prefix="hub-") as folder:
                got = self.api.hf_hub_download(self.repo, path, repo_type=KIND, revision=revision, local_dir=folder)
                return Path(got).read_bytes()

        return self.patiently(load, f"reading {path} of")

    def differing(self, files: Mapping[str, Content], revision: str) -> list[str]:
        """Those of `files` that a revision lacks, or has with another content."""
        there = self.patiently(lambda: self.tree(revision), "reading back")
        return [path for path, content in files.items() if path not in there or not _same(there[path], content)]


def _same(there: RepoFile, content: Content) -> bool:
    if there.lfs is not None:
        return bool(there.lfs.sha256 == digest("sha256", content))
    size = len(content) if isinstance(content, bytes) else content.stat().st_size
    return bool(there.blob_id == digest("sha1", content, b"blob %d\0" % size))  # as git names it


def digest(algorithm: str, content: Content, prefix: bytes = b"") -> str:
    """Hex digits of the prefix and the content together."""
    summed = hashlib.new(algorithm, prefix, usedforsecurity=False)
    if isinstance(content, bytes):
        summed.update(content)
    else:
        with content.open("rb") as stream:
            while block := stream.read(1 << 20):
                summed.update(block)
    return summed.hexdigest()
