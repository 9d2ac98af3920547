"""Whether the token may write to a repository, asked before anybody is asked to approve."""

import time
from collections.abc import Iterator, Mapping
from typing import Any

from huggingface_hub import HfApi

from schemas.errors import HubError
from tasks.publish.hub import TOKEN_VARIABLE
from tasks.publish.remote import KIND, Remote, Wait

_READERS = ("read", "no_access")
"""Roles in an organisation that make no repository there."""


def require_write(api: HfApi, repo: str, exists: bool, wait: Wait = time.sleep) -> None:
    """Raises HubError when the token may not write to the repository or, where there is none, not make it."""
    remote = Remote(api, repo, wait)
    if exists:
        remote.patiently(lambda: api.auth_check(repo, repo_type=KIND, write=True), "asking for write access to")
        return
    account = remote.patiently(lambda: api.whoami(cache=True), "asking whose token may make")
    for why in _refusals(account, repo.partition("/")[0]):
        raise HubError(f"{TOKEN_VARIABLE} may not make {repo}: {why}")


def _refusals(account: Mapping[str, Any], namespace: str) -> Iterator[str]:
    """What the Hub says of the token that forbids it. Kinds of tokens that are not known here pass: the Hub decides."""
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
