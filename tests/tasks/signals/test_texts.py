"""Texts that lack a signal are found and read some at a time."""

import polars as pl
import pytest

from schemas.signals import MeasuredOn
from tasks.providers import Providers
from tasks.signals import texts
from tasks.signals.registry import signal_of
from tasks.signals.run import Lacking, append_rows, cut, measured
from tests.builders import NOON, conversation, store_with

TEXT_OF = {f"{number:032x}": f"text {number}, ünusual" for number in range(50)}


@pytest.mark.parametrize("order", [sorted, lambda ids: sorted(ids, reverse=True)])
def test_waiting_texts_are_those_that_were_given_in_whatever_order_they_are_read(order, monkeypatch):
    monkeypatch.setattr(texts, "WINDOW", 7)
    given = [pl.DataFrame(rows, ["content_id", "text"], orient="row") for rows in cut([*TEXT_OF.items()], 9)]
    wanted = [*TEXT_OF][::2]
    waiting = texts.WaitingTexts(wanted, [*given, given[0]])
    assert {each: waiting[each] for each in order(wanted)} == {each: TEXT_OF[each] for each in wanted}
    assert [*waiting] == wanted and len(waiting) == len(wanted)


def test_only_what_has_no_value_of_this_version_lacks_a_signal(tmp_path):
    store, signals = store_with(tmp_path), {name: signal_of(name, Providers()) for name in ("code", "tokens")}
    rows, _ = measured([signals["code"]], ["a", "b"], ["one", "two"], NOON)
    append_rows(store, rows)
    lacking = Lacking(store, signals)
    for ids in (["a", "c"], ["c", "b", None]):
        lacking.add(pl.Series(ids, dtype=pl.String))
    found = {names: sorted(ids) for names, ids in lacking.by_signals().items()}
    assert found == {("tokens",): ["a", "b"], ("code", "tokens"): ["c"]}


def test_spoken_texts_are_messages_answers_and_the_whole_prompt(tmp_path):
    store = store_with(tmp_path, conversations=[conversation("c", "one", "two", "three", "four")])
    said = {on: rows["text"].to_list() for on, rows in texts.texts_by_kind(store.read("conversations")).items()}
    assert said[MeasuredOn.MESSAGES] == ["one", "two", "three", "four"]
    assert said[MeasuredOn.ASSISTANT_MESSAGES] == ["two", "four"]
    assert said[MeasuredOn.PROMPT] == ["one\n\nthree"]
