"""Real images and answers in the shapes of all three eras, with planted problems and the truth about them.

They lie in `arena-logs` of the data that `tests/places.py` names. Image models are not run.
"""

import hashlib
import json
from collections import defaultdict

import pytest

from tests.places import DATA, needs_data
from tests.tasks.ingest.logs import ingested, texts

FOLDER = DATA / "arena-logs"
pytestmark = needs_data


@pytest.fixture(scope="module")
def facts():
    found = defaultdict(list)
    for raw in (FOLDER / "expected.jsonl").read_text().splitlines():
        fact = json.loads(raw)
        found[fact["kind"]].append(fact)
    return found


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return ingested(FOLDER / "logs", tmp_path_factory.mktemp("real") / "store")


@pytest.fixture(scope="module")
def rows(store):
    return {row["conversation_id"]: row for row in store.read("conversations").to_dicts()}


@pytest.fixture(scope="module")
def battles(store):
    return {row["battle_id"]: row for row in store.read("battles").to_dicts()}


def test_every_line_is_in_one_place(store):
    put_in = sum(
        raw.count(b"\n") + (not raw.endswith(b"\n"))
        for raw in (p.read_bytes() for p in (FOLDER / "logs").glob("*conv.json"))
    )
    kept = store.read("sightings").select("source", "line").unique().height
    assert kept + store.read("rejects").drop_nulls("line").height == put_in


def test_every_bad_line_is_rejected_and_nothing_flagged_is_in_any_table(store, facts):
    lost = {
        (source, line) for source, line in store.read("rejects").drop_nulls("line").select("source", "line").iter_rows()
    }
    for fact in facts["bad_line"]:
        raws = (FOLDER / "logs" / fact["file"]).read_bytes().removesuffix(b"\n").split(b"\n")
        places = [
            n
            for n, raw in enumerate(raws, 1)
            if fact["sha256"] in {hashlib.sha256(raw + end).hexdigest() for end in (b"", b"\n")}
        ]
        assert places and {(fact["file"], n) for n in places} <= lost
    held = set(store.read("quarantine")["key"])
    seen = store.read("sightings")
    shown = (
        set(seen["conv_id"]) | set(seen["images"].explode()) | {name[:32] for name in store.read("image_files")["name"]}
    )
    for fact in facts["csam_flag"]:
        assert fact["image"] in held and fact["image"] not in shown
        assert fact.get("conversation_id") not in shown


def test_images_that_cannot_be_used_have_their_reason(rows, facts):
    reasons = {
        "image_corrupt": {"image_truncated", "not_an_image", "image_empty"},
        "image_bomb": {"image_too_large"},
        "animated_picture": {"image_animated"},
        "image_missing": {"image_missing"},
        "image_path_escape": {"image_path_escape", "image_name_invalid", "image_missing"},
    }
    for kind, allowed in reasons.items():
        for fact in facts[kind]:
            assert set(rows[fact["conversation_id"]]["image_problems"]) & allowed, fact


def test_conversations_are_put_together_as_planted(store, rows, facts):
    for fact in facts["crosses_midnight"]:
        assert rows[fact["conversation_id"]]["num_turns"] == fact["turns"]
    for fact in facts["few_shot_offset"]:
        assert rows[fact["conversation_id"]]["num_turns"] == fact["num_turns"]
    for fact in facts["image_reset_same_conv_id"]:
        assert sum(name.startswith(fact["conversation_id"]) for name in rows) == fact["conversations"]
    for fact in facts["regenerated"]:
        assert fact["keep_answer"] in [
            texts(row)[-1] for name, row in rows.items() if name.startswith(fact["conversation_id"])
        ]
    for fact in facts["stringified_record"]:
        assert fact["conversation_id"] in rows


def test_battles_are_linked_and_named_as_planted(rows, battles, facts):
    for fact in facts["anonymous_revealed"]:
        assert battles[fact["battle"]]["anonymous"] is True
    for fact in facts["named_battle"]:
        assert battles[fact["battle"]]["anonymous"] is False
    for fact in facts["same_model_both_sides"]:
        assert battles[fact["battle"]]["model_a"] == battles[fact["battle"]]["model_b"]
    for fact in facts["unequal_sides"]:
        sides = [rows[battles[fact["battle"]][side]] for side in ("conversation_a", "conversation_b")]
        assert len(texts(sides[0])) != len(texts(sides[1]))
    for fact in facts["multi_turn_battle"]:
        assert battles[fact["battle"]]["turns_a"] == fact["num_turns"]
