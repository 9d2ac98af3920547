"""Finds the rows of any dataset that contain a benchmark question.

User messages are read from JSON, CSV, TSV or Parquet, in the shapes that chat data is published in.
"""

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import polars as pl

from schemas.benches.bench import Overlap, OverlapCount
from schemas.errors import BadInput
from tasks.bench.contamination.alike import documents_of
from tasks.bench.contamination.guard import public_prompts
from tasks.bench.contamination.prompt_index import DISTINCTIVE_WORDS, PromptIndex, words_of_each
from tasks.runtime.json_rows import BYTE_ORDER_MARK, is_one_document, loads, raw_rows
from tasks.runtime.untrusted import csv_delimiter
from tasks.storage.parquet import read_parquet_batches, read_parquet_groups, read_parquet_schema
from tasks.storage.tables import Store

CHECKED_AT_ONCE = 10_000
COLUMNS = (
    "messages", "conversation", "conversations", "conversation_a", "turns",
    "prompt", "question", "instruction", "query", "text", "content", "input",
)  # fmt: skip
"""Columns that are searched, as far as a dataset has them."""
_IMAGES = ("images", "image")
_LISTED = re.compile(r'\s*\[\s*[\[{"]')
"""The beginning of a text that is JSON of a list of messages or texts."""
_USER = {"user", "human", "prompter"}
_CELL_MAX = 1 << 28
"""Characters in a CSV cell; Python's default limit is too short for some conversations."""


class OutsideRow(NamedTuple):
    """One row of a dataset."""

    number: int
    """1-based: the line of a JSONL file, or the row of another one without its header."""
    texts: list[str]
    """Every user message, and all of them joined by blank lines."""
    images: set[str]
    """File names of its images without extension, where the dataset has them."""


def read_outside(path: Path, column: str | None = None) -> Iterator[list[OutsideRow]]:
    """Yield the rows of a file, or of the Parquet files below a folder, 10,000 at a time. Image bytes are not read.

    Raises BadInput for other kinds of files, files without a known column, and lines that cannot be read.
    """
    if not path.exists():
        raise BadInput(f"dataset {str(path)!r} does not exist")
    if path.is_file() and path.suffix.lower() not in _READERS:
        raise BadInput(
            f"{str(path)!r}: unknown kind of dataset; give one of {', '.join(_READERS)}, or a folder of Parquet"
        )
    files = sorted(path.rglob("*.parquet")) if path.is_dir() else [path]
    if not files:
        raise BadInput(f"{str(path)!r} holds no Parquet file; give a file or a folder of Parquet files")
    # a row is one of the file, or of all Parquet files of the folder, which are numbered as one
    return _batches((row for file in files for row in _READERS[file.suffix.lower()](file, column)), path, column)


def _batches(rows: Iterable[dict[str, Any]], path: Path, column: str | None) -> Iterator[list[OutsideRow]]:
    names = (column,) if column else COLUMNS
    numbered = enumerate(rows, 1)
    has_column = False  # rows of another kind may follow those that have one
    with table_errors(path):
        while numbered_rows := list(islice(numbered, CHECKED_AT_ONCE)):
            has_column = has_column or any(name in row for _, row in numbered_rows for name in names)
            if not has_column:
                columns_there = dict.fromkeys(name for _, row in numbered_rows for name in row if name)
                raise BadInput(
                    f"{str(path)!r} has none of the columns {', '.join(names)}; "
                    f"name one with --column: it has {', '.join(list(columns_there)[:20])}"
                )
            yield [_outside_row(number, row, names) for number, row in numbered_rows]


def _outside_row(number: int, row: dict[str, Any], names: Iterable[str]) -> OutsideRow:
    # a text is a user message of any of the columns; several columns may hold the same, which counts once
    texts = dict.fromkeys(text for name in names if name in row for text in _asked(row[name]))
    return OutsideRow(number, list(texts), {_stem(image) for name in _IMAGES for image in _listed(row.get(name))})


def _asked(value: Any) -> list[str]:
    """User messages of a cell: a text, a list of messages, a list of lists of messages, or JSON of these."""
    if isinstance(value, str) and _LISTED.match(value):
        try:
            value = loads(value)
        except orjson.JSONDecodeError:
            return [value]
    if isinstance(value, str):
        return [value]
    # a text is one user message; a message of several parts gives a text for each
    messages = [text for message in _listed(value) for text in _said(message)]
    return [*messages, "\n\n".join(messages)] if len(messages) > 1 else messages


def _said(message: Any) -> list[str]:
    if isinstance(message, str):
        return [message]
    if isinstance(message, list):
        return [text for inner in message for text in _said(inner)]
    if not isinstance(message, dict) or str(message.get("role", message.get("from", "user"))).lower() not in _USER:
        return []
    content = message.get("content", message.get("value", message.get("text")))
    parts = content if isinstance(content, list) else [content]
    texts = [part.get("text") if isinstance(part, dict) else part for part in parts]
    return [text for text in texts if isinstance(text, str)]


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _stem(image: Any) -> str:
    name = image.get("path") if isinstance(image, dict) else image
    return Path(name).stem if isinstance(name, str) and len(name) < 256 else ""


def _json_lines(path: Path, column: str | None) -> Iterator[dict[str, Any]]:
    with path.open("rb") as stream:
        if is_one_document(stream):
            yield from _json(path, column)
            return
        for number, line in enumerate(stream, 1):
            content = line.removeprefix(BYTE_ORDER_MARK).strip()
            try:
                row = loads(content) if content else {}
            except orjson.JSONDecodeError:
                raise BadInput(f"{str(path)!r} line {number} is not JSON; write one object a line") from None
            if not isinstance(row, dict):
                raise BadInput(f"{str(path)!r} line {number} is not an object; write one object a line")
            yield row


def _json(path: Path, column: str | None) -> Iterator[dict[str, Any]]:
    """The rows of an array, of lines, or within an object, such as {"questions": [{…}, …]}."""
    names = (column,) if column else COLUMNS
    with path.open("rb") as stream:
        for number, raw in enumerate(raw_rows(stream), 1):
            content = raw.removeprefix(BYTE_ORDER_MARK).strip()
            try:
                value = loads(content) if content else []
            except orjson.JSONDecodeError:
                raise BadInput(f"{str(path)!r} row {number} is not JSON; write an array of objects") from None
            yield from _rows_within(value, names)


def _rows_within(value: Any, names: Sequence[str]) -> Iterator[dict[str, Any]]:
    """The rows of a value: those of the tables in it, unless it has one of the columns and so is a row itself.

    A text in a list is a row with that text alone.
    """
    if isinstance(value, list):
        for element in value:
            yield from _rows_within(element, names)
    elif isinstance(value, dict):
        # an object is a row, or a table by itself (rows by their ids), or one around tables, such as {"questions": […]}
        is_row = any(name in value for name in names)
        tables = (
            [] if is_row else [value] if _is_table(value) else [inner for inner in value.values() if _is_table(inner)]
        )
        for table in tables:
            yield from _rows_within([*table.values()] if isinstance(table, dict) else table, names)
        if not tables:
            yield value
    elif isinstance(value, str):
        yield {names[0]: value}


def _is_table(value: Any) -> bool:
    """Whether a value is a list of objects, or an object of objects by their ids."""
    rows = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return bool(rows) and all(isinstance(row, dict) for row in rows)


_BEHIND_ALL = "\x1ebehind all lines\x1e"
"""A line of ours behind those of a file, which is a record of its own unless a quote is open at the end."""


def _delimited(path: Path, delimiter: str) -> Iterator[dict[str, Any]]:
    csv.field_size_limit(_CELL_MAX)
    with path.open(encoding="utf-8-sig", newline="") as lines:
        header = list[str]()
        for record in csv.reader(chain(lines, [_BEHIND_ALL]), delimiter=delimiter):
            if record == [_BEHIND_ALL]:
                return
            if record and record[-1].endswith(_BEHIND_ALL):
                raise BadInput(
                    f"{str(path)!r} has a quote that is never closed; close it, or double each quote in a cell"
                )
            if header and record:
                yield dict.fromkeys(header) | dict(zip(header, record, strict=False))
            header = header or record


def _csv(path: Path, column: str | None) -> Iterator[dict[str, Any]]:
    return _delimited(path, csv_delimiter(path))


def _tsv(path: Path, column: str | None) -> Iterator[dict[str, Any]]:
    return _delimited(path, "\t")


def _parquet(path: Path, column: str | None) -> Iterator[dict[str, Any]]:
    """Text columns, and the paths of images without their bytes."""
    schema = read_parquet_schema(path)
    # a name is a column that is searched: the one that was given, or those of `COLUMNS`, as far as the file has them
    columns = [name for name in ((column,) if column else COLUMNS) if name in schema.names]
    if not columns:
        yield dict.fromkeys(schema.names)
    # a leaf is the file name of an image, for a column of one image or of a list, in both spellings of Parquet
    leaves = [f"{name}.{inner}" for name in _IMAGES for inner in ("path", "list.element.path", "list.item.path")]
    for batch in read_parquet_batches(path, [*columns, *leaves], CHECKED_AT_ONCE):
        yield from batch


_READERS = {
    ".jsonl": _json_lines, ".ndjson": _json_lines, ".json": _json, ".csv": _csv, ".tsv": _tsv, ".parquet": _parquet,
}  # fmt: skip
TABLE_SUFFIXES = tuple(_READERS)
"""Kinds of files that `read_outside` reads."""


def column_names(path: Path) -> list[str]:
    """The columns that any row of a table has. Raises BadInput when it cannot be read."""
    with table_errors(path):
        if path.suffix.lower() == ".parquet":
            return [*read_parquet_schema(path).names]
        # a name is a column of any row, once and in order: rows of JSON differ in what they have
        return [*dict.fromkeys(name for row in text_rows(path) for name in row)]


def text_rows(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of a JSON, CSV or TSV file with all columns. Raises what a broken file raises."""
    return _READERS[path.suffix.lower()](path, None)


@contextmanager
def table_errors(path: Path) -> Iterator[None]:
    """Raises BadInput with the file's name for what reading a broken file raises."""
    try:
        yield
    except (BadInput, MemoryError):
        raise
    except Exception as error:  # each library raises its own errors for a broken file
        reason = " ".join(str(error).split())[:200]
        raise BadInput(f"{str(path)!r} cannot be read ({type(error).__name__}: {reason})") from None


CAPTIONS = "captions"
_ORDER = ("exact", "normalised", "near")


def questions_of_store(store: Store, items: pl.Series, hidden_texts: pl.DataFrame) -> pl.DataFrame:
    """question_id, split, prompt and image of every benchmark question of a store.

    `items`: conversations that are items of written or generated benchmarks. `hidden_texts`: item_id and text of the
    captions and references that are in no release; their split is captions, that of others is public or hidden.
    """
    bench = pl.DataFrame({"conversation_id": public_prompts(store, items)}).with_columns(split=pl.lit("public"))
    hidden = store.read("hidden").filter("drawn").select("document_id", split=pl.lit("hidden"))
    conversations = store.read("conversations")
    # a row is one conversation on a question: public ones were drawn as conversations, hidden ones as prompts
    frames = [conversations.join(bench, on="conversation_id"), conversations.join(hidden, on="document_id")]
    rows = pl.concat([frame.select(*conversations.columns, "split") for frame in frames])
    # a row is one question, which all conversations of its prompt share: the first of them gives its id
    first_conversations = rows.sort("tstamp", "conversation_id").unique(
        "document_id", keep="first", maintain_order=True
    )
    splits = first_conversations.select("document_id", "split", question_id="conversation_id")
    questions = documents_of(first_conversations).join(splits, on="document_id", maintain_order="left")
    secret = hidden_texts.select(question_id="item_id", split=pl.lit(CAPTIONS), prompt="text", image=pl.lit(""))
    return pl.concat([questions.select(secret.columns), secret])


def questions_of_release(folder: Path) -> pl.DataFrame:
    """The same columns from a release, which has no hidden split. Raises BadInput when it has no benchmark."""
    files = sorted((folder / "bench" / "data").glob("train-*.parquet"))
    if not files:
        raise BadInput(f"{str(folder)!r} is not a release with a benchmark: it has no bench/data/train-*.parquet")
    content = pl.element().struct.field("content")
    return pl.concat(
        # One row is one question: its messages as one text, and its first image without the ending of its file name.
        group.select(
            "question_id",
            split=pl.lit("public"),
            prompt=pl.col("turns").list.eval(content).list.join("\n\n"),
            image=pl.col("images").list.first().struct.field("path").str.split(".").list.first().fill_null(""),
        )
        for file in files
        for group in read_parquet_groups(file, ["question_id", "turns", "images"])
    )


class Checker:
    """Finds and counts the questions of `bench` (question_id, split, prompt, image) in a dataset."""

    def __init__(self, bench: pl.DataFrame, overlap_min: float) -> None:
        self._bench = bench.with_columns(words=words_of_each(bench["prompt"]).list.len()).to_dicts()
        self._index = PromptIndex(bench["prompt"], overlap_min)
        self._rows = 0
        self._matches = dict.fromkeys(_ORDER, 0)
        self._short = 0
        self._questions: set[str] = set()

    def overlaps(self, path: Path, column: str | None = None) -> Iterator[Overlap]:
        """Yield every match in row order. Memory does not grow with the dataset. Raises BadInput."""
        for rows in read_outside(path, column):
            yield from self._batch(rows)

    def _batch(self, rows: list[OutsideRow]) -> Iterator[Overlap]:
        """The best match of each row and question, in their order."""
        self._rows += len(rows)
        # one place of a row for each of its texts, in the order in which the index gets them
        owner = pl.Series([place for place, row in enumerate(rows) for _ in row.texts], dtype=pl.UInt32)
        matches = self._index.find(pl.Series([text for row in rows for text in row.texts], dtype=pl.String))
        matches = matches.with_columns(row=owner.gather(matches["row"]), match=pl.col("match").cast(pl.Enum(_ORDER)))
        # a row is one row of the dataset and one question: the strictest kind of match of any of its texts
        best = matches.sort("row", "prompt", "match", -pl.col("overlap")).unique(
            ["row", "prompt"], keep="first", maintain_order=True
        )
        for place, number, match, overlap in best.iter_rows():
            row, question = rows[place], self._bench[number]
            has_same_image = question["image"] != "" and question["image"] in row.images
            is_contaminated = has_same_image or question["words"] >= DISTINCTIVE_WORDS
            if is_contaminated:
                self._matches[match] += 1
                self._questions.add(question["question_id"])
            else:
                self._short += 1
            yield Overlap(
                row=row.number,
                question_id=question["question_id"],
                split=question["split"],
                match=match,
                overlap=round(overlap, 4),
                same_image=has_same_image,
                contaminated=is_contaminated,
            )

    @property
    def counted(self) -> OverlapCount:
        """Counts of the matches found so far."""
        return OverlapCount(
            rows=self._rows,
            questions=len(self._bench),
            questions_found=len(self._questions),
            matches=dict(self._matches),
            short=self._short,
        )
