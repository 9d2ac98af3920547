"""Finds network addresses, e-mail addresses and machine paths in the parts of a release that are not messages."""

import base64
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import polars as pl

from schemas.release import Manifest
from tasks.providers.embedded.normalise import normalised
from tasks.providers.embedded.pii.patterns import PATTERNS, any_address
from tasks.release.build import MANIFEST
from tasks.runtime.untrusted import markdown_text

_ADDRESSES = {pattern.type: pattern for pattern in reversed(PATTERNS) if pattern.type in ("ip", "email")}
"""The first pattern of each type; the others find spelt-out forms, which programs do not write."""
_ADDRESSES["ip"] = _ADDRESSES["ip"]._replace(confidence=any_address)  # a server's users may have private addresses
_ROOTS = "home|root|Users|Volumes|mnt|media|tmp|var|srv|opt|usr|etc|data|workspace|scratch|nfs|private"
_PATH = re.compile(
    rf"(?<![\w./~-])/(?:{_ROOTS})/[\w.-]"
    r"|\b(?:file|s3|gs|az|abfss?|hdfs)://[\w.-]|\b[A-Za-z]:\\\w|\\\\\w+\\\w|(?<!\S)~/[\w.-]"
)
"""Absolute paths of a server or disk; web addresses and `org/model` do not match."""
_HINT = rf"/(?:{_ROOTS})/|://|\\|~/|@|\d\.\d{{1,3}}\.\d{{1,3}}\.\d|:[0-9A-Fa-f]{{0,4}}:"
"""Matches every text that may contain an identifier; a linear-time filter before the exact patterns."""
_VEILED = r"%[0-9A-Fa-f]{2}|&#?\w+;|[^\x00-\x7f]|[\[({] ?(?:\.|(?i:dot)) ?[\])}]|[A-Z][0-9A-Za-z+/]{7}"
"""Matches texts that may be encoded: URL encoding, HTML entities, non-ASCII characters, dots in brackets, base64."""
_BASE64 = re.compile(r"[0-9A-Za-z+/]{12,}")
_TEXTS = {".md", ".csv", ".html", ".svg"}


def identifiers(text: str) -> set[str]:
    """Kinds of identifiers (ip, email, path) in a text, also in encoded form."""
    return {kind for each in {text, normalised(text).text, *_decoded(text)} for kind in _plain_identifiers(each)}


def _decoded(text: str) -> Iterator[str]:
    """Decoded base64 substrings that are printable ASCII."""
    for found in _BASE64.findall(text):
        with suppress(ValueError):
            if (decoded := base64.b64decode(found + "=" * (-len(found) % 4)).decode("ascii")).isprintable():
                yield decoded


def _plain_identifiers(text: str) -> set[str]:
    found = {"path"} if _PATH.search(text) else set()
    for kind, pattern in _ADDRESSES.items():
        matches = pattern.form.finditer(text) if kind != "email" or "@" in text else ()
        if any(pattern.confidence(match) is not None for match in matches):
            found.add(kind)
    return found


def identifiers_in(texts: pl.Series) -> dict[str, set[str]]:
    """Text -> `identifiers`, for the texts that have any."""
    hinted = texts.filter(texts.str.contains(f"{_HINT}|{_VEILED}")).unique(maintain_order=True)
    return {text: found for text in hinted if (found := identifiers(text))}


def identifiers_in_files(folder: Path, manifest: Manifest) -> Iterator[str]:
    """Problems of card, manifest, leaderboards and report with identifiers, except the policy's contact address."""
    contact = markdown_text(str(manifest.policy.get("contact") or ""))
    if found := identifiers(manifest.model_dump_json(exclude={"policy"})):
        yield f"{MANIFEST}: holds an identifier: {', '.join(sorted(found))}"
    for name in sorted(name for name in manifest.files if Path(name).suffix in _TEXTS):
        try:
            text = (folder / name).read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            yield f"{name}: not UTF-8 text, at byte {error.start}"
            continue
        if contact:
            text = text.replace(contact, "")
        if found := set().union(*identifiers_in(pl.Series(text.splitlines(), dtype=pl.String)).values()):
            yield f"{name}: holds an identifier: {', '.join(sorted(found))}"
