"""The demo: every planted problem is caught, and its models are judged in the order of their planted strengths."""

import json
import shutil
from pathlib import Path

import pytest

import flows.commands.demo
from flows.demo import demo
from flows.products import problems_of
from schemas.settings import Settings
from tasks.demo.answers import BASELINE, board_beside_strengths
from tasks.demo.planted import score_planted
from tasks.demo.planted_evidence import read_facts
from tasks.storage.tables import Store


def test_the_board_follows_the_planted_strengths_and_is_released_as_that_of_a_stand_in(
    curated, tmp_path, monkeypatch, capsys
):
    store = Store(str(shutil.copytree(curated.settings.store, tmp_path / "store")))
    shutil.copy(curated.arena / "expected.jsonl", store.root)
    monkeypatch.setattr("flows.demo.until_drawn", lambda settings: iter(()))  # done: the store is curated
    chosen = {"models": str(tmp_path / "answers"), "judge": "embedded", "baseline": BASELINE}
    reports = demo(Settings(store=store.root, evaluate=chosen))
    assert [report.stage for report in reports][:3] == ["demo_answers", "answers", "verdicts"]
    found = board_beside_strengths(Path(store.root) / "expected.jsonl", store)
    assert (len(found.models), found.spearman >= 0.6) == (9, True)
    release = Path(store.at(reports[-1].result))
    assert problems_of(release) == []
    assert "The embedded judge, a stand-in, compared answers of 9 models" in (release / "README.md").read_text()
    flows.commands.demo._print_board(Path(store.root))
    assert f"Spearman {found.spearman:.3f}, Kendall {found.kendall:.3f}" in capsys.readouterr().out


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
