"""Asks a judge which of two answers is better. A verdict is stored as it arrives; none is asked for twice."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, TypeVar

from schemas.asked_model import AskedModel
from schemas.errors import BadInput, known_values
from schemas.judging import Verdict
from tasks.evaluate.answers import Called
from tasks.evaluate.labels import labels_in, parse_label
from tasks.evaluate.protocols import Protocol
from tasks.evaluate.questions import Bench, Question
from tasks.providers.batch_run import BatchRun
from tasks.providers.capabilities import ChatMessage, ChatModel, Failed, Reply
from tasks.providers.chat import chat_model
from tasks.runtime.parallel import map_as_done
from tasks.runtime.progress import progress
from tasks.storage.parts import append_incrementally
from tasks.storage.tables import Store

ByModel = Mapping[str, Mapping[str, Mapping[str, Any]]]
"""Model -> question_id -> its row of `answers`."""
Asked = TypeVar("Asked")
_KEY = ("question_id", "document_id", "model_a", "model_b", "answer_a", "answer_b", "judge_version")


@dataclass(frozen=True)
class Pair:
    """Two answers to one question, in the order in which they are shown."""

    question: Question
    first: Mapping[str, Any]
    """Row of `answers`."""
    second: Mapping[str, Any]
    """Row of `answers`."""

    def key(self, judge_version: str) -> tuple[str, ...]:
        """The values of `_KEY`."""
        sides = (self.first["model"], self.second["model"], self.first["version"], self.second["version"])
        return (self.question.question_id, self.question.document_id, *sides, judge_version)


def pairs(bench: Bench, answers: ByModel, protocol: Protocol, baseline: str) -> Iterator[Pair]:
    """All comparisons with the baseline, both orders of a pair in a row. Raises BadInput for an unknown baseline."""
    if baseline not in answers:
        raise BadInput(
            f"--baseline: no answers of {known_values(baseline, answers)} Ask it with `curate judge answer`, or "
            "take in its answer files"
        )
    if len(answers) < 2:
        raise BadInput(f"only {baseline!r} has answers to this benchmark; ask another model with `curate judge answer`")
    for model in sorted(answers.keys() - {baseline}):
        for question in bench.questions:
            if question.question_id in answers[baseline] and question.question_id in answers[model]:
                for sides in protocol.orders(baseline, model):
                    first, second = (answers[side][question.question_id] for side in sides)
                    yield Pair(question, first, second)


def judge_version(model: str, protocol: str) -> str:
    """The versions of model, with its settings, and protocol."""
    return f"{model}+{protocol}"


def unjudged(store: Store, wanted: Sequence[Pair], version: str, **of: str) -> tuple[list[Pair], list[dict[str, Any]]]:
    """The pairs without a verdict of this judge, and rows for those with one under another draw or baseline.

    `of`: draw and baseline.
    """
    here, earlier = set[tuple[str, ...]](), dict[tuple[str, ...], dict[str, Any]]()
    for row in store.read("verdicts").iter_rows(named=True):
        key = tuple(row[name] for name in _KEY)
        if row | of == row:
            here.add(key)
        else:
            earlier[key] = row | of
    open_pairs = [pair for pair in wanted if pair.key(version) not in here]
    again = [earlier[pair.key(version)] for pair in open_pairs if pair.key(version) in earlier]
    return [pair for pair in open_pairs if pair.key(version) not in earlier], again


def compare(
    store: Store,
    bench: Bench,
    answers: ByModel,
    judge: AskedModel,
    protocol: Protocol,
    baseline: str,
    batch_hours: float | None = None,
) -> Called:
    """Ask for every verdict that is missing. A failed call stores nothing, so the next run makes it again.

    `batch_hours`: use the vendor's batch API, and wait for so long.
    """
    model, version, done = chat_model(judge), judge_version(judge.version, protocol.version), Called()
    every = list(pairs(bench, answers, protocol, baseline))
    wanted, again = unjudged(store, every, version, draw=bench.draw, baseline=baseline)

    def work(pair: Pair) -> Verdict | Failed:
        return _verdict(model, judge, protocol, bench, pair, baseline)

    done.counts += Counter({"known_already": len(again)})
    return keep_verdicts(store, model, judge, wanted, again, work, batch_hours, done)


def keep_verdicts(
    store: Store,
    model: ChatModel,
    judge: AskedModel,
    wanted: Sequence[Asked],
    again: Sequence[dict[str, Any]],
    work: Callable[[Asked], Verdict | Failed],
    batch_hours: float | None,
    done: Called,
) -> Called:
    """Do the work on every wanted item and store its verdict as it arrives; `again` are rows to store first."""
    with ExitStack() as stack:
        shown = len(wanted) if batch_hours is None else 0  # waiting for batches shows progress itself
        advance = stack.enter_context(progress(f"verdicts of {judge.name}", shown))
        verdicts: Iterable[Verdict | Failed]
        if batch_hours is None:
            verdicts = map_as_done(work, wanted, model.calls_at_once)
        else:
            verdicts = BatchRun(stack.enter_context(model.together(store, batch_hours)), work, wanted).results()
        keep = stack.enter_context(append_incrementally(store, "verdicts"))
        keep(again)
        for verdict in verdicts:
            done.calls[judge.name] += 1
            if isinstance(verdict, Failed):
                done.failures[judge.name, verdict.reason] += 1
            else:
                done.counts += _counted(verdict)
                keep([verdict.model_dump()])
            advance()
    return done


def _counted(verdict: Verdict) -> Counter[str]:
    kinds = {
        "verdicts": verdict.label is not None,
        "no_verdict": verdict.label is None,
        "asked_again": verdict.asked_again,
        "fenced_marks": verdict.fenced_marks,
    }
    return Counter({kind: int(count) for kind, count in kinds.items()})


def _verdict(
    model: ChatModel, judge: AskedModel, protocol: Protocol, bench: Bench, pair: Pair, baseline: str
) -> Verdict | Failed:
    """One verdict. Both calls must succeed where two are needed, or neither counts."""
    told = protocol.messages(pair.question.prompt, pair.first["text"], pair.second["text"])
    places = () if told.question_start is None else tuple(told.question_start + n for n in pair.question.places)
    shown = ChatMessage("user", told.user, bench.images(pair.question), places)
    asked = [ChatMessage("system", told.system), shown]
    about = " ".join(pair.key(""))  # equal answers give equal requests in both orders
    reply: Reply | Failed = model.chat(asked, about)
    if isinstance(reply, Failed):
        return reply
    text = reply.text
    if again := not labels_in(text):
        more = model.chat(_follow_up(asked, text, protocol), f"{about} again")
        if isinstance(more, Failed):
            return more
        text = f"{text}\n{more.text}"
    return Verdict(
        question_id=pair.question.question_id,
        protocol=protocol.name,
        model_a=pair.first["model"],
        model_b=pair.second["model"],
        baseline=baseline,
        answer_a=pair.first["version"],
        answer_b=pair.second["version"],
        label=parse_label(text),
        judge=judge.name,
        judge_version=judge_version(judge.version, protocol.version),
        draw=bench.draw,
        text=text,
        asked_again=again,
        fenced_marks=told.fenced_marks,
        document_id=pair.question.document_id,
    )


def _follow_up(asked: Sequence[ChatMessage], said: str, protocol: Protocol) -> list[ChatMessage]:
    """The chat with the protocol's follow-up; after an empty reply the same chat: vendors take no empty turn."""
    if not said.strip():
        return list(asked)
    return [*asked, ChatMessage("assistant", said), ChatMessage("user", protocol.follow_up)]
