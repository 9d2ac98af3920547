"""Topics of two releases on one map: laid over each other by shared rows, or not at all."""

import numpy as np
import polars as pl
import pytest

from tasks.explore.one_map import SHARED_MIN, map_figure, one_map

SEED = 11


def _listing(keys, places, topic="cats"):
    return pl.DataFrame({
        "key": keys, "kind": ["conversation"] * len(keys), "topic": [topic] * len(keys), "topic_id": [0] * len(keys),
        "x": places[:, 0], "y": places[:, 1],
    })  # fmt: skip


@pytest.fixture
def places():
    return np.random.default_rng(SEED).normal(size=(60, 2)) * (3, 1)


@pytest.mark.parametrize("mirrored", [1, -1])
def test_a_turned_scaled_and_mirrored_map_falls_on_the_first(places, mirrored):
    turn = np.array([[np.cos(2), -np.sin(2)], [np.sin(2), np.cos(2)]]) * (mirrored, 1)
    keys = [f"k{n}" for n in range(60)]
    common = one_map(_listing(keys[:50], places[:50]), _listing(keys[10:], (places @ turn * 7 + 5)[10:]))
    assert np.allclose(common.rows[1].select("x", "y").to_numpy(), places[10:])
    assert "by the 40 rows that both hold, which are 0.0%" in common.words


def test_maps_with_nothing_in_common_are_not_laid_over_each_other(places):
    keys = [f"k{n}" for n in range(60)]
    other = np.random.default_rng(SEED + 1).normal(size=(60, 2))
    common = one_map(_listing(keys, places), _listing(keys, other))
    assert common.rows == [] and common.words.startswith("No common map: the 60 rows that both hold are")


def test_few_shared_rows_make_no_map(places):
    keys = [f"k{n}" for n in range(60)]
    common = one_map(_listing(keys[:30], places[:30]), _listing(keys[30 - SHARED_MIN + 1 : 59], places[:48]))
    assert (
        common.words == f"No common map: {SHARED_MIN - 1} rows with a place are in both, and {SHARED_MIN} are needed."
    )


def test_hostile_names_are_texts_of_the_figure(places):
    listing = _listing([f"k{n}" for n in range(60)], places, "</text><script>x</script>")
    svg = map_figure(one_map(listing, listing), ["<b>1", "$x_1$"]).svg
    assert "<script" not in svg and "&lt;script&gt;" in svg
