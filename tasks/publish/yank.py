"""Takes a published version back: its files at the head, its large files in the history, and its tag or branch."""

from collections.abc import Iterable, Iterator

from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi
from huggingface_hub.hf_api import RepoFile

from schemas.errors import BadInput
from tasks.publish.hub import KIND, WITHDRAWN_CARD, Remote, require_write
from tasks.publish.plan import check_name, managed
from tasks.release.build import CARD, MANIFEST

Tree = dict[str, RepoFile]


def yank_version(api: HfApi, repo: str, revision: str) -> dict[str, int]:
    """Remove a version with its tag, or a preview with its branch. Returns counts of what was removed.

    The tag is deleted last because it tells which files belong to the version, so the same call completes an
    interrupted one. A version that was never tagged is tagged first. Files that another version also has stay. Raises
    BadInput when the repository has no such version, HubError when the Hub refuses.
    """
    commit = require_version(api, repo, revision)
    remote = Remote(api, repo)
    tags, previews = remote.tags(), remote.previews()
    if revision not in {*tags, *previews}:
        remote.ask(api.create_tag, "tagging", tag=revision, revision=commit, exist_ok=True)
    theirs = _tree(remote, revision)
    at_head = 0
    if revision not in previews:  # a preview was never on main
        at_head = remote.with_retries(lambda: _clear_head(remote, theirs), "clearing the head of")
        remote.ask(api.super_squash_history, "squashing the history of")
    others = [_tree(remote, other) for other in ["main", *tags, *previews] if other != revision]
    gone = set(_large([theirs])) - set(_large(others))
    deleted = remote.with_retries(lambda: _delete_large(remote, gone), "removing files from")
    if revision in previews:
        remote.ask(api.delete_branch, "removing the version of", branch=revision)
    else:
        remote.ask(api.delete_tag, "removing the version of", tag=revision)
    return {"files removed from the head": at_head, "large files deleted": deleted}


def require_version(api: HfApi, repo: str, revision: str) -> str:
    """The commit of a version or preview, with or without a tag.

    Raises BadInput when the repository does not have it, HubError when the token may not write to the repository.
    """
    check_name(repo, longest="")
    remote = Remote(api, repo)
    there = {**remote.tags(), **remote.previews()}
    commit = there.get(revision) or remote.commit_of(revision)
    if commit is None:
        raise BadInput(f"{repo} has no version {revision!r}; it has {', '.join(sorted(there)) or 'none'}")
    require_write(remote, exists=True)
    return commit


def _tree(remote: Remote, revision: str) -> Tree:
    return remote.with_retries(lambda: remote.tree(revision), "reading")


def _large(trees: Iterable[Tree]) -> Iterator[str]:
    return (file.lfs.sha256 for tree in trees for file in tree.values() if file.lfs is not None)


def _clear_head(remote: Remote, theirs: Tree) -> int:
    """If main shows the version, delete its files and write a notice as card. Returns the number of deleted files."""
    head, tree = remote.head("main"), remote.tree("main")
    shown = [path for path in theirs if managed(path) and path in tree and tree[path].blob_id == theirs[path].blob_id]
    if MANIFEST not in shown:
        return 0
    gone = [CommitOperationDelete(path) for path in shown if path != CARD]
    note = CommitOperationAdd(CARD, WITHDRAWN_CARD)
    remote.api.create_commit(remote.repo, [*gone, note], commit_message="Withdrawn", repo_type=KIND, parent_commit=head)
    return len(gone)


def _delete_large(remote: Remote, gone: set[str]) -> int:
    there = remote.api.list_lfs_files(remote.repo, repo_type=KIND)
    found = [file for file in there if gone & {file.oid, file.file_oid}]
    remote.api.permanently_delete_lfs_files(remote.repo, found, repo_type=KIND)
    return len(found)
