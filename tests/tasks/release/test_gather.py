"""Which rows are released: what decisions keep, less the benchmark's prompts in chat; joined by blocks or at once."""

from datetime import timedelta

import polars as pl
import pytest

from schemas.items.conversation import UNDATED_BEFORE, UNDATED_FROM
from schemas.items.image import NearImage
from schemas.policy import Rename, policy_hash
from tasks.release import gather
from tasks.storage.queries.conversation_features import english_name
from tasks.storage.queries.released import days
from tests.builders import (
    NOON,
    battle,
    conversation,
    decision,
    drawn_image,
    gathered_rows,
    image,
    measure_clean,
    sides,
    store_with,
)
from tests.small_store import HOSTILE_MODEL, POLICY, small_store
from tests.tasks.bench.contamination.test_guard import ALIKE, alike_store


def _ids(store, config, column):
    return set(gathered_rows(store).rows[config][column])


def test_only_what_was_kept_is_released_and_battles_on_a_benchmark_prompt_are_marked(store):
    assert not {"d0", "d1", "d2"} & _ids(store, "chat", "conversation_id")
    assert _ids(store, "battle", "question_id") == {f"b{n}" for n in range(6)}
    gathered = gathered_rows(store)
    chat = set(gathered.rows["chat"]["conversation_id"])
    assert not {"c00", "b0", "b0-right"} & chat
    assert gathered.withheld_for_bench == 3
    assert "c06" in chat  # another prompt on the same image
    battles = gathered_rows(store).rows["battle"]
    assert battles.filter("in_bench")["question_id"].to_list() == ["b0"]


def test_models_are_released_under_the_names_of_the_policy(own_store):
    renames = [Rename(model="vicuna-13b", to="vicuna-13b-v1.5"), Rename(model="llava-34b", to="x", until=NOON)]
    policy = POLICY.model_copy(update={"renames": renames})
    own_store.write_bytes(f"policies/{policy_hash(POLICY)}.json", policy.model_dump_json().encode())
    rows = gathered_rows(own_store).rows
    named = {*rows["chat"]["model"], *rows["battle"]["model_a"], *rows["battle"]["model_b"]}
    assert named == {"vicuna-13b-v1.5", "llava-34b", HOSTILE_MODEL}
    assert "vicuna-13b" in set(own_store.read("battles")["model_a"])


def test_a_time_that_nobody_knows_is_released_as_none(own_store):
    conversations = own_store.read("conversations")
    undated = pl.when(conversation_id="c03").then(UNDATED_BEFORE - timedelta(seconds=1)).otherwise("tstamp")
    own_store.replace("conversations", conversations.with_columns(tstamp=undated, day=undated.dt.date()))
    chat = gathered_rows(own_store).rows["chat"]
    times = dict(chat.select("conversation_id", "tstamp").iter_rows())
    assert [name for name, time in times.items() if time is None] == ["c03"]
    assert days(own_store)[0].year == 2024


def test_a_time_before_the_hour_of_those_that_nobody_knows_is_released(own_store):
    conversations = own_store.read("conversations")
    early = pl.when(conversation_id="c03").then(UNDATED_FROM - timedelta(days=30)).otherwise("tstamp")
    own_store.replace("conversations", conversations.with_columns(tstamp=early, day=early.dt.date()))
    chat = gathered_rows(own_store).rows["chat"]
    assert chat["tstamp"].null_count() == 0
    assert chat["conversation_id"][0] == "c03"
    assert days(own_store)[0].year == 2022


def test_an_undecided_conversation_is_not_released(own_store):
    before = _ids(own_store, "chat", "conversation_id")
    decisions = own_store.read("decisions")
    own_store.replace("decisions", decisions.filter(pl.col("item_id") != "c03"))
    assert before - _ids(own_store, "chat", "conversation_id") == {"c03"}


def test_the_same_prompt_on_a_near_image_is_withheld_too(own_store):
    near = own_store.read("near_images")
    images = sorted(drawn_image(seed).image_id for seed in (0, 1))
    pair = NearImage(image_a=images[0], image_b=images[1], phash_distance=2, pdq_distance=10, grey_correlation=0.99)
    copy = conversation("copy", "What is in picture 0?", "Thing 0.", image_ids=[drawn_image(1).image_id])
    rows = own_store.read("conversations")
    own_store.append("conversations", pl.DataFrame([copy.model_dump()], schema=rows.schema))
    decided = own_store.read("decisions")
    own_store.append("decisions", pl.DataFrame([decision(copy).model_dump()], schema=decided.schema))
    assert "copy" in _ids(own_store, "chat", "conversation_id")
    own_store.replace("near_images", pl.DataFrame([pair.model_dump()], schema=near.schema))
    assert "copy" not in _ids(own_store, "chat", "conversation_id")
    assert "c01" in _ids(own_store, "chat", "conversation_id")  # the near image with another prompt


def test_what_was_not_measured_is_null_and_not_false(tmp_path):
    lone = conversation("lone", image_ids=[drawn_image().image_id])
    store = store_with(tmp_path, conversations=[lone], decisions=[decision(lone)], images=[image()])
    measure_clean(store, [lone], categories={lone.document_id: None}, language={lone.prompt_id: None})
    (row,) = gathered_rows(store).rows["chat"].to_dicts()
    assert row["categories"]["ocr"] is None
    assert row["categories"]["is_code"] is False
    assert row["language"] == "unknown"
    assert row["topic"] is row["topic_id"] is None


@pytest.mark.parametrize(
    ("of_a", "of_b", "either", "refused_by"),
    [
        (True, False, True, "model_a"), (False, True, True, "model_b"), (True, True, True, "both"),
        (False, False, False, "neither"), (True, None, True, None), (None, False, None, None),
    ],
)  # fmt: skip
def test_a_battle_says_whose_answers_decline(tmp_path, of_a, of_b, either, refused_by):
    left, right = sides("b1", "Who is it?", "No name.", image_ids=[drawn_image().image_id])
    right = right.model_copy(update={"turns": conversation("x", "Who is it?", "A friend.").turns})
    vote = battle(left, right)
    kept = [decision(item) for item in (left, right, vote)]
    store = store_with(tmp_path, conversations=[left, right], battles=[vote], decisions=kept, images=[image()])
    said = {left.turns[-1].text_id: of_a, right.turns[-1].text_id: of_b}
    facts = {name: None if refuses is None else {"refusal": refuses} for name, refuses in said.items()}
    measure_clean(store, [left, right], refusal=facts)
    (row,) = gathered_rows(store).rows["battle"].to_dicts()
    assert (row["categories"]["refusal"], row["refused_by"]) == (either, refused_by)


def test_languages_are_spelled_as_english_names():
    codes = ["en", "zh", "pt", "yue", "zh-Hant", "unknown", "", None, "qqq", "../x"]
    names = ["English", "Chinese", "Portuguese", "Cantonese", "Chinese", "unknown", "unknown", "unknown", "unknown"]
    assert [english_name(code) for code in codes] == [*names, "unknown"]


PARTED = ("conversations", "battles", "decisions", "topics", "signals/tokens", "signals/language", "signals/refusal")


@pytest.fixture(scope="module")
def alike(tmp_path_factory):
    """The small store with votes on several days."""
    made = small_store(tmp_path_factory.mktemp("blocks"))
    made.replace("battles", _on_days(made.read("battles")))
    return made


def _on_days(battles):
    days = pl.duration(days=pl.int_range(pl.len(), dtype=pl.Int64).shuffle(seed=1))
    return battles.with_columns(tstamp=pl.col("tstamp") + days)


@pytest.fixture(scope="module")
def whole(alike):
    return gathered_rows(alike)


@pytest.mark.parametrize("block_rows", [2, 9])
def test_blocks_of_any_size_give_the_same_rows_in_the_same_order(alike, whole, block_rows):
    found = gathered_rows(alike, block_rows=block_rows)
    assert found.withheld_for_bench == whole.withheld_for_bench == 3
    for config, rows in whole.rows.items():
        assert found.rows[config].equals(rows), config


def test_parts_in_any_order_and_number_give_the_same_rows(tmp_path, whole):
    alike = small_store(tmp_path)
    alike.replace("battles", _on_days(alike.read("battles")))
    for table in PARTED:
        rows = alike.read(table).sample(fraction=1, shuffle=True, seed=3)
        alike.replace(table, rows[:0])
        for some in rows.iter_slices(4):
            alike.append(table, some)
    found = gathered_rows(alike, block_rows=5)
    for config, rows in whole.rows.items():
        assert found.rows[config].equals(rows), config


def test_blocks_of_long_conversations_hold_fewer_and_give_the_same_rows(alike, whole, monkeypatch):
    """A block's memory is bounded however long conversations are."""
    ((rows, size_bytes),) = alike.part_sizes("conversations")
    monkeypatch.setattr(gather, "MEAN_ROW_BYTES", size_bytes / rows / 4)
    assert gather.conversation_weight(alike) == pytest.approx(4)
    blocks = gathered_rows(alike, block_rows=8)
    for config, frame in whole.rows.items():
        assert blocks.rows[config].equals(frame), config


def test_a_store_without_votes_has_no_rows_of_battles(tmp_path):
    alike = small_store(tmp_path)
    alike.replace("battles", alike.read("battles")[:0])
    assert gathered_rows(alike).rows["battle"].is_empty()


@pytest.mark.parametrize("hidden", [False, True], ids=["public", "hidden"])
@pytest.mark.parametrize("what", ALIKE)
def test_what_is_alike_to_a_prompt_of_another_block_is_withheld(tmp_path, what, hidden):
    alike = alike_store(tmp_path, *ALIKE[what], hidden=hidden)
    found = gathered_rows(alike, block_rows=1)
    assert found.rows["chat"].is_empty()
    assert found.rows["battle"]["in_bench"].all()
