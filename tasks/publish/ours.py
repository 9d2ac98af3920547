"""Whether a repository is one for releases: it holds one, held one, or holds nothing yet."""

import json
import re
from collections.abc import Mapping

from huggingface_hub.hf_api import RepoFile

from schemas.errors import BadInput
from tasks.publish.remote import Remote
from tasks.release.build import MANIFEST
from tasks.release.layout import CARD

WITHDRAWN_CARD = b"# Withdrawn\n\nThis version was withdrawn by its publisher.\n"
"""The card that `curate yank` leaves."""
_HOUSEKEEPING = re.compile(r"\.gitattributes|\.gitignore|LICEN[CS]E(\.\w+)?")
_READ_BYTES_MAX = 64 * 1024 * 1024
_OF_A_RELEASE = {"version", "software", "policy_hash", "files"}
"""Names that the manifest of every version of this software has, and a `manifest.json` of others has not."""


def require_ours(remote: Remote) -> None:
    """Raises BadInput for a repository with somebody's dataset or card, which a release would replace."""
    there = remote.patiently(lambda: remote.tree("main"), "looking at")
    if _holds_release(remote, there) or _card(remote, there) == WITHDRAWN_CARD:
        return
    others = sorted(path for path in there if path != CARD and not _HOUSEKEEPING.fullmatch(path))
    if others:
        raise BadInput(
            f"{remote.repo} holds another dataset already ({others[0]!r} and no {MANIFEST} of a release); "
            "give another --repo"
        )
    if _has_text(_card(remote, there)):
        raise BadInput(
            f"{remote.repo} has a {CARD} that somebody wrote and no release; delete it there, or give another --repo"
        )


def _holds_release(remote: Remote, there: Mapping[str, RepoFile]) -> bool:
    try:
        manifest = json.loads(_read(remote, there, MANIFEST))
    except (ValueError, RecursionError):
        return False
    return isinstance(manifest, dict) and manifest.keys() >= _OF_A_RELEASE


def _card(remote: Remote, there: Mapping[str, RepoFile]) -> bytes:
    return _read(remote, there, CARD)


def _read(remote: Remote, there: Mapping[str, RepoFile], path: str) -> bytes:
    """Nothing of a file that is not there, or is too large to be what it is called."""
    return remote.read(path, "main") if path in there and there[path].size <= _READ_BYTES_MAX else b""


def _has_text(card: bytes) -> bool:
    """Whether there is more than front matter, which is all that the Hub itself writes."""
    return bool(re.sub(rb"\A---\r?\n.*?(\r?\n)?---[ \t]*(\r?\n|\Z)", b"", card, flags=re.DOTALL).strip())
