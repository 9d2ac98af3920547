"""Asks a judge about pairs of answers. What it says is stored as it arrives; nothing is asked twice.

In: pairs, a protocol (prompt, labels, table) and a judge. Out: rows of the protocol's table. A further kind of judge is
a function beside `model_judge`; a further field of its reply goes into `JudgeReply` and into the row of the table.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, cast

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
    """All that it wrote, without what it thought before."""
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


def model_judge(judging_model: AskedModel, protocol: Protocol) -> Judge:
    """A model that judges. Raises MissingProvider without the vendor's package or without a key."""
    model = chat_model(judging_model)
    return Judge(judging_model.name, judge_version(judging_model, protocol), partial(_reply, model, protocol), model)


def judge_version(model: AskedModel, protocol: Protocol) -> str:
    """The versions of model, with its settings, and protocol."""
    return f"{model.version}+{protocol.version}"


def _reply(model: ChatModel, protocol: Protocol, pair: AnswerPair) -> JudgeReply | Failed:
    """Reply of the model. Both calls must succeed where two are needed, or neither counts."""
    prompt = protocol.prompt(pair)
    # In a batch, equal messages with different names are both sent: equal answers are asked about in both orders. The
    # blank at the end belongs to the name: answers of batches that were sent before are found by it.
    call_name = " ".join((*(pair.row[name] for name in protocol.key), ""))
    reply = model.chat(prompt.messages, call_name, protocol.shape)
    if isinstance(reply, Failed):
        return reply
    # `by_state`: the vendor's own word on a reply is taken. An empty one is asked for again in the next run; a refusal
    # is a reply, without a label.
    if protocol.by_state and reply.state == "empty":
        return Failed("empty_verdict")
    judge_text = without_quotes(reply.text, prompt.quotable)
    has_verdict, label = protocol.read(judge_text)
    if has_verdict or protocol.follow_up is None or (protocol.by_state and reply.state == "refused"):
        return JudgeReply(label, reply.text, False, prompt.fenced_marks, reply.output_tokens)
    more = model.chat(
        protocol.follow_up.messages(prompt.messages, reply.text), f"{call_name} {protocol.follow_up.name}"
    )
    if isinstance(more, Failed):
        return more
    label = protocol.follow_up.read(judge_text, without_quotes(more.text, prompt.quotable))
    return JudgeReply(label, f"{reply.text}\n{more.text}", True, prompt.fenced_marks, reply.output_tokens)


def unjudged(
    store: Store, pairs: Sequence[AnswerPair], protocol: Protocol, version: str
) -> tuple[list[AnswerPair], list[dict[str, Any]]]:
    """The pairs that a judge of this version has not judged, and rows to add for those it judged in another draw.

    A draw is how a pair came to be asked about; it is no part of what is asked. These rows are the judge's verdicts,
    copied with the new draw: nothing is asked for them.
    """
    verdicts, stored_draws = dict[tuple[str, ...], dict[str, Any]](), set[tuple[str, ...]]()
    for verdict in store.read(protocol.table).filter(judge_version=version).iter_rows(named=True):
        verdicts[_values(verdict, protocol.key)] = verdict
        stored_draws.add(_values(verdict, (*protocol.key, *protocol.draw)))
    open_pairs, copies = list[AnswerPair](), list[dict[str, Any]]()
    for pair in pairs:
        judged = verdicts.get(_values(pair.row, protocol.key))
        if judged is None:
            open_pairs.append(pair)
        elif _values(pair.row, (*protocol.key, *protocol.draw)) not in stored_draws:
            copies.append({**judged, **{name: pair.row[name] for name in protocol.draw}})
    return open_pairs, copies


def _values(row: Mapping[str, Any], columns: Sequence[str]) -> tuple[str, ...]:
    return tuple(row[name] for name in columns)


def ask(
    store: Store, pairs: Sequence[AnswerPair], protocol: Protocol, judge: Judge, batch_hours: float | None = None
) -> Work:
    """Ask for everything that is missing. A failed call stores nothing, so the next run makes it again.

    `batch_hours`: use the vendor's batch API, and wait for so long.
    """
    open_pairs, copies = unjudged(store, pairs, protocol, judge.version)
    done = Work(counts=Counter(known_already=len(copies)) if copies else Counter())
    row_type = cast(type[Row], TABLES[protocol.table].row)
    judge_columns = {"judge": judge.name, "judge_version": judge.version}

    def judge_pair(pair: AnswerPair) -> tuple[Row, JudgeReply] | Failed:
        reply = judge.reply(pair)
        if isinstance(reply, Failed):
            return reply
        columns = {**pair.row, **reply._asdict(), **judge_columns}
        return row_type(**{name: value for name, value in columns.items() if name in row_type.model_fields}), reply

    def rows_counted(results: Iterable[tuple[Row, JudgeReply] | Failed]) -> Iterator[Row | Failed]:
        for result in results:
            if isinstance(result, Failed):
                yield result
                continue
            row, reply = result
            done.counts["no_verdict" if reply.label is None else protocol.counted] += 1
            done.counts += Counter(asked_again=int(reply.asked_again), fenced_marks=reply.fenced_marks)
            yield row

    with append_incrementally(store, protocol.table) as append:
        append(copies)
    batches = judge.model.together(store, batch_hours) if judge.model and batch_hours is not None else nullcontext()
    with batches as queue:
        calls_at_once = judge.model.calls_at_once if judge.model else 1  # a stand-in judges in order
        results = ask_missing(f"{protocol.counted} of {judge.name}", judge_pair, open_pairs, calls_at_once, queue)
        store_results(store, protocol.table, rows_counted(results), judge.name, done)
    if judge.model is None:
        done.calls.clear()
    return done
