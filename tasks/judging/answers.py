"""Asks models the prompts of a benchmark, and takes in answers that were made elsewhere.

In: a benchmark, models, files of answers. Out: rows of `answers`, stored as they arrive; a question is never asked
twice. A further source of answers is a function beside `take_in_answers`.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

from schemas.asked_model import AskedModel
from schemas.benches.judging import Answer, AnswerState
from schemas.errors import BadInput
from tasks.judging.files.answer_files import AnswersRead
from tasks.judging.questions import Bench, BenchQuestion
from tasks.providers.ask_items import Work, ask_missing, store_results
from tasks.providers.capabilities import ChatMessage, ChatModel, Failed
from tasks.providers.chat import chat_model
from tasks.storage.parts import append_incrementally
from tasks.storage.tables import Store

_KEY = ["model", "version", "question_id", "document_id"]
AnswersByModel = Mapping[str, Mapping[str, Mapping[str, Any]]]
"""Model -> question_id -> its row of `answers`."""


def unanswered(store: Store, bench: Bench, model: AskedModel) -> list[BenchQuestion]:
    """The questions without an answer of this version of the model."""
    stored_keys = set(store.read("answers", _KEY).iter_rows())
    model_key = (model.name, model.version)
    return [
        question
        for question in bench.questions
        if (*model_key, question.question_id, question.document_id) not in stored_keys
    ]


def ask_models(store: Store, bench: Bench, models: Sequence[AskedModel], batch_hours: float | None = None) -> Work:
    """Ask every model what it has not answered yet. A failed call stores nothing, so the next run makes it again.

    `batch_hours`: use the vendors' batch APIs and wait for so long; all batches are sent before the first is awaited.
    """
    connections = [chat_model(asked_model) for asked_model in models]  # all, before the first call
    done = Work()
    with ExitStack() as stack:
        answers_by_name = list[tuple[str, Iterator[Answer | Failed]]]()
        for asked_model, model in zip(models, connections, strict=True):
            questions = unanswered(store, bench, asked_model)
            queue = None if batch_hours is None else stack.enter_context(model.together(store, batch_hours))
            title, ask = f"answers of {asked_model.name}", partial(_ask, model, asked_model, bench)
            answers_by_name.append((asked_model.name, ask_missing(title, ask, questions, model.calls_at_once, queue)))
        for name, answers in answers_by_name:
            store_results(store, "answers", answers, name, done, lambda answer: answer.state)
    return done


def _ask(model: ChatModel, asked_model: AskedModel, bench: Bench, question: BenchQuestion) -> Answer | Failed:
    about = f"{asked_model.name} {question.question_id}"
    reply = model.chat([ChatMessage("user", question.prompt, bench.images(question), question.places)], about)
    if isinstance(reply, Failed):
        return reply
    return Answer(
        question_id=question.question_id, model=asked_model.name, state=AnswerState(reply.state), text=reply.text,
        version=model.version, tokens=reply.output_tokens, document_id=question.document_id,
    )  # fmt: skip


def take_in_answers(store: Store, read: AnswersRead) -> Work:
    """Store answers that were made elsewhere; those that are stored already are left out."""
    stored_keys, done = set(store.read("answers", _KEY).iter_rows()), Work()
    new = [
        answer
        for answer in read.answers
        if (answer.model, answer.version, answer.question_id, answer.document_id) not in stored_keys
    ]
    with append_incrementally(store, "answers") as keep:
        keep([answer.model_dump() for answer in new])
    done.counts.update(answer.state for answer in new)
    done.failures.update({f"{model}: no_answer_in_file": count for model, count in read.failed.items()})
    return done


def answers_by_model(
    store: Store, bench: Bench, versions: dict[str, str] | None = None, baseline: str = "", left_out: str | None = None
) -> dict[str, dict[str, dict[str, Any]]]:
    """Model -> question_id -> its row of `answers`, for the questions of the benchmark as they are now.

    `versions`: model -> the version to take, by default the one that it has; a baseline that is not among them is
    taken, too. `left_out`: a model whose answers are not wanted. Raises BadInput for a model with answers of two
    versions.
    """
    question_keys = {(question.question_id, question.document_id) for question in bench.questions}
    answers: dict[str, dict[str, dict[str, Any]]] = {}
    for row in store.read("answers").iter_rows(named=True):
        model, question_id = row["model"], row["question_id"]
        chosen = versions is None or (model == baseline and model not in versions)
        chosen = chosen or (versions or {}).get(model) == row["version"]
        if not chosen or model == left_out or (question_id, row["document_id"]) not in question_keys:
            continue
        of_model = answers.setdefault(model, {})
        if another := next(
            (earlier["version"] for earlier in of_model.values() if earlier["version"] != row["version"]), None
        ):
            raise BadInput(
                f"model {model!r} has answers of two versions ({another}, {row['version']}); give --models the models "
                "file or the answer files of one"
            )
        of_model[question_id] = row
    return answers
