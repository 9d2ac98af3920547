"""Publishes an approved release: one commit in each repository, then the tag. Finished steps are not repeated.

Also takes a published version back: its files at the head, its large files in the history, and its tag or branch.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path

from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi
from huggingface_hub.hf_api import RepoFile

from schemas.errors import BadInput, HubError, ReleaseConflict
from schemas.publication import RepoUpload, UploadPlan
from tasks.publish.hub import (
    PREVIEW,
    REPO_KIND,
    WITHDRAWN_CARD,
    FileContent,
    Remote,
    commit_title,
    digest,
    require_ours,
    require_write,
    shown_version,
)
from tasks.publish.plan import check_name, managed, of_config
from tasks.publish.records import record_commits, record_publication, unfinished
from tasks.release.build import CARD, CROISSANT, WITHDRAWN, is_site_file
from tasks.runtime.progress import progress, tell
from tasks.runtime.untrusted import one_line
from tasks.storage.tables import Store

_FILES_AT_ONCE, _PAGES_AT_ONCE = 8, 256
_RUNNERS = "runners/"
"""Files for other runners, in the repository of the benchmark; they name the paths of its shards."""


def _version_exists(repo: str, version: str) -> ReleaseConflict:
    return ReleaseConflict(
        f"{repo} has version {version} already, and a published version never changes; "
        "release another version, or take this one back with `curate yank`"
    )


def require_unchanged(release: Path, approved: Mapping[str, str]) -> None:
    """Raises ReleaseConflict when a file's checksum is not the one that was approved."""
    for name, sha256 in approved.items():
        try:
            is_approved = digest("sha256", release / name) == sha256
        except OSError:
            is_approved = False
        if not is_approved:
            raise ReleaseConflict(f"{name} changed after the release was approved; nothing more is published")


def _addition(path: str, content: FileContent) -> CommitOperationAdd:
    if isinstance(content, Path) and not content.is_file():
        raise ReleaseConflict(f"{path} is gone since the release was approved; nothing more is published")
    return CommitOperationAdd(path, content if isinstance(content, bytes) else str(content))


def _text(release: Path, name: str) -> str:
    try:
        return (release / name).read_text(encoding="utf-8")
    except OSError:
        raise ReleaseConflict(f"{name} is gone since the release was approved; nothing more is published") from None


class Push:
    """The upload of a plan to one repository."""

    def __init__(
        self, api: HfApi, release: Path, plan: UploadPlan, upload: RepoUpload, store: Store | None,
        site: Path | None = None,
    ) -> None:  # fmt: skip
        """`site`: the folder with `explorer/`, when the plan has one."""
        self._plan, self._release, self._sha256, self.repo = plan, release, upload.sha256, upload.repo
        self._remote, self._store = Remote(api, upload.repo), store
        self.files: dict[str, FileContent] = {path: release / source for path, source in upload.files.items()}
        if site is not None:
            self.files |= {path: site / path for path in upload.site}
        self._site, self._site_sha256 = site, upload.site
        if len(plan.uploads) > 1:  # a repository of one configuration has its own card
            config = upload.repo.rpartition("-")[2]
            described = [path for path in (CARD, CROISSANT) if path in upload.files]
            for path in [*described, *(path for path in upload.files if path.startswith(_RUNNERS))]:
                content = _text(release, upload.files[path])
                self.files[path] = of_config(content, path, config).encode()

    def check(self) -> str | None:
        """Check everything that the Hub may refuse, without changing anything. Returns the commit if it is published.

        Raises HubError, BadInput for the wrong visibility, ReleaseConflict when the version exists with other files.
        """
        private, repo = self._remote.private(), self.repo
        if private is False and not self._plan.public:
            raise BadInput(f"{repo} is public; say --public to publish where everybody can read it")
        if private and self._plan.public:
            raise BadInput(
                f"{repo} is private; make it public on the Hub first, which shows its earlier versions too, "
                "or leave --public out"
            )
        require_write(self._remote, private is not None)
        if private is not None:
            require_ours(self._remote)
        tag = self._plan.tag
        commit = self._remote.tags().get(tag) if private is not None and tag else None
        if commit and self._remote.differing(self.files, commit):
            raise _version_exists(repo, self._plan.version)
        return commit

    def run(self) -> str:
        """Upload, and return the commit. Files of the repository that publishing does not write stay.

        Raises ReleaseConflict when a takedown or retention has withdrawn the release, before or during the upload;
        `curate yank` also removes a commit without a tag.
        """
        if self._withdrawn():
            raise ReleaseConflict(f"version {self._plan.version} was withdrawn; nothing more is published")
        self._make_repository()
        commit = self._remote.with_retries(self._commit, "committing to")
        if differing := self._remote.differing(self.files, commit):
            raise HubError(f"{self.repo}: {differing[0]} is not there as it was sent; run the same command again")
        # the Hub has the local files (above), and the local files are the approved ones
        require_unchanged(self._release, self._sha256)
        if self._site is not None:
            require_unchanged(self._site, self._site_sha256)
        self.require_standing()  # after the checksums, which take minutes: what is withdrawn by now gets no tag
        if self._plan.tag:
            tag = self._plan.tag
            if tag not in self._remote.tags():
                self._remote.ask(self._remote.api.create_tag, "tagging", tag=tag, revision=commit, exist_ok=True)
            if self._remote.tags()[tag] != commit and self._remote.differing(self.files, tag):
                raise ReleaseConflict(f"{self.repo}: somebody else made tag {tag} meanwhile, with other files")
        self.require_standing()
        return commit

    def require_standing(self) -> None:
        """Raises ReleaseConflict when the release, which is on the Hub at least in part, was withdrawn meanwhile."""
        if self._withdrawn():
            raise ReleaseConflict(
                f"version {self._plan.version} was withdrawn while it was sent to {self.repo}; take it back with: "
                f"`curate yank {self._plan.revision} --repo {self.repo}`"
            )

    def _withdrawn(self) -> bool:
        place = f"releases/{self._plan.version}/{WITHDRAWN}"
        return self._store is not None and self._store.read_bytes(place) is not None

    def _make_repository(self) -> None:
        remote, branch = self._remote, self._plan.branch
        if remote.private() is None:
            remote.ask(remote.api.create_repo, "making", private=not self._plan.public, exist_ok=True)
        if branch != "main":
            remote.ask(remote.api.create_branch, f"making branch {branch} of", branch=branch, exist_ok=True)

    def _commit(self) -> str:
        """One commit that adds the files and deletes all others that a release wrote; returns its id."""
        api, repo, branch = self._remote.api, self.repo, self._plan.branch
        head = self._remote.head(branch)
        adding = [_addition(path, content) for path, content in self.files.items()]
        with progress("files to the Hub", len(adding)) as advance:
            for batch in _batches(adding):
                api.preupload_lfs_files(repo, batch, repo_type=REPO_KIND, revision=branch, free_memory=False)
                advance(len(batch))
        deletions = [CommitOperationDelete(p) for p in self._remote.tree(branch) if managed(p) and p not in self.files]
        accepted = ", ".join(self._plan.accepted_embedded)
        commit_info = api.create_commit(
            repo, [*adding, *deletions], commit_message=commit_title(self._plan.version),
            commit_description=f"Accepted embedded stand-ins: {accepted}" if accepted else "", repo_type=REPO_KIND,
            revision=branch, parent_commit=head,
        )  # fmt: skip
        return str(commit_info.oid)


def _batches(adding: list[CommitOperationAdd]) -> Iterator[list[CommitOperationAdd]]:
    """The pages of an explorer many at a time, because they are small; other files a few at a time."""
    pages = [addition for addition in adding if is_site_file(addition.path_in_repo)]
    other_files = [addition for addition in adding if not is_site_file(addition.path_in_repo)]
    for files, size in ((other_files, _FILES_AT_ONCE), (pages, _PAGES_AT_ONCE)):
        yield from (files[start : start + size] for start in range(0, len(files), size))


def check_hub(
    api: HfApi, release: Path, plan: UploadPlan, store: Store | None, site: Path | None = None
) -> dict[Push, str | None]:
    """Check every repository of a plan, before anybody is asked for approval and again before anything is sent.

    Changes nothing on the Hub. Returns each push with its commit, or None if it is not published yet. Raises HubError,
    BadInput or ReleaseConflict; the last also when everything is published, and on record where there is a store.
    """
    parts = [Push(api, release, plan, upload, store, site) for upload in plan.uploads]
    pushes = {push: push.check() for push in parts}
    if all(pushes.values()) and not (store and unfinished(store, plan)):
        raise _version_exists(plan.uploads[0].repo, plan.version)
    return pushes


def publish_release(
    api: HfApi, release: Path, plan: UploadPlan, store: Store | None, now: datetime, site: Path | None = None,
    by: str = "",
) -> dict[str, str]:  # fmt: skip
    """Publish to every repository of the plan. Returns repository -> commit; the store, if there is one, records it.

    `site`: the folder with `explorer/`, when the plan has one. `by`: who approved it, for the audit log.

    A takedown, and retention, first mark a release as withdrawn and then read the store's record of publications.
    Publishing first writes the record and then looks for the mark, the last time after the tag. So at least one of the
    two sees the other: what is withdrawn later finds the record, and names the command that takes the version back.

    All repositories are checked before any is changed. After an interruption the same call completes the rest. Raises
    HubError, BadInput or ReleaseConflict.
    """
    for upload in plan.uploads:
        require_unchanged(release, upload.sha256)
        if site is not None:
            require_unchanged(site, upload.site)
    pushes = check_hub(api, release, plan, store, site)
    if store:
        record_publication(store, plan, now, by)
    commits = dict[str, str]()
    for push, published_commit in pushes.items():
        if published_commit:
            push.require_standing()
        commits[push.repo] = published_commit or push.run()
    if store:
        record_commits(store, plan, commits, now)
    return commits


Tree = dict[str, RepoFile]


_MOVING = "moving-"
"""Prefix of the branch that holds a version while its tag is moved to a commit without a past."""


def yank_version(api: HfApi, repo: str, revision: str) -> dict[str, int]:
    """Remove a version with its tag, or a preview with its branch. Returns counts of what was removed.

    Later versions and previews were committed on top of it, and would show its files as their past: they get commits of
    the same files without one. Large files that another version also has stay. What branches of others hold is told on
    stderr; large files that only such a branch and the version have are deleted all the same.

    The tag is deleted last because it tells which files belong to the version, so the same call completes an
    interrupted one. A version that was never tagged is tagged first. Raises BadInput when the repository has no such
    version, HubError when the Hub refuses.
    """
    commit = require_version(api, repo, revision)
    remote = Remote(api, repo)
    _finish_moves(remote)
    tags, previews = remote.tags(), remote.previews()
    if revision not in {*tags, *previews}:
        remote.ask(api.create_tag, "tagging", tag=revision, revision=commit, exist_ok=True)
    theirs = _tree(remote, revision)
    at_head, moved, before = 0, 0, _tree(remote, "main")
    if revision not in previews:  # a preview was never on main, and nothing was committed on top of it
        at_head = remote.with_retries(lambda: _clear_head(remote, theirs, revision), "clearing the head of")
        remote.squash("main")
        moved = _leave_past(remote, commit, revision, {*tags} - {revision}, previews)
    # one tree a version, preview or head that stays: path -> file
    kept_trees = [_tree(remote, other) for other in ["main", *tags, *previews] if other != revision]
    deleted_ids = {*_large([theirs, before])} - {*_large(kept_trees)}
    deleted = remote.with_retries(lambda: _delete_large(remote, deleted_ids), "removing files from")
    _tell_of_branches(remote, theirs, {"main", revision, *previews})
    if revision in previews:
        remote.ask(api.delete_branch, "removing the version of", branch=revision)
    else:
        remote.ask(api.delete_tag, "removing the version of", tag=revision)
    return {
        "files removed from the head": at_head,
        "large files deleted": deleted,
        "versions and previews with a new commit": moved,
    }


def require_version(api: HfApi, repo: str, revision: str) -> str:
    """The commit of a version or preview, with or without a tag.

    Raises BadInput when the repository does not have it, HubError when the token may not write to the repository.
    """
    check_name(repo, longest="")
    remote = Remote(api, repo)
    branches = remote.branches()
    # tag whose move was interrupted -> the commit it is to have
    moving = {name.removeprefix(_MOVING): commit for name, commit in branches.items() if name.startswith(_MOVING)}
    previews = {name: commit for name, commit in branches.items() if name.startswith(PREVIEW)}
    commits = {**moving, **remote.tags(), **previews}
    commit = commits.get(revision) or remote.commit_of(revision)
    if commit is None:
        raise BadInput(f"{repo} has no version {revision!r}; it has {', '.join(sorted(commits)) or 'none'}")
    require_write(remote, exists=True)
    return commit


def _leave_past(remote: Remote, commit: str, version: str, tags: Iterable[str], previews: Iterable[str]) -> int:
    """Give tags and previews with a commit of a version in their past commits without one; returns how many."""

    def is_on_top(revision: str) -> bool:
        _, *past = remote.past(revision).items()
        return any(earlier == commit or title == commit_title(version) for earlier, title in past)

    moved = 0
    for preview in previews:
        if is_on_top(preview):
            remote.squash(preview)
            moved += 1
    for tag in sorted(tags):
        if is_on_top(tag):
            branch = f"{_MOVING}{tag}"  # only the head of a branch can be squashed
            remote.ask(remote.api.create_branch, "making a branch of", branch=branch, revision=tag, exist_ok=True)
            remote.squash(branch)
            remote.ask(remote.api.delete_tag, "moving a tag of", tag=tag)
            _finish_moves(remote)
            moved += 1
    return moved


def _finish_moves(remote: Remote) -> None:
    """Make the tags anew that a move deleted, each where its branch is, and delete these branches."""
    tags = remote.tags()
    for branch in [name for name in remote.branches() if name.startswith(_MOVING)]:
        if branch.removeprefix(_MOVING) not in tags:
            tag = branch.removeprefix(_MOVING)
            remote.ask(remote.api.create_tag, "moving a tag of", tag=tag, revision=branch, exist_ok=True)
        remote.ask(remote.api.delete_branch, "moving a tag of", branch=branch)


def _tell_of_branches(remote: Remote, theirs: Tree, known: Collection[str]) -> None:
    """Name branches of others that have files of the version: nobody but their makers knows what they are for."""
    # ids of the contents that the version has, whatever their paths are elsewhere
    version_ids = {file.blob_id for path, file in theirs.items() if managed(path)}
    for branch in sorted({*remote.branches()} - {*known}):
        if any(file.blob_id in version_ids for file in _tree(remote, branch).values()):
            tell(f"branch {one_line(branch, 80)} of {remote.repo} still has files of it; delete that branch on the Hub")


def _tree(remote: Remote, revision: str) -> Tree:
    return remote.with_retries(lambda: remote.tree(revision), "reading")


def _large(trees: Iterable[Tree]) -> Iterator[str]:
    return (file.lfs.sha256 for tree in trees for file in tree.values() if file.lfs is not None)


def _clear_head(remote: Remote, theirs: Tree, version: str) -> int:
    """If main shows the version, delete its files and write a notice as card. Returns the number of deleted files.

    Main shows what its manifest names, whoever saved it since; where none can be read, the version of which it has a
    file. All that publishing writes belongs to it then, also what was changed by hand.
    """
    head, tree = remote.head("main"), remote.tree("main")
    # the paths of the head that a release, and no person, wrote
    head_paths = [path for path in tree if managed(path)]
    on_main = shown_version(remote, tree)
    has_files = any(path in theirs and theirs[path].blob_id == tree[path].blob_id for path in head_paths)
    if on_main != version and not (on_main is None and has_files):
        return 0
    deletions = [CommitOperationDelete(path) for path in head_paths if path != CARD]
    note = CommitOperationAdd(CARD, WITHDRAWN_CARD)
    remote.api.create_commit(
        remote.repo, [*deletions, note], commit_message="Withdrawn", repo_type=REPO_KIND, parent_commit=head
    )
    return len(deletions)


def _delete_large(remote: Remote, gone: set[str]) -> int:
    stored_files = remote.api.list_lfs_files(remote.repo, repo_type=REPO_KIND)
    large_files = [file for file in stored_files if gone & {file.oid, file.file_oid}]
    remote.api.permanently_delete_lfs_files(remote.repo, large_files, repo_type=REPO_KIND)
    return len(large_files)
