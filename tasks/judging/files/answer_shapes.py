"""One file of answers in any of the published shapes -> who said what to which question.

JSON Lines of this project, WildVision-Bench, Arena-Hard and lmms-eval; VLMEvalKit's tables of predictions; inspect_ai's
logs.
"""

import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import polars as pl

from schemas.benches.judging import AnswerState
from schemas.errors import BadInput
from tasks.runtime.json_rows import file_bytes, json_file, loads

_RUN = re.compile(r"T\d{8}(?:-\d{6}|_G[0-9a-fA-F]+)")
"""A folder of one run of VLMEvalKit, within the model's."""
_STOPS = {
    "max_tokens": AnswerState.TRUNCATED,
    "model_length": AnswerState.TRUNCATED,
    "content_filter": AnswerState.REFUSED,
}
"""inspect_ai's stop reason -> state."""


class SaidAnswer(NamedTuple):
    """One answer of a file."""

    where: str
    """FILE:LINE, or the number of the row."""
    model: str
    question_id: str
    text: str | None
    """None where the file has no answer."""
    tokens: int | None = None
    state: AnswerState | None = None
    """None where the file does not say it."""


def answers_in(file: Path) -> Iterator[SaidAnswer] | None:
    """The answers of a file; None when it is a JSON or TSV file that holds none. Raises BadInput."""
    if file.suffix == ".eval":
        raise BadInput(f"{file.name}: a packed log of inspect_ai; unpack it with `inspect log convert --to json`")
    if file.suffix in (".tsv", ".xlsx"):
        rows = _table(file)
        return _predictions(rows, file) if rows and "prediction" in rows[0] else None
    if file.suffix != ".json":
        return (answer_of_line(row, file, where) for where, row in json_lines(file))
    content = json_file(file)
    if isinstance(content, dict) and isinstance(content.get("samples"), list) and "eval" in content:
        return _samples(content, file)
    if isinstance(content, list) and content and all(isinstance(row, dict) and "prediction" in row for row in content):
        return _predictions(content, file)
    return None


def json_lines(file: Path, kind: str = "answers") -> Iterator[tuple[str, dict[str, Any]]]:
    """(FILE:LINE, object) of every line that is not blank. Raises BadInput; `kind`: what the file holds."""
    for number, line in enumerate(file_bytes(file, kind).splitlines(), 1):
        if line.strip():
            where, row = f"{file.name}:{number}", None
            with suppress(orjson.JSONDecodeError):
                row = loads(line)
            if not isinstance(row, dict):
                raise BadInput(f"{where}: not a JSON object; {kind} are one a line")
            yield where, row


def answer_of_line(row: dict[str, Any], file: Path, where: str) -> SaidAnswer:
    """The answer of a line of JSON Lines; `where` names the line. Raises BadInput for an unknown shape."""
    try:
        if "resps" in row:  # lmms-eval: samples_TASK.jsonl in a folder, or under a name, of the model
            model, name, text = file.parent.name, row["doc"]["question_id"], row["resps"][0][0]
        elif "choices" in row:  # Arena-Hard v0.1
            model, name, text = row["model_id"], row["question_id"], row["choices"][0]["turns"][0]["content"]
        elif "messages" in row:  # Arena-Hard v2.0
            content = row["messages"][-1]["content"]
            model, name, text = row["model"], row["uid"], content["answer"] if isinstance(content, dict) else content
        elif "output" in row:  # WildVision-Bench
            model, name, text = row["model"], row["question_id"], row["output"]
        else:  # ours: rows of the table `answers`
            model, name, text = row["model"], row["question_id"], row["text"]
        state = AnswerState(row["state"]) if "state" in row else None
    except (KeyError, IndexError, TypeError, ValueError):
        raise _unknown_shape(where) from None
    return _said(where, model, name, text, row.get("tokens", row.get("token_len")), state)


def _table(file: Path) -> list[dict[str, Any]]:
    """Rows of a table, all columns as text."""
    try:
        if file.suffix == ".tsv":
            return pl.read_csv(file_bytes(file), separator="\t", infer_schema=False).to_dicts()
        return pl.read_excel(file_bytes(file), infer_schema_length=0).to_dicts()
    except ModuleNotFoundError:
        raise BadInput(
            f"{file.name}: no reader of .xlsx is installed; let VLMEvalKit write .tsv (PRED_FORMAT=tsv), save it as "
            "one, or run: pip install fastexcel"
        ) from None
    except pl.exceptions.NoDataError:
        return []
    except BadInput:
        raise
    except Exception as error:  # each reader raises its own errors for a broken file
        raise BadInput(f"{file.name}: cannot be read as a table ({type(error).__name__})") from None


def _predictions(rows: list[dict[str, Any]], file: Path) -> Iterator[SaidAnswer]:
    """VLMEvalKit: MODEL/MODEL_BENCHMARK.tsv, also within a folder of the run."""
    folder = file.parent.parent if _RUN.fullmatch(file.parent.name) else file.parent
    if not file.stem.startswith(f"{folder.name}_"):
        raise BadInput(
            f"{file.name}: put it into a folder with the model's name, as VLMEvalKit does, MODEL/{file.name}"
        )
    for number, row in enumerate(rows, 1):
        where, text = f"{file.name}:row {number}", row["prediction"]
        name = row.get("question_id", row.get("index"))
        if name is None:
            raise BadInput(f"{where}: no question_id or index; see docs/judging.md")
        is_number = isinstance(text, int | float) and text == text
        yield _said(where, folder.name, str(name), str(text) if is_number else text if isinstance(text, str) else None)


def _samples(log: dict[str, Any], file: Path) -> Iterator[SaidAnswer]:
    """inspect_ai: a log as JSON."""
    for number, sample in enumerate(log["samples"], 1):
        where = f"{file.name}:sample {number}"
        try:
            choices = [] if sample.get("error") else sample["output"]["choices"]
            text = choices[0]["message"]["content"] if choices else None
            if isinstance(text, list):  # without what the model thought
                text = "".join(part["text"] for part in text if part["type"] == "text")
            state = _STOPS.get(choices[0].get("stop_reason")) if choices else None
            tokens = (sample["output"].get("usage") or {}).get("output_tokens") if choices else None
            yield _said(where, log["eval"]["model"], str(sample["id"]), text, tokens, state)
        except (KeyError, IndexError, TypeError, AttributeError):
            raise _unknown_shape(where) from None


def _unknown_shape(where: str) -> BadInput:
    return BadInput(f"{where}: no known shape of an answer file; see docs/judging.md for those that are")


def _said(
    where: str, model: Any, name: Any, text: Any, tokens: Any = None, state: AnswerState | None = None
) -> SaidAnswer:
    if not (isinstance(model, str) and model and isinstance(name, str) and (text is None or isinstance(text, str))):
        raise BadInput(f"{where}: model, question and answer must be texts; see docs/judging.md")
    counted = tokens if isinstance(tokens, int) and 0 <= tokens < 2**31 else None
    return SaidAnswer(where, model, name, None if state is AnswerState.FAILED else text, counted, state)
