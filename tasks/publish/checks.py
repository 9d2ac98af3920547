"""Checks before publishing: whether the token may write, and what the repository already contains."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from huggingface_hub.hf_api import RepoFile

from schemas.errors import BadInput, HubError
from tasks.publish.hub import TOKEN_VARIABLE, Remote
from tasks.release.build import CARD, MANIFEST

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
        raise HubError(f"{TOKEN_VARIABLE} may not make {repo}: {why}")


def _refusals(account: Mapping[str, Any], namespace: str) -> Iterator[str]:
    """Reasons why the token may not create a repository. Unknown kinds of tokens pass, and the Hub decides."""
    token = (account.get("auth") or {}).get("accessToken") or {}
    role, scoped = token.get("role"), (token.get("fineGrained") or {}).get("scoped")
    if role == "read":
        yield "it is a read token; make one with write access at huggingface.co/settings/tokens"
    elif role == "write":
        yield from _no_member(account, namespace)
    elif role == "fineGrained" and scoped is not None and not any(_lets_write(each, namespace) for each in scoped):
        yield (
            f"it has no write access to all repositories of {namespace}; tick that at huggingface.co/settings/tokens, "
            "or make the repository there and give the token write access to it"
        )


def _no_member(account: Mapping[str, Any], namespace: str) -> Iterator[str]:
    roles = {str(org.get("name")).lower(): org.get("roleInOrg") for org in account.get("orgs") or []}
    own = str(account.get("name")).lower()
    if namespace.lower() not in {own, *roles}:
        yield f"its account is no member of {namespace}; give another --repo, or the token of a member"
    elif namespace.lower() != own and roles[namespace.lower()] in _READERS:
        yield f"its account may only read in {namespace}; ask an administrator there for the role contributor or write"


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
    card = _read(remote, there, CARD)
    if _holds_release(remote, there) or card == WITHDRAWN_CARD:
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


def _holds_release(remote: Remote, there: Mapping[str, RepoFile]) -> bool:
    try:
        manifest = json.loads(_read(remote, there, MANIFEST))
    except (ValueError, RecursionError):
        return False
    return isinstance(manifest, dict) and manifest.keys() >= _OF_A_RELEASE


def _read(remote: Remote, there: Mapping[str, RepoFile], path: str) -> bytes:
    """Content of a file; b"" when it is missing or larger than a manifest or card can be."""
    return remote.read(path, "main") if path in there and there[path].size <= _READ_BYTES_MAX else b""
