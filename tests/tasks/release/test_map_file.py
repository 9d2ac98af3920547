"""A release declares the places of its rows on the topic map, `diff` says when they moved."""

import polars as pl

from flows.products import parts_of_release, problems_of
from tasks.release.core_parts import MAP
from tasks.release.diff import diff_releases
from tests.tampered_release import rewrite


def test_every_row_with_a_topic_has_a_place(release):
    points = pl.read_parquet(release / MAP)
    chat = pl.read_parquet(release / "chat" / "data" / "*.parquet", columns=["conversation_id", "topic_id"])
    placed = points.filter(config="chat").select(conversation_id="id", topic_id="topic_id")
    assert placed.equals(chat.drop_nulls("topic_id")) and points["x"].null_count() == 0
    assert set(points["config"]) == {"chat", "battle", "bench", "failures"}
    assert problems_of(release) == []


def test_diff_says_that_places_moved(release, own_release):
    rewrite(own_release, MAP, lambda rows: [rows[0] | {"x": 77.0}, *rows[1:]])
    assert (
        "topic map: 1 rows of both releases have another place"
        in diff_releases(release, own_release, parts_of_release).rules
    )
    assert diff_releases(release, release, parts_of_release).rules == []
