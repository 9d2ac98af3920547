"""Asks a judge about pairs of answers. What it says is stored as it arrives; nothing is asked twice."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from schemas.asked_model import AskedModel
from schemas.benches.judging import Label
from schemas.items.conversation import Winner
from schemas.row import Row
from schemas.tables import TABLES
from tasks.judging.protocols import AnswerPair, Protocol, without_quotes
from tasks.providers.ask_items import Work, ask_missing, store_results
from tasks.providers.capabilities import ChatModel, Failed
from tasks.providers.chat import chat_model
from tasks.storage.parts import append_incrementally
from tasks.storage.tables import Store


class JudgeReply(NamedTuple):
    """Reply of a judge about a pair, in the columns of the stored row."""

    label: Label | Winner | None
    """Verdict; null for none, which is never a tie."""
    text: str
    """All that it wrote, but what it thought before."""
    asked_again: bool = False
    """Whether the follow-up was needed."""
    fenced_marks: int = 0
    """Labels and marks of the prompt that the two answers imitate."""
    tokens: int | None = None
    """Tokens of its first reply; null when unknown."""


@dataclass(frozen=True)
class Judge:
    """A model, or a stand-in that asks none (`stand_ins.py`)."""

    name: str
    """Name in the tables."""
    version: str
    """Changes with everything that decides what it says."""
    reply: Callable[[AnswerPair], JudgeReply | Failed]
    """Asks it about a pair."""
    model: ChatModel | None = None
    """The model; None for a stand-in."""
    note: str | None = None
    """Note of reports on a stand-in."""


def model_judge(asked: AskedModel, protocol: Protocol) -> Judge:
    """A model that judges. Raises MissingProvider without the vendor's package or without a key."""
    model = chat_model(asked)
    return Judge(asked.name, judge_version(asked, protocol), partial(_reply, model, protocol), model)


def judge_version(asked: AskedModel, protocol: Protocol) -> str:
    """The versions of model, with its settings, and protocol."""
    return f"{asked.version}+{protocol.version}"


def _reply(model: ChatModel, protocol: Protocol, pair: AnswerPair) -> JudgeReply | Failed:
    """Reply of the model. Both calls must succeed where two are needed, or neither counts."""
    prompt = protocol.prompt(pair)
    about = " ".join((*(pair.row[name] for name in protocol.key), ""))  # equal answers are asked about in both orders
    reply = model.chat(prompt.messages, about, protocol.shape)
    if isinstance(reply, Failed):
        return reply
    if protocol.by_state and reply.state == "empty":
        return Failed("empty_verdict")
    judge_text = without_quotes(reply.text, prompt.quotable)
    stated, label = protocol.read(judge_text)
    if stated or protocol.follow_up is None or (protocol.by_state and reply.state == "refused"):
        return JudgeReply(label, reply.text, False, prompt.fenced_marks, reply.output_tokens)
    more = model.chat(protocol.follow_up.messages(prompt.messages, reply.text), f"{about} {protocol.follow_up.name}")
    if isinstance(more, Failed):
        return more
    label = protocol.follow_up.read(judge_text, without_quotes(more.text, prompt.quotable))
    return JudgeReply(label, f"{reply.text}\n{more.text}", True, prompt.fenced_marks, reply.output_tokens)


def unjudged(
    store: Store, pairs: Sequence[AnswerPair], protocol: Protocol, version: str
) -> tuple[list[AnswerPair], list[dict[str, Any]]]:
    """The pairs that a judge of this version has not judged, and rows for those it judged under another draw."""
    known, here = dict[tuple[str, ...], dict[str, Any]](), set[tuple[str, ...]]()
    for stored in store.read(protocol.table).filter(judge_version=version).iter_rows(named=True):
        known[_values(stored, protocol.key)] = stored
        here.add(_values(stored, (*protocol.key, *protocol.draw)))
    wanted, again = list[AnswerPair](), list[dict[str, Any]]()
    for pair in pairs:
        row = known.get(_values(pair.row, protocol.key))
        if row is None:
            wanted.append(pair)
        elif _values(pair.row, (*protocol.key, *protocol.draw)) not in here:
            again.append({**row, **{name: pair.row[name] for name in protocol.draw}})
    return wanted, again


def _values(row: Mapping[str, Any], columns: Sequence[str]) -> tuple[str, ...]:
    return tuple(row[name] for name in columns)


def ask(
    store: Store, pairs: Sequence[AnswerPair], protocol: Protocol, judge: Judge, batch_hours: float | None = None
) -> Work:
    """Ask for everything that is missing. A failed call stores nothing, so the next run makes it again.

    `batch_hours`: use the vendor's batch API, and wait for so long.
    """
    wanted, again = unjudged(store, pairs, protocol, judge.version)
    done = Work(counts=Counter(known_already=len(again)) if again else Counter())
    about = {"judge": judge.name, "judge_version": judge.version}

    def work(pair: AnswerPair) -> tuple[Any, JudgeReply] | Failed:
        reply = judge.reply(pair)
        if isinstance(reply, Failed):
            return reply
        row, columns = TABLES[protocol.table].row, {**pair.row, **reply._asdict(), **about}
        return row(**{name: value for name, value in columns.items() if name in row.model_fields}), reply

    def counted(results: Iterable[tuple[Any, JudgeReply] | Failed]) -> Iterator[Row | Failed]:
        for each in results:
            if not isinstance(each, Failed):
                reply = each[1]
                done.counts["no_verdict" if reply.label is None else protocol.counted] += 1
                done.counts += Counter(asked_again=int(reply.asked_again), fenced_marks=reply.fenced_marks)
            yield each if isinstance(each, Failed) else each[0]

    with append_incrementally(store, protocol.table) as keep:
        keep(again)
    batches = judge.model.together(store, batch_hours) if judge.model and batch_hours is not None else nullcontext()
    with batches as queue:
        calls_at_once = judge.model.calls_at_once if judge.model else 1  # a stand-in judges in order
        results = ask_missing(f"{protocol.counted} of {judge.name}", work, wanted, calls_at_once, queue)
        store_results(store, protocol.table, counted(results), judge.name, done)
    if judge.model is None:
        done.calls.clear()
    return done
