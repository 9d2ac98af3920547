"""Reads files given on the command line: images and texts to inspect, prompts to tag, label files."""

import csv
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import orjson

from schemas.errors import BadInput, known_values
from schemas.tables import SIGNALS
from tasks.images.decode import DecodedImage, ImageRejected, open_image
from tasks.images.measures import image_layout
from tasks.providers import Providers
from tasks.providers.capabilities import Document, Failed
from tasks.runtime.json_rows import BYTE_ORDER_MARK, loads
from tasks.runtime.untrusted import csv_delimiter, one_line
from tasks.signals.registry import Item, Signal, image_signals, image_text, text_signals
from tasks.signals.tag_evaluation import TagValue
from tasks.storage.queries.conversation_features import ALL_TAGS

Inspected = dict[str, Any]
_ID, _NESTED = "id", "labels"
_LINES = (".jsonl", ".ndjson")
_CELL_MAX = 16 * 1024 * 1024
"""Characters of a cell of a CSV file."""
MADE_WITH = "made_with"
"""Column of a label file: whether the embedded rules were made with the line."""
_WORDS: dict[str, TagValue] = {
    **dict.fromkeys(("true", "yes", "1"), True),
    **dict.fromkeys(("false", "no", "0"), False),
    **dict.fromkeys(("", "null", "none"), None),
}
_YES_OR_NO = ("true", "false", "yes", "no")
_LABELS = {*ALL_TAGS, *(label for row in SIGNALS.values() for label in row.model_fields)}
"""Names of labels of other signals, which a file may hold too."""


def inspect_files(files: Sequence[Path], providers: Providers) -> Iterator[Inspected]:
    """One object for each image and each line of each .jsonl file, in order, as `inspect_file` gives it.

    Raises BadInput for a file that does not exist, before anything is measured.
    """
    for file in files:
        if not file.is_file():
            what = "is a folder; name the files in it" if file.is_dir() else "does not exist"
            raise BadInput(f"{str(file)!r} {what}")
    for file in files:
        yield from inspect_file(file, providers)


def inspect_file(file: Path, providers: Providers) -> Iterator[Inspected]:
    """One object for an image, or one for each line of a .jsonl file: `item` and `signals`.

    A failed signal has `error` with the reason instead of values; all do if an image or line cannot be read.
    """
    if file.suffix.lower() in _LINES:
        yield from _inspect_texts(file, text_signals(providers))
    else:
        yield {"item": str(file), "signals": _inspect_image(file, image_signals(providers))}


def _inspect_image(file: Path, signals: Mapping[str, Signal[DecodedImage]]) -> Inspected:
    try:
        return _measured(signals, open_image(file.read_bytes()))
    except ImageRejected as rejected:
        return {name: {"error": rejected.reason} for name in signals}


def _inspect_texts(file: Path, signals: Mapping[str, Signal[str]]) -> Iterator[Inspected]:
    with file.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            item = f"{file}:{number}"
            try:
                record = loads(line.removeprefix(BYTE_ORDER_MARK))
                text = record["text"]
            except (orjson.JSONDecodeError, KeyError, TypeError):
                text = None
            if isinstance(text, str):
                stated_id = record.get(_ID)
                yield {"item": item if stated_id is None else stated_id, "signals": _measured(signals, text)}
            else:
                yield {"item": item, "signals": {name: {"error": "no_text"} for name in signals}}


def _measured(signals: Mapping[str, Signal[Item]], item: Item) -> dict[str, Any]:
    values = {name: signal.values([item])[0] for name, signal in signals.items()}
    return {name: {"error": v.reason} if isinstance(v, Failed) else v.model_dump() for name, v in values.items()}


def read_tag_labels(file: Path, tags: Sequence[str], texts: bool) -> dict[str, dict[str, TagValue]]:
    """Item id -> label -> value. Columns: `id`, and any of `tags`; others that hold no yes or no are ignored.

    With `texts` the values are names, otherwise true, false or empty. A column `definitions` holds the first 8 hex
    digits of the SHA-256 of the file of the same name with the ending .md, which says what the labels mean. Labels may
    also be in an object `labels`. Raises BadInput that names the wrong line.
    """
    labels: dict[str, dict[str, TagValue]] = {}
    meaning = file.with_suffix(".md")
    hashed = hashlib.sha256(meaning.read_bytes()).hexdigest()[:8] if meaning.is_file() else "no such file"
    for line, row in _rows(file):
        item = str(row[_ID])
        if row.get("definitions", hashed) != hashed:
            raise BadInput(
                f"{str(file)!r} line {line}: labelled by definitions {one_line(str(row['definitions']))!r}, but "
                f"{meaning.name!r} beside it is {hashed!r}; put those definitions there, or label again"
            )
        for name in () if texts else sorted(row.keys() - {*tags, *_LABELS, MADE_WITH}):
            if (
                name in _labels_of(row)
                or row[name] is True
                or row[name] is False
                or str(row[name]).strip().lower() in _YES_OR_NO
            ):
                raise BadInput(f"{str(file)!r} line {line}: label of an unknown tag {known_values(name, tags)}")
        labels[item] = {tag: _said(file, line, tag, row[tag], texts) for tag in tags if tag in row}
    if not any(labels.values()):
        raise BadInput(f"{str(file)!r} has no label; give `id` and at least one of {', '.join(tags)}")
    return labels


def read_made_with(file: Path) -> set[str]:
    """Ids of the lines of a label file whose column `made_with` says that the embedded rules were made with them."""
    return {str(row[_ID]) for line, row in _rows(file) if _said(file, line, MADE_WITH, row.get(MADE_WITH), False)}


def has_prompts(file: Path) -> bool:
    """Whether the first line of a label file has its prompt, too, so that a tagger can be asked about the lines."""
    return any("prompt" in row for _, row in islice(_rows(file), 1))


def _said(file: Path, line: int, tag: str, value: Any, texts: bool) -> TagValue:
    if value is None or isinstance(value, bool):
        return value
    word = str(value).strip()
    if texts:
        return word or None
    if word.lower() not in _WORDS:
        raise BadInput(f"{str(file)!r} line {line}: {tag} is {word!r}; write true, false, or nothing for undecided")
    return _WORDS[word.lower()]


def read_documents(file: Path, providers: Providers, with_images: bool, measured: bool = True) -> list[Document]:
    """Prompts with images from a JSONL or CSV file with `id`, `prompt` and optionally `images`.

    `images` is a list of files (in CSV, separated by `;`), relative to the file's folder. Text and vectors of
    the images are measured here, unless no tagger needs them. Raises BadInput for a line or image that cannot be used.
    """
    documents = []
    for line, row in _rows(file):
        names = row.get("images") or []
        if isinstance(names, str):
            names = [name for name in names.split(";") if name]
        are_names = isinstance(names, list) and all(isinstance(name, str) for name in names)
        if not isinstance(row.get("prompt"), str) or not are_names:
            raise BadInput(f"{str(file)!r} line {line}: give `prompt` as text, and `images` as a list of file names")
        images = [_image(file, line, name) for name in names]
        documents.append(document_of(str(row[_ID]), row["prompt"], images, providers, with_images, measured, measured))
    if not documents:
        raise BadInput(f"{str(file)!r} holds no item; give lines with `id`, `prompt` and optionally `images`")
    return documents


def _image(file: Path, line: int, name: str) -> DecodedImage:
    try:
        return open_image((file.parent / name).read_bytes())
    except (OSError, ValueError):  # a name may hold what no path can, such as a null character
        raise BadInput(f"{str(file)!r} line {line}: image {name!r} cannot be read; paths are relative to it") from None
    except ImageRejected as rejected:
        raise BadInput(f"{str(file)!r} line {line}: image {name!r} cannot be used ({rejected.reason})") from None


def document_of(
    item: str,
    prompt: str,
    images: Sequence[DecodedImage],
    providers: Providers,
    with_images: bool,
    read_text: bool = True,
    with_vectors: bool = True,
) -> Document:
    """A document from decoded images. Measures layout, and on request text and vectors, which take seconds."""
    layouts = [image_layout(image) for image in images]
    read = image_text(providers["image_text"], images) if images and read_text else []
    return Document(
        document_id=item,
        prompt=prompt,
        image_count=len(images),
        images=tuple((p.format, p.encoded) for p in images) if with_images else (),
        image_text="\n".join(reading.text for reading in read if not isinstance(reading, Failed)),
        flat_fraction=max((layout.flat_fraction for layout in layouts), default=0.0),
        colour_count=min((layout.colour_count for layout in layouts), default=0),
        image_vectors=tuple(providers["image_embedding"].embed_images(images)) if images and with_vectors else (),
        text_area_fraction=max(
            (reading.area_fraction for reading in read if not isinstance(reading, Failed)), default=0.0
        ),
    )


def _rows(file: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Line number and columns of every line. Raises BadInput if the file cannot be used, or two lines have one id.

    Columns of an object `labels` stand beside the others. A prompt without an id has the SHA-256 of its text and of the
    names of its images for one.
    """
    reading = _csv if file.suffix == ".csv" else _jsonl if file.suffix in _LINES else None
    if reading is None:
        raise BadInput(f"{str(file)!r}: unknown kind of file {known_values(file.suffix, ('.csv', *_LINES))}")
    ids = set[str]()
    try:
        for line, row in reading(file):
            if isinstance(row, dict):
                row = _completed(row)
            if not isinstance(row, dict) or row.get(_ID) in (None, ""):
                raise BadInput(f"{str(file)!r} line {line}: no `id`; give every line one")
            item = str(row[_ID])
            if item in ids:
                raise BadInput(f"{str(file)!r} line {line}: id {item!r} occurs twice; give each item one line")
            ids.add(item)
            yield line, row
    except csv.Error as error:
        raise BadInput(f"{str(file)!r} cannot be read as CSV ({error})") from None
    except OSError:
        raise BadInput(f"{str(file)!r} does not exist or cannot be read") from None
    except UnicodeDecodeError:
        raise BadInput(f"{str(file)!r} is not UTF-8 text") from None


def _labels_of(row: Mapping[str, Any]) -> dict[str, Any]:
    labels = row.get(_NESTED)
    return labels if isinstance(labels, dict) else {}


def _completed(row: dict[str, Any]) -> dict[str, Any]:
    images = {"images": [row["image"]]} if row.get("image") and not row.get("images") else {}
    row = {**row, **images, **_labels_of(row)}
    if row.get(_ID) in (None, "") and isinstance(row.get("prompt"), str):
        names = row.get("images")
        image_lines = "".join(f"\n{name}" for name in names) if isinstance(names, (list, str)) else ""
        row[_ID] = hashlib.sha256(f"{row['prompt']}{image_lines}".encode()).hexdigest()
    return row


def _csv(file: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    csv.field_size_limit(_CELL_MAX)  # it holds for the whole process, so each reader of CSV sets its own
    with file.open(encoding="utf-8-sig", newline="") as lines:
        reader = csv.DictReader(lines, delimiter=csv_delimiter(file))
        for row in reader:
            if any(row.pop(None, ())):  # where the reader puts cells without a name
                raise BadInput(
                    f"{str(file)!r} line {reader.line_num}: more cells than the header; quote commas in texts"
                )
            yield reader.line_num, row


def _jsonl(file: Path) -> Iterator[tuple[int, Any]]:
    for line, text in enumerate(file.read_bytes().splitlines(), 1):
        if not text.strip():
            continue
        try:
            yield line, loads(text.removeprefix(BYTE_ORDER_MARK))
        except orjson.JSONDecodeError:
            raise BadInput(f"{str(file)!r} line {line} is not JSON") from None
