"""Every line has one outcome with an account of it, and the counts add up."""

import polars as pl
import pytest

from schemas.items.conversation import Sighting
from schemas.items.image import NearImage, SemanticImage
from schemas.items.reject import Reject, RejectReason
from schemas.policy import Policy, Rename
from tasks.storage.queries.explain import explain_item
from tasks.storage.records import SHARE, SUPERSEDED, funnel, line_outcomes
from tasks.storage.tables import frame_of, frame_schema
from tests.builders import (
    battle,
    conversation,
    decision,
    drawn_image,
    facts_frame,
    image,
    measure_clean,
    sides,
    store_with,
)

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


def test_a_dropped_conversation_shows_its_reasons_and_the_signals_of_every_part(tmp_path):
    shown = drawn_image(1)
    out = conversation("out", "Who?", "Me.", image_ids=[shown.image_id], line=12)
    store = store_with(tmp_path, conversations=[out], images=[image(shown)], decisions=[decision(out, "face")])
    measure_clean(store, [out], faces={shown.image_id: {"confidence_max": 0.75}})
    account = explain_item(store, "out")
    assert account["decision"]["reasons"] == ["face"]
    assert account["decision"]["keep"] is False
    assert account["source"] == f"{SOURCE}:12"
    assert account["images"][shown.image_id]["faces"]["confidence_max"] == 0.75
    assert [message["role"] for message in account["messages"]] == ["user", "assistant"]
    assert "text_pii" in account["messages"][0]["signals"]
    assert "model_names" in account["messages"][1]["signals"]
    assert account["prompt"]["language"]["language"] == "en"
    assert "categories" in account["document"]


def test_a_conversation_tells_whose_it_is_and_which_name_its_model_is_released_under(tmp_path):
    asked = conversation("c", model="bard", user_id="f" * 24)
    store = store_with(tmp_path, conversations=[asked], decisions=[decision(asked, policy_hash="1" * 12)])
    policy = Policy(name="mine", rules=[], renames=[Rename(model="bard", to="palm-2")])
    store.write_bytes(f"policies/{'1' * 12}.json", policy.model_dump_json().encode())
    account = explain_item(store, "c")
    assert (account["user_id"], account["model"], account["released_as"]) == ("f" * 24, "bard", "palm-2")


def test_an_image_shows_its_signals_where_it_is_used_and_what_it_resembles(tmp_path):
    one, other = drawn_image(1), drawn_image(2)
    used = conversation("used", image_ids=[one.image_id])
    store = store_with(tmp_path, conversations=[used], images=[image(one), image(other)])
    measure_clean(store, [used])
    near = NearImage(
        image_a=other.image_id, image_b=one.image_id, phash_distance=2, pdq_distance=9, grey_correlation=0.99
    )
    store.replace("near_images", frame_of(NearImage, [near]))
    meant = SemanticImage(image_a=other.image_id, image_b=one.image_id, cosine=0.95)
    store.replace("semantic_images", frame_of(SemanticImage, [meant]))
    account = explain_item(store, one.image_id)
    assert (account["image"]["width"], account["image"]["height"]) == (one.width, one.height)
    assert account["conversations"] == ["used"]
    assert account["signals"]["nsfw"]["nsfw_probability"] == pytest.approx(0.01)
    assert [pair["pdq_distance"] for pair in account["near_duplicates"]] == [9]
    assert [pair["cosine"] for pair in account["semantic_duplicates"]] == [pytest.approx(0.95)]
    assert "bytes" not in account["image"]
    assert "vector" not in account["signals"]["image_embedding"]


@pytest.mark.parametrize(("line", "outcome"), [(1, "kept"), (50, "dropped"), (500, "dropped"), (600, "rejected")])
def test_a_line_shows_its_outcome(store, line, outcome):
    account = explain_item(store, f"{SOURCE}:{line}")
    assert account["line"]["outcome"] == outcome
    assert (account["rejected"] is not None) == (outcome == "rejected")


@pytest.mark.parametrize("item", ["", "nothing", ":", ":1", f"{SOURCE}:x", f"{SOURCE}:99999", f"{SOURCE}:²", "'; --"])
def test_what_the_store_does_not_know_has_no_account(store, item):
    assert explain_item(store, item) is None


def test_the_fact_measured_last_is_shown(tmp_path):
    out = conversation("a", "Who?", "Me.")
    store = store_with(tmp_path, conversations=[out])
    for version in ("1", "2"):
        store.append("signals/refusal", facts_frame("refusal", {out.turns[1].text_id: {}}, version))
    assert explain_item(store, "a")["messages"][1]["signals"]["refusal"]["version"] == "2"
