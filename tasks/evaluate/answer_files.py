"""Answers that were made elsewhere: JSON Lines of this project, WildVision-Bench, Arena-Hard and lmms-eval."""

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from schemas.errors import BadInput, why_unreadable
from schemas.judging import Answer, AnswerState
from tasks.evaluate.questions import Question

FAILED_MARKS = frozenset({"$ERROR$", "API_ERROR"})
"""Texts that WildVision-Bench and Arena-Hard store for calls that failed. They are no answers."""


@dataclass(frozen=True)
class Read:
    """What a folder of answer files holds."""

    answers: list[Answer]
    """One for each model and question."""
    failed: Counter[str] = field(default_factory=Counter)
    """Model -> questions without an answer: null, or the mark of a failed call."""


def read_answers(path: Path, questions: Sequence[Question]) -> Read:
    """The answers of a `.jsonl` file, or of all such files of a folder.

    A model's version is a hash of its answers.
    Raises BadInput for an unreadable line, an unknown question, and two answers of a model to one question.
    """
    files = sorted(path.rglob("*.jsonl")) if path.is_dir() else [path]
    if not files:
        raise BadInput(f"{str(path)!r} holds no .jsonl file; give a models file (YAML), or answers as JSON Lines")
    known = {each.question_id for each in questions}
    said: dict[tuple[str, str], dict[str, Any]] = {}
    failed = Counter[str]()
    for file in files:
        for where, row in _lines(file):
            model, name, text, more = _parts(row, file, where)
            if name not in known:
                raise BadInput(f"{where}: {name!r} is no question of this benchmark; give answers to this draw")
            if (model, name) in said:
                raise BadInput(f"{where}: a second answer of {model!r} to {name!r}; keep one of the two")
            said[model, name] = {"text": text, **more}
    versions = _versions(said)
    answers = []
    for (model, question_id), row in sorted(said.items()):
        if row["text"] is None or row["text"].strip() in FAILED_MARKS:
            failed[model] += 1
        else:
            answers.append(_answer(question_id, model, versions[model], row))
    return Read(answers, failed)


def _answer(question_id: str, model: str, version: str, row: dict[str, Any]) -> Answer:
    state = row.get("state") or (AnswerState.COMPLETE if row["text"].strip() else AnswerState.EMPTY)
    return Answer(
        question_id=question_id, model=model, state=state, text=row["text"], version=version, tokens=row.get("tokens")
    )


def _versions(said: dict[tuple[str, str], dict[str, Any]]) -> dict[str, str]:
    digests: dict[str, Any] = {}
    for (model, question_id), row in sorted(said.items()):
        digests.setdefault(model, hashlib.sha256()).update(orjson.dumps([question_id, row["text"]]))
    return {model: f"file+{digest.hexdigest()[:8]}" for model, digest in digests.items()}


def _lines(file: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """(FILE:LINE, object) of every line that is not blank."""
    try:
        lines = file.read_bytes().splitlines()
    except OSError as error:
        raise BadInput(f"answers {str(file)!r} cannot be read ({why_unreadable(error)})") from None
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        where = f"{file.name}:{number}"
        try:
            row = orjson.loads(line)
        except orjson.JSONDecodeError:
            raise BadInput(f"{where}: not a JSON object; answer files have one a line") from None
        if not isinstance(row, dict):
            raise BadInput(f"{where}: not a JSON object; answer files have one a line")
        yield where, row


def _parts(row: dict[str, Any], file: Path, where: str) -> tuple[str, str, str | None, dict[str, Any]]:
    """(model, question, text or None, further columns) of a line in any of the published shapes."""
    try:
        if "resps" in row:  # lmms-eval: samples_TASK.jsonl in a folder, or under a name, of the model
            model, name, text = file.parent.name, row["doc"]["question_id"], row["resps"][0][0]
        elif "choices" in row:  # Arena-Hard v0.1
            model, name, text = row["model_id"], row["question_id"], row["choices"][0]["turns"][0]["content"]
        elif "messages" in row:  # Arena-Hard v2.0
            said = row["messages"][-1]["content"]
            model, name, text = row["model"], row["uid"], said["answer"] if isinstance(said, dict) else said
        elif "output" in row:  # WildVision-Bench
            model, name, text = row["model"], row["question_id"], row["output"]
        else:  # ours: rows of the table `answers`
            model, name, text = row["model"], row["question_id"], row["text"]
        tokens = row.get("tokens", row.get("token_len"))
        state = AnswerState(row["state"]) if "state" in row else None
    except (KeyError, IndexError, TypeError, ValueError):
        raise BadInput(
            f"{where}: no known shape of an answer file; see docs/judge_calls.md for those that are"
        ) from None
    if not (isinstance(model, str) and model and isinstance(name, str) and (text is None or isinstance(text, str))):
        raise BadInput(f"{where}: model, question and answer must be texts; see docs/judge_calls.md")
    if state is AnswerState.FAILED:
        text = None
    counted = tokens if isinstance(tokens, int) and 0 <= tokens < 2**31 else None
    return model, name, text, {"tokens": counted, "state": state}
