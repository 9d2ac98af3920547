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

_ITEM, _FAMILY = ("item_id", "question_id", "item"), ("family", "instruction_category")
_TEXT = ("prediction", "output", "answer", "text")
"""Names of columns; the first one present is used. Of VisIT-Bench's sheets also `MODEL prediction`, `MODEL_output`."""
_SUFFIXES = (".csv", ".jsonl", ".parquet")
_NAME_CHARACTERS_MAX = 100


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


@dataclass(frozen=True)
class Submission:
    """The answers of one model to the items of one benchmark."""

    answers: list[Answer]
    """One for each answered item, by id."""
    missing: list[str]
    """Items without an answer, those that are there twice or empty left out."""
    unknown: list[str]
    """Rows on no item of the benchmark, as the file names it; also instructions that several items share."""
    double: list[str]
    """Items with two answers, none of which counts."""
    empty: list[str]
    """Items whose answer has no words."""

    @property
    def version(self) -> str:
        """Version of the answers."""
        return self.answers[0].version


def read_submission(path: Path, model: str, items: Sequence[AnswerableItem]) -> Submission:
    """Raises BadInput for a file that cannot be read, has no answer to an item, or a name that cannot be used."""
    if not model.strip() or len(model) > _NAME_CHARACTERS_MAX or not model.isprintable():
        raise BadInput(f"--model: give a name of 1 to {_NAME_CHARACTERS_MAX} printable characters")
    if model.strip().lower() == REFERENCE:
        raise BadInput(f"--model {model!r} is the name of the verified reference; give another one")
    known = {item.item_id: item for item in items}
    by_text = _by_instruction(items)
    said, unknown = dict[str, list[str]](), list[str]()
    for row, text in _rows(path):
        name = _item_of(row, known, by_text)
        if name is None:
            named = (row[column] for column in (*_ITEM, "instruction") if row.get(column))
            unknown.append(str(next(named, "a row without item_id and instruction")))
        else:
            said.setdefault(name, []).append(text)
    double = sorted(name for name, texts in said.items() if len(texts) > 1)
    empty = sorted(name for name, texts in said.items() if len(texts) == 1 and not texts[0].strip())
    chosen = {name: texts[0] for name, texts in sorted(said.items()) if name not in {*double, *empty}}
    if not chosen:
        raise BadInput(
            f"{str(path)!r} has no answer to an item of this benchmark ({len(unknown):,} rows on others, "
            f"{len(double):,} twice, {len(empty):,} empty); give item_id and prediction in each row"
        )
    version = f"submission+{hashlib.sha256(orjson.dumps(list(chosen.items()))).hexdigest()[:8]}"
    about = {"model": model, "state": AnswerState.COMPLETE, "version": version, "tokens": None}
    answers = [
        Answer(question_id=name, text=text, document_id=known[name].document_id, **about)
        for name, text in chosen.items()
    ]
    return Submission(answers, sorted(known.keys() - said.keys()), unknown, double, empty)


def _by_instruction(items: Sequence[AnswerableItem]) -> dict[tuple[str, str], str | None]:
    """(family, instruction) -> item; None where several items share them."""
    found: dict[tuple[str, str], str | None] = {}
    for item in items:
        key = _plain(item.family), item.instruction.strip()
        found[key] = None if key in found else item.item_id
    return found


def _item_of(
    row: Mapping[str, Any], known: Mapping[str, Any], by_text: Mapping[tuple[str, str], str | None]
) -> str | None:
    name = next((row[column] for column in _ITEM if row.get(column)), None)
    if name is not None:
        return name if isinstance(name, str) and name in known else None
    family = next((row[column] for column in _FAMILY if row.get(column)), "")
    return by_text.get((_plain(str(family)), str(row.get("instruction") or "").strip()))


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
            return pl.read_csv(path, infer_schema=False).to_dicts()
        if path.suffix == ".parquet":
            return pl.read_parquet(path).to_dicts()
        return [row for _, row in json_lines(path)]
    except BadInput:
        raise
    except OSError as error:
        raise BadInput(f"answers {str(path)!r} cannot be read ({why_unreadable(error)})") from None
    except Exception as error:  # polars raises errors of its own for a broken file
        raise BadInput(f"{str(path)!r} cannot be read as a table ({type(error).__name__})") from None
