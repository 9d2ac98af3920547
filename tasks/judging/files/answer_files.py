"""Answers that were made elsewhere, in files of the shapes in `answer_shapes.py`."""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from schemas.benches.judging import Answer, AnswerState
from schemas.errors import BadInput
from tasks.judging.files.answer_shapes import SaidAnswer, answer_of_line, answers_in, json_lines
from tasks.judging.questions import BenchQuestion
from tasks.providers import token_count
from tasks.providers.asked_models import ANSWER_SUFFIXES

FAILED_MARKS = frozenset({"$ERROR$", "API_ERROR", "Failed to obtain answer", "Failed to obtain answer via API."})
"""Texts that WildVision-Bench, Arena-Hard and VLMEvalKit store for calls that failed. They are no answers."""


@dataclass(frozen=True)
class AnswersRead:
    """Content of answer files."""

    answers: list[Answer]
    """One for each model and question."""
    failed: Counter[str] = field(default_factory=Counter)
    """Model -> questions without an answer: null, or the mark of a failed call."""


def read_answers(path: Path, questions: Sequence[BenchQuestion]) -> AnswersRead:
    """The answers of a file, or of all files of a folder that hold some.

    A model's version is a hash of its answers.
    Raises BadInput for an unreadable line, an unknown question, and two answers of a model to one question.
    """
    document_of_question = {question.question_id: question.document_id for question in questions}
    answer_of_key: dict[tuple[str, str], SaidAnswer] = {}
    failed = Counter[str]()
    for answer in _all_said(path):
        if answer.question_id not in document_of_question:
            raise BadInput(
                f"{answer.where}: {answer.question_id!r} is no question of this benchmark; give answers to this draw"
            )
        if (answer.model, answer.question_id) in answer_of_key:
            raise BadInput(
                f"{answer.where}: a second answer of {answer.model!r} to {answer.question_id!r}; keep one of the two"
            )
        answer_of_key[answer.model, answer.question_id] = answer
    versions = _versions(answer_of_key)
    answers = []
    for (model, _), answer in sorted(answer_of_key.items()):
        if answer.text is None or answer.text.strip() in FAILED_MARKS:
            failed[model] += 1
            continue
        state = answer.state or (AnswerState.COMPLETE if answer.text.strip() else AnswerState.EMPTY)
        answers.append(Answer(
            question_id=answer.question_id, model=model, state=state, text=answer.text, version=versions[model],
            tokens=answer.tokens, document_id=document_of_question[answer.question_id],
        ))  # fmt: skip
    return AnswersRead(answers, failed)


def texts_of_files(paths: Sequence[Path]) -> list[tuple[str, str, str]]:
    """(model, question, text) of every answer in files and folders, the first of several. Raises BadInput."""
    text_of_key = {
        (answer.model, answer.question_id): answer.text for path in reversed(paths) for answer in _all_said(path)
    }
    return [(*key, text) for key, text in text_of_key.items() if text is not None and text.strip() not in FAILED_MARKS]


def _all_said(path: Path) -> Iterator[SaidAnswer]:
    files = [path]
    if path.is_dir():  # a link beside its target, as VLMEvalKit makes them, is one file
        places = {
            file.resolve(): file for file in sorted(path.rglob("*"), reverse=True) if file.suffix in ANSWER_SUFFIXES
        }
        files = sorted(places.values())
    file_answers = [(file, answers_in(file)) for file in files]
    if not any(answers is not None for _, answers in file_answers):
        raise BadInput(
            f"{str(path)!r} holds no answers; give a models file (YAML), or answers in a shape of docs/judging.md"
        )
    for _, answers in file_answers:
        yield from answers or ()


def _versions(answer_of_key: dict[tuple[str, str], SaidAnswer]) -> dict[str, str]:
    digests: dict[str, Any] = {}
    for (model, question_id), answer in sorted(answer_of_key.items()):
        digests.setdefault(model, hashlib.sha256()).update(orjson.dumps([question_id, answer.text]))
    return {model: f"file+{digest.hexdigest()[:8]}" for model, digest in digests.items()}


def answer_lengths(paths: Sequence[Path]) -> tuple[dict[str, float], set[str]]:
    """Mean tokens of each model's answers in .jsonl files and folders of them, and the questions that are answered.

    Tokens are as stated, else counted (cl100k_base). Raises BadInput for a file that cannot be read, a line without
    question_id, model, or length and text, and a question that one model answers twice.
    """
    tokens: dict[str, dict[str, int]] = defaultdict(dict)
    for file in [file for path in paths for file in (sorted(path.rglob("*.jsonl")) if path.is_dir() else [path])]:
        for where, row in json_lines(file):
            try:
                question, model = str(row.get("question_id") or row["uid"]), str(row.get("model") or row["model_id"])
                length = _length(row, file, where)
            except (AttributeError, KeyError, IndexError, TypeError):
                raise BadInput(f"{where}: no answer with question_id, model, and length or text") from None
            if question in tokens[model]:
                raise BadInput(f"{where}: model {model!r} answers question {question!r} twice")
            tokens[model][question] = length
    means = {model: sum(of_model.values()) / len(of_model) for model, of_model in tokens.items()}
    return means, {question for of_model in tokens.values() for question in of_model}


def _length(row: dict[str, Any], file: Path, where: str) -> int:
    """token_len of the line, of its metadata, or of its first turn; else the tokens of its text."""
    if "token_len" in row:
        return int(row["token_len"])
    of_turn = row["choices"][0]["turns"][0] if "choices" in row else {}
    if "token_len" in (stated := row.get("metadata") or of_turn):
        return int(stated["token_len"])
    return token_count(answer_of_line(row, file, where).text or "")
