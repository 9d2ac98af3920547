"""What the demo arena plants is caught, kind by kind."""

import pytest

from tasks.demo.planted import score_planted


@pytest.fixture(scope="module")
def scores(curated):
    return {score.kind: score for score in score_planted(curated.arena / "expected.jsonl", curated.store)}


def test_every_planted_problem_is_caught(scores):
    assert {kind: score.missed_ids for kind, score in scores.items() if score.missed} == {}


def test_every_kind_of_problem_is_planted(scores):
    kinds = {"face", "pii_text", "leaked_identity", "service_error", "csam_flag", "bad_line", "near_duplicate_picture"}
    kinds |= {"exact_duplicate", "image_corrupt", "image_bomb", "exif_gps", "preset", "hostile_text", "regenerated"}
    assert kinds <= set(scores)
