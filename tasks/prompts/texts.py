"""Texts of prompts: ours, in the files beside this one, or those of a folder that takes their place file by file.

The folder is chosen for the whole process, as its budget is: every thread asks in the same words.
"""

import hashlib
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pydantic import Field

from schemas.errors import BadInput, known_values, why_unreadable
from schemas.row import Row
from tasks.runtime.yaml_files import read_row

TAXONOMY = "taxonomy.yaml"
_OURS = Path(__file__).parent
_PLACE = re.compile(r"\{(\w+)\}")
"""The place of a text that is filled in."""
_FIELDS = re.compile(r"\{\w+\}|\[\[[^\[\]\n]+\]\]|(?<=^\* )`\w+`(?=:)", re.MULTILINE)
"""Places, verdicts that are read (`[[A>B]]`), and labels that are answered, at the start of a line with a star."""
_replaced: dict[str, str] = {}


class TaxonomyFile(Row):
    """The whole file; a value is `Category` or `Category / Subcategory`."""

    version: str
    """Version of the file."""
    question: dict[str, str] = Field(min_length=1)
    """Question category or subcategory -> meaning."""
    image: dict[str, str] = Field(min_length=1)
    """Image domain or subdomain -> meaning."""


@contextmanager
def replaced_prompts(folder: str | None) -> Iterator[None]:
    """Texts of this folder take the place of ours inside; without a folder, ours hold.

    Raises BadInput for a file that names no prompt of ours, is empty, or lacks a field of ours.
    """
    global _replaced
    before, _replaced = _replaced, _texts_of(Path(folder)) if folder else {}
    try:
        yield
    finally:
        _replaced = before


def replaced_hashes() -> dict[str, str]:
    """Name of each prompt that is replaced -> the first 8 hex digits of its text's SHA-256."""
    return {name: short_hash(text) for name, text in sorted(_replaced.items())}


def short_hash(text: str) -> str:
    """The first 8 hex digits of a text's SHA-256."""
    return hashlib.sha256(text.encode("utf-8")).hexdigest()[:8]


def text_of_prompt(name: str) -> str:
    """The text that holds for a prompt such as `tags/ocr`, or for `taxonomy.yaml`."""
    return _replaced.get(name) or shipped_text(name)


def shipped_text(name: str) -> str:
    """Our text of a prompt."""
    return _read(_OURS / (name if name == TAXONOMY else f"{name}.md"))


def filled(template: str, texts: Mapping[str, str]) -> str:
    """The template with a text at each place such as `{captions}`."""
    return _PLACE.sub(lambda place: texts[place[1]], template)


def _texts_of(folder: Path) -> dict[str, str]:
    """Name -> text of every file of a folder, but those whose path has a part that begins with a dot."""
    if not folder.is_dir():
        raise BadInput(f"--prompts {str(folder)!r} is no folder; give one with files named as in docs/models.md")
    paths = {path: path.relative_to(folder) for path in sorted(folder.rglob("*")) if path.is_file()}
    shown = {path: name for path, name in paths.items() if not any(part.startswith(".") for part in name.parts)}
    if not shown:
        raise BadInput(f"--prompts {str(folder)!r} holds no file; give one with files named as in docs/models.md")
    return dict(_checked(path, name.as_posix().removesuffix(".md")) for path, name in shown.items())


def _checked(path: Path, name: str) -> tuple[str, str]:
    names = {ours.relative_to(_OURS).as_posix().removesuffix(".md") for ours in _OURS.rglob("*.md")} | {TAXONOMY}
    if name not in names or path.suffix not in (".md", ".yaml"):
        raise BadInput(f"--prompts: no prompt is named {known_values(name, names)}")
    try:
        text = _read(path)
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"--prompts: {name!r} cannot be read ({why_unreadable(error)}); give UTF-8 text") from None
    if not text.strip():
        raise BadInput(f"--prompts: {name!r} is empty; write the prompt, or leave the file out to keep ours")
    if name == TAXONOMY:
        read_row(path, TaxonomyFile, "--prompts")
        return name, text
    ours, theirs = shipped_text(name), _close(text)
    if lacking := [field for field in _FIELDS.findall(ours) if _close(field) not in theirs]:
        raise BadInput(f"--prompts: {name!r} lacks {lacking[0]}, which ours has; write it where it belongs")
    places = set(_PLACE.findall(ours))
    if places and (unknown := set(_PLACE.findall(text)) - places):
        raise BadInput(f"--prompts: {name!r} has a place that nothing fills: {known_values(min(unknown), places)}")
    return name, text


def _close(text: str) -> str:
    """The text without blanks and with plain arrows, as verdicts are read."""
    return "".join(text.replace("»", ">>").split())


def _read(path: Path) -> str:
    return path.read_bytes().decode("utf-8")
