"""Opinions of log lines: a vote with words about one answer is the same vote as one with words about both."""

import pytest

from tests.tasks.ingest.logs import DAY, ingested, rejected, state, vote, write

SAID = {"turn": 1, "reasons": ["useful+"], "comment": "Short words"}
TALKS = [state(name, "Why?", "So.", "And then?", "That.", model_name=model) for name, model in (("a", "x"), ("b", "y"))]
VOTES = "SELECT model_a, model_b, turn, winner, reasons_a, reasons_b, counts FROM votes"


@pytest.mark.parametrize(
    ("opinions", "reasons"), [([SAID, None], (["useful+"], [])), ([None, SAID], ([], ["useful+"]))]
)
def test_a_vote_with_words_about_one_answer_is_among_the_votes(tmp_path, opinions, reasons):
    write(tmp_path / "logs", DAY, vote(*TALKS, "rightvote", opinions=opinions))
    store = ingested(tmp_path / "logs", tmp_path / "store")
    assert rejected(store) == {}
    assert store.ask(VOTES).rows() == [("x", "y", 1, "model_b", *reasons, True)]


@pytest.mark.parametrize("opinions", [[SAID, None], [None, SAID], [SAID, {"turn": 1}]])
def test_both_sides_of_a_battle_end_at_the_turn_that_one_opinion_names(tmp_path, opinions):
    write(tmp_path / "logs", DAY, vote(*TALKS, opinions=opinions))
    battles = ingested(tmp_path / "logs", tmp_path / "store").read("battles")
    assert battles.select("turns_a", "turns_b").rows() == [(1, 1)]


def test_a_vote_on_a_turn_that_the_other_side_has_not_answered_is_a_reject(tmp_path):
    silent = state("b", "Why?", model_name="y")
    write(tmp_path / "logs", DAY, vote(TALKS[0], silent, opinions=[SAID, None]))
    assert rejected(ingested(tmp_path / "logs", tmp_path / "store")) == {(DAY, 1): "bad_reaction"}
