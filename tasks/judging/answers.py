"""Asks models the prompts of a benchmark. Answers are stored as they arrive; a question is never asked twice."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any, NamedTuple

from schemas.asked_model import AskedModel
from schemas.benches.judging import Answer, AnswerState
from schemas.errors import BadInput
from tasks.judging.files.answer_files import AnswersRead
from tasks.judging.questions import Bench, BenchQuestion
from tasks.providers.ask_items import BatchRun, Work
from tasks.providers.capabilities import ChatMessage, ChatModel, Failed
from tasks.providers.chat import chat_model
from tasks.runtime.parallel import map_as_done
from tasks.runtime.progress import progress
from tasks.storage.parts import append_incrementally
from tasks.storage.tables import Store

_KEY = ["model", "version", "question_id", "document_id"]
AnswersByModel = Mapping[str, Mapping[str, Mapping[str, Any]]]
"""Model -> question_id -> its row of `answers`."""


class Arrived(NamedTuple):
    """One result of a call."""

    row: dict[str, Any]
    """Row of the table of results."""
    counts: Counter[str]
    """Kinds of result that it counts as."""


def unanswered(store: Store, bench: Bench, asked: AskedModel) -> list[BenchQuestion]:
    """The questions without an answer of this version of the model."""
    known = set(store.read("answers", _KEY).iter_rows())
    own = (asked.name, asked.version)
    return [each for each in bench.questions if (*own, each.question_id, each.document_id) not in known]


def ask_models(store: Store, bench: Bench, models: Sequence[AskedModel], batch_hours: float | None = None) -> Work:
    """Ask every model what it has not answered yet. A failed call stores nothing, so the next run makes it again.

    `batch_hours`: use the vendors' batch APIs and wait for so long; all batches are sent before the first is awaited.
    """
    connections = [chat_model(asked) for asked in models]  # all, before the first call
    done = Work()
    with ExitStack() as stack:
        runs = []
        for asked, model in zip(models, connections, strict=True):
            wanted, work = unanswered(store, bench, asked), partial(_ask, model, asked, bench)
            if batch_hours is None:
                answers = map_as_done(work, wanted, model.calls_at_once)
                store_arriving(store, "answers", asked.name, answers, len(wanted), done)
            else:
                queue = stack.enter_context(model.together(store, batch_hours))
                runs.append((asked, BatchRun(queue, work, wanted)))
        for asked, batches in runs:
            store_arriving(store, "answers", asked.name, batches.results(), 0, done)  # waiting shows progress itself
    return done


def store_arriving(
    store: Store,
    table: str,
    asked: str,
    arriving: Iterable[Arrived | Failed],
    shown: int,
    done: Work,
    first: Sequence[dict[str, Any]] = (),
) -> None:
    """Store rows of a model or judge as they arrive, after those of `first`, and count its calls.

    `shown`: calls that progress is shown of.
    """
    what = table.rpartition("_")[2]
    with progress(f"{what} of {asked}", shown) as advance, append_incrementally(store, table) as keep:
        keep(first)
        for each in arriving:
            done.calls[asked] += 1
            if isinstance(each, Failed):
                done.failures[f"{asked}: {each.reason}"] += 1
            else:
                done.counts += each.counts
                keep([each.row])
            advance()


def _ask(model: ChatModel, asked: AskedModel, bench: Bench, question: BenchQuestion) -> Arrived | Failed:
    about = f"{asked.name} {question.question_id}"
    reply = model.chat([ChatMessage("user", question.prompt, bench.images(question), question.places)], about)
    if isinstance(reply, Failed):
        return reply
    answer = Answer(
        question_id=question.question_id,
        model=asked.name,
        state=AnswerState(reply.state),
        text=reply.text,
        version=model.version,
        tokens=reply.output_tokens,
        document_id=question.document_id,
    )
    return Arrived(answer.model_dump(), Counter([answer.state]))


def take_in_answers(store: Store, read: AnswersRead) -> Work:
    """Store answers that were made elsewhere; those that are stored already are left out."""
    known, done = set(store.read("answers", _KEY).iter_rows()), Work()
    new = [each for each in read.answers if (each.model, each.version, each.question_id, each.document_id) not in known]
    with append_incrementally(store, "answers") as keep:
        keep([each.model_dump() for each in new])
    done.counts.update(each.state for each in new)
    done.failures.update({f"{model}: no_answer_in_file": count for model, count in read.failed.items()})
    return done


def answers_by_model(
    store: Store, bench: Bench, versions: dict[str, str] | None = None, baseline: str = "", but: str | None = None
) -> dict[str, dict[str, dict[str, Any]]]:
    """Model -> question_id -> its row of `answers`, for the questions of the benchmark as they are now.

    `versions`: model -> the version to take; a baseline that it does not have is taken too. Without it every model must
    have one. `but`: a model that is left out. Raises BadInput for two versions.
    """
    wanted = {(each.question_id, each.document_id) for each in bench.questions}
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for row in store.read("answers").iter_rows(named=True):
        model, question_id = row["model"], row["question_id"]
        chosen = versions is None or (model == baseline and model not in versions)
        chosen = chosen or (versions or {}).get(model) == row["version"]
        if not chosen or model == but or (question_id, row["document_id"]) not in wanted:
            continue
        of_model = found.setdefault(model, {})
        if another := next((each["version"] for each in of_model.values() if each["version"] != row["version"]), None):
            raise BadInput(
                f"model {model!r} has answers of two versions ({another}, {row['version']}); give --models the models "
                "file or the answer files of one"
            )
        of_model[question_id] = row
    return found
