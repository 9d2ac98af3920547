"""The explorer that may be published beside a release, in `explorer/`: what its files are, and whether they are whole.

A release is sealed before its pages are made, so the manifest does not list them. They have a list of their own, which
names the manifest that they were made from.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from pydantic import ValidationError

from schemas.release import ReleasedFile, SiteFiles

SITE = "explorer"
LIST = f"{SITE}/files.json"
_FILE = re.compile(rf"{SITE}/(?:(?:data|images|items|static|thumbs)/)?[\w-][\w.-]*")


def is_site_file(path: str) -> bool:
    """Whether a published explorer may have a file of this name."""
    return bool(_FILE.fullmatch(path))


def write_list(root: Path, manifest_sha256: str) -> dict[str, ReleasedFile]:
    """List the files of `root`/explorer in `explorer/files.json`. Returns them all, the list too, by relative path."""
    found = {path.relative_to(root).as_posix(): path for path in sorted((root / SITE).rglob("*")) if path.is_file()}
    files = {name: _described(path) for name, path in found.items()}
    rows = SiteFiles(manifest_sha256=manifest_sha256, files=files).model_dump()
    (root / LIST).write_text(json.dumps(rows, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    return files | {LIST: _described(root / LIST)}


def wrong_site(folder: Path, present: Mapping[str, ReleasedFile], manifest_sha256: str) -> Iterator[str]:
    """Problems of the explorer beside a release; none without one. `present`: the files below the release's folder."""
    there = {name: file for name, file in present.items() if name.startswith(f"{SITE}/")}
    if not there:
        return
    try:
        listed = SiteFiles.model_validate_json((folder / LIST).read_bytes())
    except (OSError, ValidationError) as error:
        yield f"{LIST}: cannot be read ({type(error).__name__}), so nothing in {SITE}/ is known"
        return
    if listed.manifest_sha256 != manifest_sha256:
        yield f"{LIST}: the explorer of another release"
    for name in sorted((there.keys() | listed.files.keys()) - {LIST}):
        if name not in there:
            yield f"{name}: missing"
        elif name not in listed.files:
            yield f"{name}: not in {LIST}"
        elif there[name] != listed.files[name]:
            yield f"{name}: changed since it was made"
        elif not is_site_file(name):
            yield f"{name}: no explorer has such a file"


def _described(path: Path) -> ReleasedFile:
    with path.open("rb") as stream:
        return ReleasedFile(bytes=path.stat().st_size, sha256=hashlib.file_digest(stream, "sha256").hexdigest())
