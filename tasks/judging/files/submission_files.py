"""Reads a submission: which items it answers, and what is missing, unknown, there twice or empty."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import polars as pl

from schemas.benches.judging import Answer, AnswerState
from schemas.errors import BadInput, why_unreadable
from tasks.judging.files.answer_shapes import json_lines
from tasks.judging.visit_battles import REFERENCE
from tasks.runtime.untrusted import csv_delimiter, one_line
from tasks.written_bench.item_files import id_of_key, named_in_row

_ITEM, _FAMILY = ("item_id", "question_id", "item"), ("family", "instruction_category")
_TEXT = ("prediction", "output", "answer", "text")
"""Names of columns; the first one present is used. Of VisIT-Bench's sheets also `MODEL prediction`, `MODEL_output`."""
_SUFFIXES = (".csv", ".jsonl", ".parquet")
_NAME_CHARACTERS_MAX = 100
_IDS = 5
"""Most items that a row is said to fit."""


@dataclass(frozen=True)
class AnswerableItem:
    """An item that a submission may answer."""

    item_id: str
    """The conversation of the item."""
    family: str
    """Family, beside which an instruction names the item; of a generated item the kind of question, such as colour."""
    instruction: str
    """Text of the task, without options."""
    document_id: str
    """Content id, as in `answers`."""
    image_names: tuple[str, ...] = ()
    """Hash of the file name of each image, which tell items of one instruction apart; empty where none is known."""


@dataclass(frozen=True)
class Submission:
    """The answers of one model to the items of one benchmark."""

    answers: list[Answer]
    """One for each answered item, by id."""
    missing: list[str]
    """Items without an answer, those that are there twice or empty left out."""
    unknown: list[str]
    """Rows on no item of the benchmark, as the file names it."""
    shared: list[str]
    """Rows on an instruction that several items share, each with the ids of these."""
    double: list[str]
    """Items with two answers, none of which counts."""
    empty: list[str]
    """Items whose answer has no words."""

    @property
    def version(self) -> str:
        """Version of the answers."""
        return self.answers[0].version


def read_submission(path: Path, model: str, items: Sequence[AnswerableItem], bench: str = "") -> Submission:
    """A file's answers: to items by id, by the id in the file that `bench` was collected from, or by their content.

    Content is family and instruction, and the names of the images where the file has them. Raises BadInput for a file
    that cannot be read, has no answer to an item, or a name that cannot be used, and for one whose rows are all on
    instructions that several items share.
    """
    if not model.strip() or len(model) > _NAME_CHARACTERS_MAX or not model.isprintable():
        raise BadInput(f"--model: give a name of 1 to {_NAME_CHARACTERS_MAX} printable characters")
    if model.strip().lower() == REFERENCE:
        raise BadInput(f"--model {model!r} is the name of the verified reference; give another one")
    item_of_id = {item.item_id: item for item in items}
    by_text = _by_instruction(items)
    texts_of_item, unknown, shared = dict[str, list[str]](), list[str](), list[str]()
    for row, text in _rows(path):
        named_items = _items_of(row, item_of_id, by_text, bench)
        name = named_items[0] if len(named_items) == 1 else None
        if name is None:
            named = (row[column] for column in (*_ITEM, "instruction") if row.get(column))
            row_name = str(next(named, "a row without item_id and instruction"))
            if named_items:
                shared.append(f"{', '.join(named_items[:_IDS])} ({one_line(row_name, 60)})")
            else:
                unknown.append(row_name)
        else:
            texts_of_item.setdefault(name, []).append(text)
    double = sorted(name for name, texts in texts_of_item.items() if len(texts) > 1)
    empty = sorted(name for name, texts in texts_of_item.items() if len(texts) == 1 and not texts[0].strip())
    chosen = {name: texts[0] for name, texts in sorted(texts_of_item.items()) if name not in {*double, *empty}}
    if not chosen:
        raise BadInput(
            f"{str(path)!r} has no answer to an item of this benchmark ({len(unknown):,} rows on others, "
            f"{len(shared):,} on instructions of several items, {len(double):,} twice, {len(empty):,} empty); "
            "give item_id and prediction in each row"
        )
    version = f"submission+{hashlib.sha256(orjson.dumps(list(chosen.items()))).hexdigest()[:8]}"
    about = {"model": model, "state": AnswerState.COMPLETE, "version": version, "tokens": None}
    answers = [
        Answer(question_id=name, text=text, document_id=item_of_id[name].document_id, **about)
        for name, text in chosen.items()
    ]
    return Submission(answers, sorted(item_of_id.keys() - texts_of_item.keys()), unknown, shared, double, empty)


def _by_instruction(items: Sequence[AnswerableItem]) -> dict[tuple[str, str], list[AnswerableItem]]:
    """(family, instruction) -> the items that share them."""
    sharing: dict[tuple[str, str], list[AnswerableItem]] = {}
    for item in items:
        sharing.setdefault((_plain(item.family), item.instruction.strip()), []).append(item)
    return sharing


def _items_of(
    row: Mapping[str, Any],
    item_of_id: Mapping[str, Any],
    by_text: Mapping[tuple[str, str], list[AnswerableItem]],
    bench: str,
) -> list[str]:
    """Ids of the items that a row may answer: one where it says which."""
    name = next((row[column] for column in _ITEM if row.get(column)), None)
    if name is not None:
        return [name] if isinstance(name, str) and name in item_of_id else []
    key, image_names = named_in_row(row)
    family = next((row[column] for column in _FAMILY if row.get(column)), "")
    instruction = str(row.get("instruction") or "").strip()
    if key and not instruction:
        return [named] if (named := id_of_key(bench, key)) in item_of_id else []
    sharing = by_text.get((_plain(str(family)), instruction), [])
    of_images = [item for item in sharing if image_names and list(item.image_names) == image_names]
    of_key = [item for item in sharing if key and item.item_id == id_of_key(bench, key)]
    return [item.item_id for item in of_key or of_images or sharing]


def _plain(family: str) -> str:
    return " ".join(family.lower().replace("_", " ").split())


def _rows(path: Path) -> Iterator[tuple[dict[str, Any], str]]:
    """Each row with its answer."""
    rows = _read(path)
    columns = list(dict.fromkeys(name for row in rows for name in row))
    text = next((name for name in _TEXT if name in columns), None)
    if text is None:
        named = [name for name in columns if name.lower().endswith((" prediction", "_output"))]
        if len(named) != 1:
            raise BadInput(
                f"{str(path)!r}: none of its columns ({', '.join(columns)[:200]}) is the answer; name it prediction"
            )
        text = named[0]
    for row in rows:
        yield row, "" if row.get(text) is None else str(row[text])


def _read(path: Path) -> list[dict[str, Any]]:
    if path.suffix not in _SUFFIXES:
        raise BadInput(f"{str(path)!r}: unknown kind of file; give answers as one of {', '.join(_SUFFIXES)}")
    try:
        if path.suffix == ".csv":
            return pl.read_csv(path, infer_schema=False, separator=csv_delimiter(path)).to_dicts()
        if path.suffix == ".parquet":
            return pl.read_parquet(path).to_dicts()
        return [row for _, row in json_lines(path)]
    except BadInput:
        raise
    except OSError as error:
        raise BadInput(f"answers {str(path)!r} cannot be read ({why_unreadable(error)})") from None
    except Exception as error:  # polars raises errors of its own for a broken file
        raise BadInput(f"{str(path)!r} cannot be read as a table ({type(error).__name__})") from None
