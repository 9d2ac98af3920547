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


def test_rejected_lines_are_counted_by_reason(store):
    assert funnel(store).rejected_by == {"not_json": 2, "blank_line": 1}


@pytest.mark.parametrize("reason", ["face", "same_model"])
def test_dropped_lines_are_counted_by_reason(store, reason):
    assert funnel(store).dropped_by[reason] == 1


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


@pytest.mark.parametrize(("record", "reason"), [("chat", SUPERSEDED), ("share", SHARE)])
def test_a_line_that_a_later_one_repeats_is_dropped_by_its_kind(tmp_path, record, reason):
    last = conversation("a", line=4)
    store = store_with(tmp_path, conversations=[last], decisions=[decision(last)])
    lines = {"chat": [4], "share": []}
    lines[record] = [1, *lines[record]]
    with_lines(store, **lines)
    assert outcomes(store) == {1: ("dropped", reason), 4: ("kept", None)}


def test_a_vote_line_stands_for_its_battle_alone(tmp_path):
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


def test_two_sides_of_one_share_line_are_one_line_that_is_kept_with_either(tmp_path):
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


@pytest.fixture(scope="module", params=range(6))
def drawn(tmp_path_factory, request):
    """A store drawn by rule, and what is right of each of its lines. Do not write to it."""
    return drawn_lines(tmp_path_factory.mktemp("drawn"), request.param)


def test_every_line_of_a_drawn_store_has_one_outcome(drawn):
    store, right = drawn
    assert line_outcomes(store)["line"].to_list() == [*right]


def test_each_line_of_a_drawn_store_has_the_outcome_that_the_rule_says(drawn):
    store, right = drawn
    assert outcomes(store) == {line: of_line[:2] for line, of_line in right.items()}


def test_a_drawn_store_has_as_many_lines_of_each_outcome_as_the_rule_says(drawn):
    store, right = drawn
    counted, by_outcome = funnel(store), Counter(outcome for outcome, _, _ in right.values())
    assert counted.lines == len(right)
    assert (counted.kept, counted.dropped, counted.rejected) == (*(by_outcome[o] for o in OUTCOMES),)


def test_dropped_lines_of_a_drawn_store_are_counted_by_reason(drawn):
    store, right = drawn
    reasons = Counter(reason for outcome, reason, _ in right.values() if outcome == "dropped")
    assert Counter(funnel(store).dropped_by) == reasons


def test_the_reason_that_drops_most_comes_first(drawn):
    dropped_by = funnel(drawn[0]).dropped_by
    assert [*dropped_by] == sorted(dropped_by, key=lambda each: (-dropped_by[each], each))


def test_lines_that_wait_only_for_a_review_are_counted(drawn):
    store, right = drawn
    assert funnel(store).held == sum(is_held for _, _, is_held in right.values())


def test_conversations_that_wait_only_for_a_review_are_counted(drawn):
    store, _ = drawn
    held = store.read("decisions").filter(held=True, item_kind="conversation")
    assert funnel(store).held_conversations == held.height


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


SHOWN = drawn_image(1)


@pytest.fixture(scope="module")
def account_of_dropped(tmp_path_factory):
    """The account of a conversation that was dropped for a face."""
    folder, shown = tmp_path_factory.mktemp("dropped"), SHOWN
    out = conversation("out", "Who?", "Me.", image_ids=[shown.image_id], line=12)
    store = store_with(folder, conversations=[out], images=[image(shown)], decisions=[decision(out, "face")])
    measure_clean(store, [out], faces={shown.image_id: {"confidence_max": 0.75}})
    return explain_item(store, "out")


def test_a_dropped_conversation_shows_its_reasons(account_of_dropped):
    assert account_of_dropped["decision"]["reasons"] == ["face"]
    assert account_of_dropped["decision"]["keep"] is False


def test_a_conversation_shows_its_line(account_of_dropped):
    assert account_of_dropped["source"] == f"{SOURCE}:12"


def test_a_conversation_shows_the_signals_of_its_images(account_of_dropped):
    assert account_of_dropped["images"][SHOWN.image_id]["faces"]["confidence_max"] == 0.75


def test_a_conversation_shows_the_signals_of_its_messages(account_of_dropped):
    messages = account_of_dropped["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant"]
    assert "text_pii" in messages[0]["signals"]
    assert "model_names" in messages[1]["signals"]


def test_a_conversation_shows_the_signals_of_its_prompt(account_of_dropped):
    assert account_of_dropped["prompt"]["language"]["language"] == "en"


def test_a_conversation_shows_the_signals_of_its_document(account_of_dropped):
    assert "categories" in account_of_dropped["document"]


@pytest.fixture
def account_of_renamed(tmp_path):
    """The account of a conversation with a model that a policy renames."""
    asked = conversation("c", model="bard", user_id="f" * 24)
    store = store_with(tmp_path, conversations=[asked], decisions=[decision(asked, policy_hash="1" * 12)])
    policy = Policy(name="mine", rules=[], renames=[Rename(model="bard", to="palm-2")])
    store.write_bytes(f"policies/{'1' * 12}.json", policy.model_dump_json().encode())
    return explain_item(store, "c")


def test_a_conversation_shows_whose_it_is(account_of_renamed):
    assert account_of_renamed["user_id"] == "f" * 24


def test_a_conversation_shows_which_name_its_model_is_released_under(account_of_renamed):
    assert (account_of_renamed["model"], account_of_renamed["released_as"]) == ("bard", "palm-2")


@pytest.fixture(scope="module")
def account_of_image(tmp_path_factory):
    """The account of an image that is used once, and resembles another."""
    one, other = SHOWN, drawn_image(2)
    used = conversation("used", image_ids=[one.image_id])
    store = store_with(tmp_path_factory.mktemp("image"), conversations=[used], images=[image(one), image(other)])
    measure_clean(store, [used])
    near = NearImage(
        image_a=other.image_id, image_b=one.image_id, phash_distance=2, pdq_distance=9, grey_correlation=0.99
    )
    store.replace("near_images", frame_of(NearImage, [near]))
    meant = SemanticImage(image_a=other.image_id, image_b=one.image_id, cosine=0.95)
    store.replace("semantic_images", frame_of(SemanticImage, [meant]))
    return explain_item(store, one.image_id)


def test_an_image_shows_its_size(account_of_image):
    assert (account_of_image["image"]["width"], account_of_image["image"]["height"]) == (SHOWN.width, SHOWN.height)


def test_an_image_shows_where_it_is_used(account_of_image):
    assert account_of_image["conversations"] == ["used"]


def test_an_image_shows_its_signals(account_of_image):
    assert account_of_image["signals"]["nsfw"]["nsfw_probability"] == pytest.approx(0.01)


def test_an_image_shows_what_it_resembles(account_of_image):
    assert [pair["pdq_distance"] for pair in account_of_image["near_duplicates"]] == [9]
    assert [pair["cosine"] for pair in account_of_image["semantic_duplicates"]] == [pytest.approx(0.95)]


def test_the_account_of_an_image_is_without_its_bytes(account_of_image):
    assert "bytes" not in account_of_image["image"]


def test_the_account_of_an_image_is_without_vectors(account_of_image):
    assert "vector" not in account_of_image["signals"]["image_embedding"]


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
