"""The demo's models answer the drawn benchmark and are judged in the order of their planted strengths."""

import shutil
from pathlib import Path

import flows.commands.demo
from flows.demo import demo
from flows.products import problems_of
from schemas.settings import Settings
from tasks.demo.answers import BASELINE, board_beside_strengths
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
