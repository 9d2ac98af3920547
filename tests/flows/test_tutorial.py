"""The demo catches all that is planted; the commands of docs/tutorial.md lead from logs to a version on a Hub."""

import json
import re
import shlex
import shutil
from pathlib import Path

import polars as pl
import pytest

import flows.demo.command
from flows.demo.demo_run import demo
from flows.products import problems_of
from schemas.settings import Settings
from tasks.demo.answers import BASELINE, board_beside_strengths
from tasks.demo.planted import score_planted
from tasks.demo.planted_evidence import read_facts
from tasks.storage.tables import Store
from tests.places import ROOT
from tests.printed import printed_lines

PAGE = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
STEPS = re.findall(r"^```\n\$ (curate .*?)\n(.*?)^```|^```\n\$ (curate .*)\n```", PAGE, re.DOTALL | re.MULTILINE)
SERVES = "curate view out"
"""Does not end; tests/tasks/explore/test_view_command.py runs it."""
DRAFT = "--dry-run"


def _first_words(text: str) -> set[str]:
    """The first word of each line; numbers are of the arena that the page was written with."""
    words = {line.split()[0] for line in text.splitlines() if line.strip() not in ("", "…")}
    return {word for word in words if not word[0].isdecimal()}


def test_ten_steps_lead_from_logs_to_a_published_version(curate, curated, hub, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    monkeypatch.setenv("NO_GCE_CHECK", "true")  # asks the network whether this is one of Google's machines
    (tmp_path / "demo").symlink_to(curated.arena)
    store = shutil.copytree(curated.settings.store, tmp_path / "out")  # step 3, which the guide to operating types
    (tmp_path / "ours.yaml").write_text(PAGE.split("```yaml\n")[1].split("```")[0])
    dropped = curated.store.read("decisions").filter(pl.col("reasons") == ["pii_text"], item_kind="conversation")
    here = {
        "2024.08.18": curated.release.name,
        "adc189d2df34868e7eb8e843fb967cc5": dropped["item_id"][0],
        "ORG/NAME": "org/name",
    }
    typed, refusal = [], ""
    for command, shown, alone in STEPS:
        line = command or alone
        typed.append(line)
        for there, now in here.items():
            line, shown = line.replace(there, now), shown.replace(there, now)
        if line == SERVES:
            continue
        yes = ["--yes"] * ("publish" in line and DRAFT not in line)
        status, out, err = curate(*shlex.split(line)[1:], *yes)
        refused = "publish" in line and DRAFT in line
        assert status == (2 if refused else 0), (line, err)
        printed = out + err  # Prefect's threads may write into the middle of a line
        assert {word for word in _first_words(shown) if word not in printed} == set(), (line, printed)
        refusal = err if refused else refusal
    assert [len(typed), SERVES in typed] == [11, True]
    assert re.findall(r"--accept-embedded \w+", typed[-1]) == re.findall(r"--accept-embedded \w+", refusal)
    assert hub.repos["org/name"].tags.keys() == {"1.0.1"} and (store / "releases" / "1.0.1").is_dir()


def test_the_board_follows_the_planted_strengths_and_is_released_as_that_of_a_stand_in(
    curated, tmp_path, monkeypatch, capsys
):
    store = Store(str(shutil.copytree(curated.settings.store, tmp_path / "store")))
    shutil.copy(curated.arena / "expected.jsonl", store.root)
    monkeypatch.setattr("flows.demo.demo_run.until_drawn", lambda settings: iter(()))  # done: the store is curated
    chosen = {"models": str(tmp_path / "answers"), "judge": "embedded", "baseline": BASELINE}
    reports = demo(Settings(store=store.root, evaluate=chosen))
    assert [report.stage for report in reports][:3] == ["demo_answers", "answers", "verdicts"]
    models, spearman, kendall = board_beside_strengths(Path(store.root) / "expected.jsonl", store)
    assert (len(models), spearman >= 0.6) == (9, True)
    release = Path(store.at(reports[-1].result))
    assert problems_of(release) == []
    assert "The embedded judge, a stand-in, compared answers of 9 models" in (release / "README.md").read_text()
    flows.demo.command._print_board(Path(store.root))
    assert f"Spearman {spearman:.3f}, Kendall {kendall:.3f}" in capsys.readouterr().out


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


def test_a_stale_number_of_the_page_is_replaced_by_the_printed_one():
    page = ["release  out/releases/1.0.1", "…", "  held  18  lines wait", "in 3 = kept 1 + dropped 1 + rejected 1"]
    output = ["  held   7  lines wait", "look  curate view out", "in 9 = kept 4 + dropped 3 + rejected 2"]
    today = ["release  out/releases/1.0.1", "…", "  held   7  lines wait", "in 9 = kept 4 + dropped 3 + rejected 2"]
    assert printed_lines(page, [page[0], *output]) == today


def test_a_line_of_the_page_that_is_printed_no_more_is_an_error():
    with pytest.raises(LookupError, match="suggested version bump"):
        printed_lines(["suggested version bump: minor"], ["chat  added 12"])


def test_the_items_of_the_demo_catch_its_faults_and_rank_its_models_as_planted(curate, prefect_server, tmp_path):
    code, out, err = curate("bench", "demo", "--out", tmp_path / "demo", "--items", "24")
    assert code == 0, err
    assert "planted faults: 6 caught, 0 missed" in out
    board = [line.split()[1] for line in out.splitlines() if line.lstrip()[:1].isdigit() and "to" in line]
    assert board == ["reference", "sable-1", "tern-1", "wren-1"]
