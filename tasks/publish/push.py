"""Puts a plan on the Hub: one commit for each repository, then the tag. What was done before is not done again."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path

from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi

from schemas.errors import BadInput, HubError, ReleaseConflict
from schemas.publication import RepoUpload, UploadPlan
from tasks.publish.card import card_of_config
from tasks.publish.ours import require_ours
from tasks.publish.plan import managed
from tasks.publish.remote import KIND, Content, Remote, Wait, commit_title, digest
from tasks.publish.rights import require_write
from tasks.release.layout import CARD
from tasks.running.progress import progress

_FILES_AT_ONCE = 8


def version_exists(repo: str, version: str) -> ReleaseConflict:
    """The error of a version that is on the Hub already."""
    return ReleaseConflict(
        f"{repo} has version {version} already, and a published version never changes; "
        "release another version, or take this one back with `curate yank`"
    )


def require_unchanged(release: Path, approved: Mapping[str, str]) -> None:
    """Raises ReleaseConflict when a file is not the one that was verified and approved, by its checksum."""
    for name, sha256 in approved.items():
        file = release / name
        if not file.is_file() or digest("sha256", file) != sha256:
            raise ReleaseConflict(f"{name} changed after the release was approved; nothing more is published")


def _addition(path: str, content: Content) -> CommitOperationAdd:
    if isinstance(content, Path) and not content.is_file():
        raise ReleaseConflict(f"{path} is gone since the release was approved; nothing more is published")
    return CommitOperationAdd(path, content if isinstance(content, bytes) else str(content))


class Push:
    """One repository's part of a plan."""

    def __init__(
        self,
        api: HfApi,
        release: Path,
        plan: UploadPlan,
        upload: RepoUpload,
        wait: Wait = time.sleep,
        withdrawn: Callable[[], bool] = lambda: False,
    ) -> None:
        self._plan, self._release, self._sha256, self.repo = plan, release, upload.sha256, upload.repo
        self._remote, self._wait = Remote(api, upload.repo, wait), wait
        self._withdrawn = withdrawn
        self.files = {path: self._content(release / source, path, upload.repo) for path, source in upload.files.items()}

    def _content(self, file: Path, path: str, repo: str) -> Content:
        """The file, or the card of the one configuration that a repository holds."""
        if path != CARD or len(self._plan.uploads) == 1:
            return file
        return card_of_config(file.read_text(encoding="utf-8"), repo.rpartition("-")[2]).encode()

    def check(self) -> str | None:
        """Its commit when it is there already; everything that the Hub can refuse is found before anything is changed.

        Raises HubError, BadInput for the wrong visibility, ReleaseConflict for a version with other files.
        """
        private, repo = self._remote.private(), self._remote.repo
        if private is False and not self._plan.public:
            raise BadInput(f"{repo} is public; say --public to publish where everybody can read it")
        if private and self._plan.public:
            raise BadInput(
                f"{repo} is private; make it public on the Hub first, which shows its earlier versions too, "
                "or leave --public out"
            )
        require_write(self._remote.api, repo, private is not None, self._wait)
        if private is not None:
            require_ours(self._remote)
        tag = self._plan.tag
        commit = self._remote.tags().get(tag) if private is not None and tag else None
        if commit and self._remote.differing(self.files, commit):
            raise version_exists(repo, self._plan.version)
        return commit

    def run(self) -> str:
        """Do it, and return the commit. Files of the repository that no release writes stay.

        Raises ReleaseConflict when a takedown withdraws the release, before anything goes or afterwards; `curate yank`
        finds what went without a tag.
        """
        if self._withdrawn():
            raise ReleaseConflict(f"version {self._plan.version} was taken down; nothing more is published")
        self._make_repository()
        commit = self._remote.patiently(self._commit, "committing to")
        differing = self._remote.differing(self.files, commit)
        if differing:
            raise HubError(
                f"{self._remote.repo}: {differing[0]} is not there as it was sent; run the same command again"
            )
        if self._withdrawn():
            revision = self._plan.tag or self._plan.branch
            raise ReleaseConflict(
                f"version {self._plan.version} was taken down while it was sent to {self.repo}; take it back with: "
                f"curate yank {revision} --repo {self.repo}"
            )
        require_unchanged(
            self._release, self._sha256
        )  # what was sent is what is here, and what is here is what was approved
        if self._plan.tag:
            self._tag(self._plan.tag, commit)
        return commit

    def _make_repository(self) -> None:
        remote = self._remote

        def make() -> None:
            remote.api.create_repo(remote.repo, repo_type=KIND, private=not self._plan.public, exist_ok=True)

        def branch() -> None:
            remote.api.create_branch(remote.repo, repo_type=KIND, branch=self._plan.branch, exist_ok=True)

        if remote.private() is None:
            remote.patiently(make, "making")
        if self._plan.branch != "main":
            remote.patiently(branch, f"making branch {self._plan.branch} of")

    def _commit(self) -> str:
        """One commit that leaves no shard of another version behind; none when the files are there already."""
        api, repo, branch = self._remote.api, self._remote.repo, self._plan.branch
        head = self._remote.head(branch)
        adding = [_addition(path, content) for path, content in self.files.items()]
        with progress("files to the Hub", len(adding)) as advance:
            for start in range(0, len(adding), _FILES_AT_ONCE):
                some = adding[start : start + _FILES_AT_ONCE]
                api.preupload_lfs_files(repo, some, repo_type=KIND, revision=branch, free_memory=False)
                advance(len(some))
        old = [CommitOperationDelete(p) for p in self._remote.tree(branch) if managed(p) and p not in self.files]
        message = commit_title(self._plan.version)
        done = api.create_commit(
            repo, [*adding, *old], commit_message=message, repo_type=KIND, revision=branch, parent_commit=head
        )
        return str(done.oid)

    def _tag(self, tag: str, commit: str) -> None:
        api, repo = self._remote.api, self._remote.repo
        if tag not in self._remote.tags():
            self._remote.patiently(
                lambda: api.create_tag(repo, repo_type=KIND, tag=tag, revision=commit, exist_ok=True), "tagging"
            )
        if self._remote.tags()[tag] != commit and self._remote.differing(self.files, tag):
            raise ReleaseConflict(f"{repo}: somebody else made tag {tag} meanwhile, with other files")
