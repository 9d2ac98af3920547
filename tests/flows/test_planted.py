"""Every problem that the demo arena plants is caught."""

import json

import pytest

from tasks.demo.planted import score_planted
from tasks.demo.planted_evidence import read_facts


@pytest.fixture(scope="module")
def scores(curated):
    return {score.kind: score for score in score_planted(curated.arena / "expected.jsonl", curated.store)}


def test_every_planted_problem_is_caught(scores):
    assert {kind: score.missed_ids for kind, score in scores.items() if score.missed} == {}


@pytest.mark.parametrize("kind", ["exact_duplicate", "near_duplicate_picture"])
def test_explain_names_the_right_duplicate_match_of_every_planted_copy(curate, curated, kind):
    groups: dict[str, list[str]] = {}
    for fact in read_facts(curated.arena / "expected.jsonl").get(kind, []):
        groups.setdefault(fact["group"], []).append(fact["conversation_id"])
    named = 0
    for members in groups.values():
        accounts = {name: _explained(curate, curated, name) for name in members}
        for name, account in accounts.items():
            if account["decision"]["reasons"] != ["duplicate"]:
                assert account["twin"] is None, name
                continue
            twin = account["twin"]["conversation"]
            assert twin == account["decision"]["duplicate_of"]
            assert twin in accounts and accounts[twin]["decision"]["keep"], (name, twin)
            (images,) = account["twin"]["images"]
            assert images["relation"] in (["exact"] if kind == "exact_duplicate" else ["exact", "perceptual"])
            assert account["twin"]["prompt_cosine"] >= 0.9
            named += 1
    assert named >= len(groups) > 0


def _explained(curate, curated, item: str) -> dict:
    code, out, _ = curate("explain", item, "--store", curated.settings.store, "--json")
    assert code == 0
    return json.loads(out)
