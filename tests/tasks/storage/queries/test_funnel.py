"""Every line has one outcome, and the counts add up."""

import polars as pl

from schemas.items.conversation import Sighting
from schemas.items.reject import Reject, RejectReason
from tasks.storage.queries.funnel import SHARE, SUPERSEDED, funnel, line_outcomes
from tasks.storage.tables import frame_schema
from tests.builders import battle, conversation, decision, sides, store_with

SOURCE = "2024-09-18-conv.json"


def outcomes(store):
    return {line: (outcome, reason) for _, line, outcome, reason in line_outcomes(store).iter_rows()}


def with_lines(store, **lines):
    """Lines `chat=[1, 2]`, one row each."""
    rows = [
        {"source": SOURCE, "line": line, "side": 0, "record_type": kind} for kind, of in lines.items() for line in of
    ]
    store.replace("sightings", pl.DataFrame(rows, schema=frame_schema(Sighting)))
    return store


def test_the_funnel_of_a_store_adds_up(store):
    counted = funnel(store)
    assert counted.kept + counted.dropped + counted.rejected == counted.lines
    assert sum(counted.dropped_by.values()) == counted.dropped
    assert sum(counted.rejected_by.values()) == counted.rejected == 3
    assert counted.rejected_by == {"not_json": 2, "blank_line": 1}
    assert counted.dropped_by["face"] == counted.dropped_by["same_model"] == 1


def test_a_line_is_kept_dropped_or_rejected(tmp_path):
    kept, out = conversation("a", line=1), conversation("b", line=2)
    store = store_with(
        tmp_path,
        conversations=[kept, out],
        decisions=[decision(kept), decision(out, "face", "pii_text")],
        rejects=[Reject(source=SOURCE, line=3, reason=RejectReason.NOT_JSON, evidence="")],
    )
    with_lines(store, chat=[1, 2])
    assert outcomes(store) == {1: ("kept", None), 2: ("dropped", "face"), 3: ("rejected", "not_json")}


def test_a_replaced_line_is_superseded_and_a_share_line_a_copy(tmp_path):
    last = conversation("a", line=4)
    store = store_with(tmp_path, conversations=[last], decisions=[decision(last)])
    with_lines(store, chat=[1, 4], share=[2])
    assert outcomes(store) == {1: ("dropped", SUPERSEDED), 2: ("dropped", SHARE), 4: ("kept", None)}


def test_a_vote_line_stands_for_its_battle_and_not_for_its_sides(tmp_path):
    left, right = sides("b", line=7)
    vote = battle(left, right)
    store = store_with(
        tmp_path,
        conversations=[left, right],
        battles=[vote],
        decisions=[decision(left), decision(right), decision(vote, "same_model")],
    )
    with_lines(store, leftvote=[7])
    assert outcomes(store) == {7: ("dropped", "same_model")}


def test_two_sides_of_one_share_line_are_one_line_and_kept_with_either(tmp_path):
    left, right = sides("b", line=7)
    store = store_with(tmp_path, conversations=[left, right], decisions=[decision(left, "face"), decision(right)])
    with_lines(store, share=[7, 7])
    assert outcomes(store) == {7: ("kept", None)}


def test_a_line_without_a_decision_is_not_kept(tmp_path):
    store = store_with(tmp_path, conversations=[conversation("a", line=1)])
    assert outcomes(with_lines(store, chat=[1]))[1][0] == "dropped"


def test_an_image_that_was_rejected_is_no_line(tmp_path):
    reject = Reject(source="a.png", line=None, reason=RejectReason.IMAGE_EMPTY, evidence="0 bytes")
    assert funnel(store_with(tmp_path, rejects=[reject])).lines == 0
