"""Reads files of items: CSV, JSON Lines or Parquet, in our columns or VisIT-Bench's; and the families.

A file that is no such table is an error; a row that cannot be used keeps a `problem`, for ingest to reject and count.
"""

import csv
import io
import json
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from hashlib import blake2b
from itertools import count
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import Field

from schemas.benches.written import Fault
from schemas.errors import BadInput, known_values, why_unreadable
from schemas.row import Row
from tasks.runtime.untrusted import csv_delimiter, one_line, read_row
from tasks.storage.content_id import combined_id

SHIPPED_FAMILIES = Path(__file__).with_name("families.yaml")


class Family(Row):
    """One instruction family with an example, as a writer is shown it."""

    name: str = Field(min_length=1, max_length=80)
    """Name of the family."""
    origin: Literal["new", "reformatted"]
    """Whether its instructions are written for the benchmark, or made from an existing data set."""
    images: Literal["one", "several"]
    """Whether an instruction is about one image or several."""
    instruction: str
    """Instruction of the example."""
    shows: list[str]
    """Content of each image of the example."""
    response: str
    """A good answer to the example."""


class Families(Row):
    """The content of a families file."""

    version: str
    """Name and version of the list."""
    families: list[Family]
    """Every family."""

    def named(self, name: str) -> Family | None:
        """The family of this name, however its capitals and signs are written; None when there is none."""
        key = family_key(name)
        return next((family for family in self.families if key and family_key(family.name) == key), None)


def family_key(name: str) -> str:
    """A name without capitals and signs: `Who to call?` and `who_to_call` are one family. One of signs alone is itself.

    Letters of every script count, with their accents and vowel signs.
    """
    characters = unicodedata.normalize("NFKC", name).casefold()
    words = "".join(sign if unicodedata.category(sign)[0] in "LMN" else " " for sign in characters).split()
    return "_".join(words) or characters.strip()


@cache
def load_families(file: Path = SHIPPED_FAMILIES) -> Families:
    """The families of a file. Raises BadInput when it cannot be used, or names a family twice."""
    families = read_row(file, Families, "families", "see docs/benchmarks.md for its keys")
    seen = set[str]()
    for family in families.families:
        if family_key(family.name) in seen:
            raise BadInput(
                f"families {str(file)!r} has the family {one_line(family.name, 60)!r} twice; keep one of the two"
            )
        seen.add(family_key(family.name))
    return families


_NAMES = {
    "key": ("id", "row"),
    "family": ("family", "instruction_category"),
    "instruction": ("instruction",),
    "images": ("images", "image"),
    "captions": ("captions", "caption", "images_dense_captions", "image_dense_captions"),
    "generic": ("generic_captions", "images_blip2_captions", "image_blip2_captions"),
    "reference": ("reference",),
    "licences": ("licences", "licence", "licenses", "license"),
    "authors": ("authors", "author"),
    "origin": ("origin", "source"),
}
"""Field of an item -> its columns, ours first; of a row, the first one that holds something counts.

`gpt4_prediction` and the flags are VisIT-Bench's.
"""
_NEEDED = ("family", "instruction", "images")
_DRAFT, _METADATA = "gpt4_prediction", "public_images_metadata"
_FLAGS = ("human_ratings_gpt4_correct", "human_ratings_problem_in_caption", "human_ratings_problem_in_gpt4")
_TRUTHS = {"true": True, "1": True, "1.0": True, "false": False, "0": False, "0.0": False}
FILE_SUFFIXES = (".csv", ".jsonl", ".parquet")
DRAFTED_BY = "gpt-4"
"""Model that wrote the references of VisIT-Bench's sheets."""


@dataclass
class PublishedFinding:
    """Finding of people about an item, as its file says."""

    correct: bool
    fault: Fault | None


@dataclass
class FileItem:
    """One row of a file of items."""

    key: str
    """Key that tells it apart: its id in the file, else its family, instruction and images."""
    family: str
    instruction: str
    images: list[str]
    """File names; of an image that the file holds without a name, the hash of its content."""
    captions: list[str]
    """One for each image, empty where it has none yet; no element without any."""
    generic: list[str]
    """The same, of captions that were not written for the instruction."""
    reference: str
    """Empty without one."""
    drafted: bool
    """Whether a model wrote the reference."""
    licences: list[str]
    authors: list[str]
    origin: str
    found: PublishedFinding | None
    problem: str = ""
    """Why it cannot be used, in fixed words; empty when it can."""
    content: list[bytes | None] = field(default_factory=list)
    """Encoded images that the file itself holds."""
    pictures: list[str] = field(default_factory=list)
    """Hash of the content of each image, once it was read; of its name when there is none."""


def read_items(path: Path, families: Families) -> list[FileItem]:
    """The items of a file. Raises BadInput when it is no table of items, or holds none."""
    rows = list(_rows(path))
    if not rows:
        raise BadInput(f"items {path.name!r} holds no row; give at least one item")
    columns = list(dict.fromkeys(name for row in rows for name in row))  # lines of JSON may leave some out
    if lacking := [name for name in _NEEDED if not {*_NAMES[name]} & {*columns}]:
        raise BadInput(
            f"items {path.name!r} lacks {', '.join(lacking)}; its columns are {', '.join(map(str, columns))[:200]}"
        )
    items = [_item(row, families) for row in rows]
    # Every item gets a key of its own; a second row with the id of another one is a problem. Rows that cannot be used
    # come last: they take no id from one that can. An id and its number never make the id of a third row.
    ids = {item.key for item in items if item.key}
    repeats = Counter[str]()
    for item in sorted(items, key=lambda item: bool(item.problem)):
        written_id = item.key
        key = written_id or json.dumps([item.family, item.instruction, item.images])
        repeats[key] += 1
        if repeats[key] == 1:
            item.key = key
            continue
        names = (f"{key} {number}" for number in count(repeats[key]))
        item.key = next(name for name in names if name not in ids)
        repeats[key] = int(item.key.rpartition(" ")[2])
        if written_id:
            item.problem = item.problem or "an id that an earlier item has"
    return items


def _rows(path: Path) -> Iterator[Mapping[str, Any]]:
    if path.suffix not in FILE_SUFFIXES:
        raise BadInput(f"items {path.name!r}: {known_values(path.suffix or 'no suffix', FILE_SUFFIXES)}")
    try:
        if path.suffix == ".parquet":
            yield from pq.read_table(path).to_pylist()
        elif path.suffix == ".csv":
            text = io.StringIO(path.read_text(encoding="utf-8-sig"), newline="")
            yield from csv.DictReader(text, delimiter=csv_delimiter(path))
        else:
            for line in filter(str.strip, path.read_text(encoding="utf-8").split("\n")):
                if (row := _object(line)) is None:
                    raise BadInput(f"items {path.name!r} has a line that is no JSON object; JSON Lines hold one a line")
                yield row
    except (OSError, UnicodeDecodeError, csv.Error, pa.ArrowException) as error:
        raise BadInput(f"items {path.name!r} cannot be read ({why_unreadable(error)})") from None


def _object(text: str) -> Mapping[str, Any] | None:
    """A JSON object; None for anything else."""
    try:
        json_value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return json_value if isinstance(json_value, dict) else None


def id_of_key(bench: str, key: str) -> str:
    """Id of the item that a file of items names by this key."""
    return combined_id("item", [bench, key])


def name_hashes(images: Iterable[Any]) -> list[str]:
    """Hash of the name of each image file, without the folder or address that it is in."""
    return [combined_id("image name", [_file_name(_image_name(image))]) for image in images]


def _file_name(name: str) -> str:
    """The last part of a path or address; only an address may have something behind `?` or `#`."""
    path = re.split(r"[?#]", name)[0] if "://" in name else name
    return re.split(r"[/\\]", path)[-1]


def _image_name(image: Any) -> str:
    """Name of an image as its cell gives it; without one, the hash of the content in the file. Empty without either."""
    name = image.get("path") if isinstance(image, dict) else image
    content = _content(image)
    return str(name) if _text(name) else blake2b(content, digest_size=16).hexdigest() if content else ""


def _content(image: Any) -> bytes | None:
    """The encoded image that a file holds; None where it only names one."""
    content = image.get("bytes") if isinstance(image, dict) else None
    return content if isinstance(content, bytes) else None


def named_in_row(row: Mapping[str, Any]) -> tuple[str, list[str]]:
    """The key of a row in a file of items, empty without one, and the hashes of the names of its images."""
    return _text(_cell(row, "key")), name_hashes(_listed(_cell(row, "images")))


def _cell(row: Mapping[str, Any], ours: str) -> Any:
    """Value of a field of an item in a row: of the first of its columns that holds something; None without one."""
    return next((row[name] for name in _NAMES[ours] if any(map(_holds, _listed(row.get(name))))), None)


def _holds(value: Any) -> bool:
    """Whether a value is more than null, NaN or blanks. An image's content is not read for that: it may be large."""
    return any(part is not None for part in value.values()) if isinstance(value, dict) else bool(_text(value))


def _item(row: Mapping[str, Any], families: Families) -> FileItem:
    cells = {ours: _cell(row, ours) for ours in _NAMES}
    images = _listed(cells["images"])
    names = [_image_name(image) for image in images]
    content = [_content(image) for image in images]
    captions = _captions(cells["captions"], len(names))
    family, metadata = families.named(_text(cells["family"])), _object(_text(row.get(_METADATA))) or {}
    reference, draft = _text(cells["reference"]), _text(row.get(_DRAFT))
    item = FileItem(
        key=_text(cells["key"]), family=family.name if family else "", instruction=_text(cells["instruction"]),
        images=names, captions=captions, generic=_captions(cells["generic"], len(names)),
        reference=reference or draft, drafted=not reference and bool(draft),
        licences=_padded(_listed(cells["licences"]) or _said(metadata, "License"), len(names)),
        authors=_padded(_listed(cells["authors"]) or _said(metadata, "Author"), len(names)),
        origin=_text(cells["origin"]) or "".join(_said(metadata, "source")), found=_found(row), content=content,
    )  # fmt: skip
    item.problem = _problem(item)
    return item


def _problem(item: FileItem) -> str:
    if not item.family:
        return "its family is not in the families file"
    if not item.instruction:
        return "no instruction"
    if not item.images or not all(item.images):
        return "no image"
    if any(captions and len(captions) != len(item.images) for captions in (item.captions, item.generic)):
        return "captions unlike images in number"
    return ""


def _text(value: Any) -> str:
    """A cell as text, halves of characters replaced; empty for null and for NaN."""
    text = "" if value is None or value != value else str(value).strip()
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _listed(value: Any) -> list[Any]:
    """The elements of a list, of a JSON list in a text, or the one value."""
    if isinstance(value, str) and value.lstrip().startswith("["):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return [value]
    return list(value) if isinstance(value, list) else [value] if _holds(value) else []


def _captions(value: Any, images: int) -> list[str]:
    """Captions in order, empty where one is missing; surplus empty ones, with which published lists are padded, go."""
    captions = [_text(caption) for caption in _listed(value)]
    while len(captions) > images and not captions[-1]:
        captions.pop()
    return captions if any(captions) else []


def _said(metadata: Mapping[str, Any], name: str) -> list[str]:
    return [_text(metadata[name])] if _text(metadata.get(name)) else []


def _padded(values: Sequence[Any], images: int) -> list[str]:
    """One text for each image; a single one holds for all."""
    texts = [_text(value) for value in values]
    texts = texts * images if len(texts) == 1 else texts
    return [*texts[:images], *[""] * (images - len(texts))]


def _found(row: Mapping[str, Any]) -> PublishedFinding | None:
    """The three published flags; None where the row does not say whether the answer is correct."""
    correct, caption, reference = (_TRUTHS.get(_text(row.get(name)).lower()) for name in _FLAGS)
    if correct is None:
        return None
    fault = Fault.CAPTION if caption else Fault.REFERENCE if reference else None
    return PublishedFinding(correct, None if correct else fault)
