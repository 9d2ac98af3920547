"""Every line has one outcome with an account of it, and the counts add up."""

import random
from collections import Counter

import polars as pl
import pytest

from schemas.items.conversation import Sighting
from schemas.items.image import NearImage, SemanticImage
from schemas.items.reject import Reject, RejectReason
from schemas.policy import Policy, Rename
from tasks.storage.queries.explain import explain_item
from tasks.storage.records import SHARE, SUPERSEDED, funnel, line_outcomes, unread_parts
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


OUTCOMES = ["kept", "dropped", "rejected"]
RECORDS = ["chat", "leftvote", "bothbad_vote", "upvote", "share"]


def drawn_lines(folder, seed):
    """A store drawn by rule, and of each line its outcome, reason, and whether it waits only for a review."""
    drawn = random.Random(seed)
    lines, items, decisions, rejects, right = {}, {"conversations": [], "battles": []}, [], [], {}
    for line in range(1, 60):
        record, number_of_items = drawn.choice([*RECORDS, "rejected"]), drawn.randint(0, 2)
        if record == "rejected":
            rejects.append(Reject(source=SOURCE, line=line, reason="not_json", evidence=""))
            right[line] = ("rejected", "not_json", False)
            continue
        lines.setdefault(record, []).extend([line] * drawn.randint(1, 2))
        of_line = []
        for number in range(number_of_items):
            left, right_side = sides(f"i{line}-{number}", line=line)
            item = battle(left, right_side) if record.endswith("vote") and record != "upvote" else left
            items["battles" if item is not left else "conversations"].append(item)
            reasons = drawn.choice([[], ["face"], ["pii_text", "face"]])
            is_held = bool(reasons) and drawn.random() < 0.3
            if drawn.random() < 0.9:
                decisions.append(decision(item, *reasons, held=is_held))
                of_line.append((bool(reasons), reasons[0] if reasons else None, is_held))
            else:
                of_line.append((2, None, False))  # without a decision
            # Of an item of the other kind with the same line, the line does not have the outcome.
            other = left if item is not left else battle(left, right_side)
            if drawn.random() < 0.3:
                items["conversations" if other is left else "battles"].append(other)
                decisions.append(decision(other, *drawn.choice([[], ["nsfw"]])))
        # Items have ids in the order of their numbers; one that is kept comes first, one without a decision last.
        rank, reason, is_held = min(of_line, default=(2, None, False), key=lambda item: item[0])
        repeats = SHARE if record == "share" else SUPERSEDED
        right[line] = ("kept", None, is_held) if rank == 0 else ("dropped", reason or repeats, is_held)
    rejects.append(Reject(source="a.png", line=None, reason=RejectReason.IMAGE_EMPTY, evidence="0 bytes"))
    store = store_with(folder, **items, decisions=decisions, rejects=rejects)
    return with_lines(store, **lines), right


@pytest.mark.parametrize("seed", range(6))
def test_each_line_of_a_drawn_store_has_the_outcome_that_the_rule_says(tmp_path, seed):
    store, right = drawn_lines(tmp_path, seed)
    rows = line_outcomes(store)
    assert rows["line"].to_list() == [*right]
    assert outcomes(store) == {line: of_line[:2] for line, of_line in right.items()}
    counted = funnel(store)
    by_outcome = Counter(outcome for outcome, _, _ in right.values())
    reasons = Counter((outcome, reason) for outcome, reason, _ in right.values())
    assert (counted.kept, counted.dropped, counted.rejected) == (*(by_outcome[o] for o in OUTCOMES),)
    assert Counter({("dropped", reason): count for reason, count in counted.dropped_by.items()}) == Counter(
        {key: count for key, count in reasons.items() if key[0] == "dropped"}
    )
    assert [*counted.dropped_by] == sorted(counted.dropped_by, key=lambda each: (-counted.dropped_by[each], each))
    assert counted.held == sum(is_held for _, _, is_held in right.values())
    held = store.read("decisions").filter(held=True, item_kind="conversation")
    assert (counted.lines, counted.held_conversations) == (len(right), held.height)


def test_a_line_with_two_outcomes_ends_the_run(tmp_path):
    kept = conversation("a", line=1)
    reject = Reject(source=SOURCE, line=1, reason=RejectReason.NOT_JSON, evidence="")
    store = store_with(tmp_path, conversations=[kept], decisions=[decision(kept)], rejects=[reject])
    with pytest.raises(AssertionError, match="a line has two outcomes"):
        funnel(with_lines(store, chat=[1]))


def test_parts_that_were_not_read_are_counted_by_kind_the_most_first(tmp_path):
    kinds = [["video", "audio"], [], ["page", "audio", "audio"], ["page"]]
    rows = [conversation(f"c{number}", unread_parts=parts) for number, parts in enumerate(kinds)]
    store = store_with(tmp_path, conversations=rows)
    assert [*unread_parts(store).items()] == [("audio", 3), ("page", 2), ("video", 1)]


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
