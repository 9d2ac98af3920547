"""What somebody said of an answer goes with the person, with the answer, and with the answer it was compared with."""

import json
from functools import partial
from pathlib import Path

import polars as pl
import pytest

from tasks.takedown.take_down import take_down
from tests.builders import NOON
from tests.tasks.ingest.logs import DAY, chat, conv_id, ingested, vote, write
from tests.tasks.takedown.conftest import ANN, BOB

COMMENT = "Ask ann@mail.example.net why this is wrong."
VOTE = vote("left", "right", ip=BOB, opinions=[{"turn": 1, "reasons": ["useful+"]}, {"turn": 1, "reasons": ["lazy-"]}])
LINES = [
    chat("ann", ip=ANN),
    chat("ann", ip=ANN, kind="downvote", at=5) | {"opinions": [{"turn": 1, "comment": COMMENT}]},
    chat("bob", ip=BOB, kind="upvote", at=6),
    VOTE,
]


@pytest.fixture
def reacted(tmp_path):
    """A store with a reaction of Ann and one of Bob, each to a conversation of their own, and a vote of Bob."""
    write(tmp_path / "logs", DAY, *LINES)
    return ingested(tmp_path / "logs", tmp_path / "store")


def ids(store) -> list[str]:
    return sorted(store.read("reactions")["conversation_id"])


ALL = sorted(map(conv_id, ("ann", "bob", "left", "right")))


@pytest.mark.parametrize(
    ("taken", "people", "gone"),
    [
        (["ann"], [], ["ann"]),
        (["right"], [], ["left", "right"]),
        ([], [ANN], ["ann"]),
        ([], [BOB], ["bob", "left", "right"]),
    ],
)
def test_reactions_go_with_what_is_taken_down_and_all_others_stay(reacted, taken, people, gone):
    assert ids(reacted) == ALL
    take_down(reacted, [*map(conv_id, taken)], people, NOON, False)
    assert ids(reacted) == sorted({*ALL} - {*map(conv_id, gone)})
    left = [path for path in Path(reacted.root).rglob("*.parquet") if COMMENT.encode() in path.read_bytes()]
    assert left == [] or "ann" not in gone


def test_a_person_gets_their_own_reactions_and_no_others(reacted, curate, tmp_path):
    out = tmp_path / "ann"
    assert curate("subject", "--store", reacted.root, ANN, "--out", str(out))[0] == 0
    rows = [json.loads(line) for line in (out / "tables" / "reactions.jsonl").read_text("utf-8").splitlines()]
    assert [(row["liked"], row["comment"]) for row in rows] == [(False, COMMENT)]


def test_a_question_sees_no_comment_that_nobody_searched(reacted, curate):
    ask = partial(curate, "sql", reacted.root)
    code, out, _ = ask("SELECT comment, liked FROM reactions WHERE comment IS NOT NULL")
    assert code == 0 and "ann@mail" not in out and "False" in out
    assert "ann@mail" in ask("SELECT comment FROM reactions WHERE comment IS NOT NULL", "--unmask")[1]


def test_buttons_and_votes_of_logs_are_reactions_with_reasons_and_their_sign(reacted):
    rows = reacted.read("reactions").sort("tstamp", "side").with_columns(pl.col("reasons").list.join(","))
    told = rows.select("liked", "side", "winner", "reasons", "turn").rows()
    assert told == [
        (False, None, None, "", 1),
        (True, None, None, "", 1),
        (None, "a", "model_a", "useful+", 1),
        (None, "b", "model_a", "lazy-", 1),
    ]
