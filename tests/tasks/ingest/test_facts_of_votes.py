"""What published sets say beside a vote is in the view `votes`, and costs no vote."""

import random
from typing import Any

import pytest

from tasks.storage.tables import Store
from tests.tasks.ingest.foreign import put_rows
from tests.tasks.ingest.logs import ingested, rejected
from tests.tasks.ingest.test_formats import ROWS
from tests.tasks.ingest.test_text_arenas import row_of_ppe, row_of_search_arena

Row = dict[str, Any]
FACTS = "SELECT line, session_order, categories, languages, turn, counts FROM votes ORDER BY line"
CATEGORY_TAG = {
    "math_v0.1": {"math": True},
    "criteria_v0.1": {"complexity": False, "real_world": True},
    "if": {"score": 4},
}
SETS = {
    "140k": (
        ROWS["human-preference"]
        | {"evaluation_order": 3, "category_tag": CATEGORY_TAG, "language": "pl", "is_code": True},
        (3, ["math", "real_world", "is_code"], ["pl"]),
    ),
    "VisionArena": (
        ROWS["vision-arena-battle"] | {"categories": {"captioning": True, "ocr": False}, "language": "German"},
        (None, ["captioning"], ["German"]),
    ),
    "WildVision": (ROWS["wildvision-battle"] | {"domain": "Urban"}, (None, ["Urban"], ["English"])),
    "search-arena": (
        row_of_search_arena(2)
        | {"primary_intent": "Factual Lookup", "secondary_intent": None, "languages": ["pl", "en"]},
        (None, ["Factual Lookup"], ["pl", "en"]),
    ),
    "PPE": (row_of_ppe(0), (None, [], ["English"])),
}  # fmt: skip
"""Published set -> (a row, place in the session with tags and languages that the row states)."""


def taken_in(tmp_path, rows: list[Row]) -> Store:
    """The store of a Parquet file of these rows."""
    return ingested(put_rows(tmp_path / "data", rows, "parquet"), tmp_path / "store")


@pytest.mark.parametrize("name", SETS)
def test_what_a_set_says_beside_a_vote_is_stored_with_it(tmp_path, name):
    row, facts = SETS[name]
    store = taken_in(tmp_path, [row])
    assert rejected(store) == {}
    assert store.ask(FACTS).rows() == [(1, *facts, 1, True)]


@pytest.mark.parametrize("seed", range(3))
def test_each_vote_has_its_place_in_the_session_also_where_others_have_none(tmp_path, seed):
    drawn = random.Random(seed)
    orders = [drawn.choice((None, drawn.randint(0, 40))) for _ in range(12)] + [None, 5]
    # A column of numbers in which some are null is one of fractions for many writers.
    rows = [
        ROWS["human-preference"]
        | {"id": f"vote-{seed}-{number:04d}", "evaluation_order": None if order is None else float(order)}
        for number, order in enumerate(orders)
    ]
    store = taken_in(tmp_path, rows)
    assert rejected(store) == {}
    assert store.ask(FACTS)["session_order"].to_list() == orders


def test_a_tag_that_is_no_short_text_costs_no_vote(tmp_path):
    row = ROWS["human-preference"] | {"category_tag": {"a\nb": True, "x" * 300: True, "math": True}, "domain": ""}
    store = taken_in(tmp_path, [row])
    assert store.ask(FACTS)["categories"].to_list() == [["math"]]


@pytest.mark.parametrize("side", "ab")
def test_a_vote_on_a_side_that_ends_with_a_question_is_a_battle_of_all_that_was_said(tmp_path, side):
    row, _ = SETS["140k"]
    more = [*row[f"conversation_{side}"], row["conversation_a"][0]]
    store = taken_in(tmp_path, [row | {f"conversation_{side}": more}])
    assert rejected(store) == {}
    battle = store.read("battles").row(0, named=True)
    assert (battle["turns_a"], battle["turns_b"]) == ((2, 1) if side == "a" else (1, 2))
    assert store.height("reactions") == 0
