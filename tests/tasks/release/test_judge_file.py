"""The judge's board in a release: whose it is, what leaves the store, and what `verify` finds."""

import shutil
from pathlib import Path

import pytest

from flows.products import judge_texts, parts_of_release, problems_of
from schemas.benches.judging import STAND_IN
from schemas.errors import BadInput
from schemas.settings import Settings
from tasks.policy.answers import screened
from tasks.policy.policy_file import load_policy
from tasks.providers import Providers
from tasks.publish.plan import require_allowed
from tasks.release.diff import diff_releases
from tasks.release.fetched import read_manifest
from tasks.release.registered import RELEASED_TABLES, board_csv
from tasks.signals.steps import measure_answers
from tasks.storage.content_id import text_id
from tasks.storage.tables import Store
from tests.builders import VERSIONS, facts_frame
from tests.judged_store import ASKED, SAID, SECRET, judge_table, judged_store, measured, release_judged
from tests.small_store import MODELS, manifest_of
from tests.tampered_release import add_file, card_says, change_row, rewrite, write_manifest
from tests.tasks.takedown.conftest import everything

CARDS, ANSWERS = "leaderboard/judge/cards.parquet", "leaderboard/judge/answers.parquet"


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Store:
    """A judged store with a release without texts and one with them. Do not write to it."""
    store = judged_store(tmp_path_factory.mktemp("judged"))
    release_judged(store, release="plain")
    measured(store, [text for text in SAID.values() if text != SAID["new-model"]])
    found = {text_id(SAID[MODELS[2]]): {"types": ["email"]}}
    store.replace("signals/text_pii", facts_frame("text_pii", {text_id(t): {} for t in SAID.values()} | found))
    release_judged(store, release="texts", with_answers=True)
    return store


@pytest.fixture
def copied(made, tmp_path):
    return lambda name: Path(shutil.copytree(made.at(f"releases/{name}"), tmp_path / name))


def test_a_release_says_whose_board_it_is_and_how_it_agrees_with_the_votes(made):
    release = Path(made.at("releases/plain"))
    assert problems_of(release) == []
    board = judge_table(release, "board")
    assert board["model"].to_list()[0] == MODELS[1]
    about = judge_table(release, "agreement").row(0, named=True)
    assert (about["judge"], about["prompts"], about["verdicts"], about["flipped"], about["models"]) == (
        "gpt-x",
        1,
        6,
        0,
        3,
    )
    assert about["spearman"] is not None
    assert manifest_of(release)["judge"]["judge"] == "gpt-x"
    card, page = ((release / name).read_text() for name in ("README.md", "report/index.html"))
    assert "## The judge&" not in card and "## The judge's board\n" in card
    assert f"Spearman {about['spearman']:.3f}" in " ".join(card.split())
    assert {"judge_board", "judge_agreement", "judge_verdicts"} <= {
        path.stem for path in (release / "report/tables").iterdir()
    }
    assert "<script src" not in page and "onerror=alert" not in card
    assert "judge" not in manifest_of(release)["embedded_providers"]


def test_no_answer_leaves_without_being_asked_for_and_cards_hold_no_path_of_a_server(made):
    release = Path(made.at("releases/plain"))
    cards = judge_table(release, "cards")
    assert set(cards["question_id"]) == {ASKED}
    assert cards.filter(model_b=MODELS[1])["label"].to_list() == ["B>A"]
    names = {*cards["answer_a"], *cards["answer_b"], *cards["verdict_id"]}
    assert len(names) == len(SAID) + 6
    assert manifest_of(release)["judge"]["judge_version"].startswith("judge-")
    assert b"/data/judges" not in b"".join(content for _, content in everything(Store(str(release))))
    said = [*SAID.values(), SECRET, "Assistant A says"]
    for _, content in everything(Store(made.at("releases/plain"))):
        assert not any(text.encode() in content for text in said)


def test_on_request_answers_leave_that_the_policy_keeps_and_that_were_measured(made):
    release = Path(made.at("releases/texts"))
    assert problems_of(release) == []
    answers = judge_table(release, "answers")
    assert dict(answers.select("model", "content").rows()) == {model: SAID[model] for model in MODELS[:2]}
    assert set(answers["answer_id"]) <= {*judge_table(release, "cards")["answer_a"]}
    assert judge_table(release, "verdicts").is_empty()  # nobody measured what the judge wrote
    why = {row["item_id"]: row["reasons"] for row in made.read("screened_texts").to_dicts() if row["reasons"]}
    assert ["pii_text"] in why.values()
    assert any("unmeasured_text_pii" in reasons for reasons in why.values())
    assert all(SECRET.encode() not in content for _, content in everything(Store(str(release))))


def test_what_the_policy_redacts_is_replaced_and_leaves_only_after_it_was_measured_again(made):
    policy, text = load_policy("redact"), SAID[MODELS[2]]
    start = text.index("zoe")
    span = {"start": start, "end": len(text) - 1, "type": "email", "confidence": 1.0}
    values = {text_id(t): {} for t in SAID.values()} | {text_id(text): {"spans": [span], "types": ["email"]}}
    own = Store(made.root + "-redacted")
    shutil.copytree(made.root, own.root)
    own.replace("signals/text_pii", facts_frame("text_pii", values))
    (row,) = [row for row in screened(own, policy, VERSIONS, judge_texts(own)) if "<EMAIL_1>" in row.text]
    assert (row.text, row.reasons) == ("A bus, write to <EMAIL_1>.", ["unmeasured_text_pii"])
    own.append("signals/text_pii", facts_frame("text_pii", {text_id(row.text): {}}))
    assert [r.reasons for r in screened(own, policy, VERSIONS, judge_texts(own)) if r.text == row.text] == [[]]


def test_answers_are_measured_once_and_the_same_tables_give_the_same_release(made, tmp_path):
    own = Store(str(shutil.copytree(made.root, tmp_path / "own")))
    assert release_judged(own, release="plain").counts["new"] == 0
    own.replace("signals/service_text", own.empty("signals/service_text"))
    settings, providers = Settings(store=own.root), Providers()
    asked = settings, providers, ["service_text"], judge_texts(own)["text"]
    calls = [measure_answers.fn(*asked).model_calls for _ in range(2)]
    assert calls == [{"service_text": len(SAID) + 1}, {}]  # one text of all verdicts


def test_the_embedded_judge_is_named_and_must_be_accepted(tmp_path):
    store = judged_store(tmp_path, judge=STAND_IN, judge_version="embedded-consensus")
    release = Path(store.at(str(release_judged(store).result)))
    assert problems_of(release) == []
    manifest = read_manifest(release)
    assert "judge" in manifest.embedded_providers
    assert "| judge | decisive votes that it agrees with | 0.725 " in (release / "DATA.md").read_text()
    others = [name for name in manifest.embedded_providers if name != "judge"]
    with pytest.raises(BadInput, match=r"stand-ins \(judge\)"):
        require_allowed(release, manifest, False, others)
    require_allowed(release, manifest, False, [*others, "judge"])


def test_a_changed_judge_is_a_line_of_diff(made, copied):
    later = copied("plain")
    write_manifest(later, judge=manifest_of(later)["judge"] | {"protocol": "wildvision"})
    rules = diff_releases(Path(made.at("releases/plain")), later, parts_of_release).rules
    assert "judge.protocol: visionarena became wildvision" in rules


def _cards(release, change, name="cards"):
    rewrite(release, CARDS.replace("cards", name), change)
    csv = board_csv(judge_table(release, name), RELEASED_TABLES[f"leaderboard/judge/{name}"].csv_digits)
    add_file(release, f"leaderboard/judge/{name}.csv", csv.encode())


TURNED = {"A>B": "B>A", "B>A": "A>B"}
TAMPERED = {
    "question_id 'hidden one' is not of this release's benchmark": lambda release: _cards(
        release, lambda rows: [rows[0] | {"question_id": "hidden one"}, *rows[1:]]
    ),
    "its counts of verdicts are not those of the cards": lambda release: _cards(release, lambda rows: rows[1:]),
    "judge/board.parquet: not what the cards give": lambda release: _cards(
        release, lambda rows: [row | {"label": TURNED.get(row["label"], row["label"])} for row in rows]
    ),
    "leaderboard/judge/board.parquet: not what the cards give": lambda release: _cards(
        release, lambda rows: [row | {"score": (row["score"] or 0) + 0.5} for row in rows], "board"
    ),
    "a text holds personal data: email": lambda release: change_row(release, ANSWERS, content=SECRET),
    "leaderboard/judge/board.csv: not what board.parquet says": lambda release: add_file(
        release, "leaderboard/judge/board.csv", b"slice\n"
    ),
    "the manifest does not say that they were asked for": lambda release: write_manifest(
        release, settings=manifest_of(release)["settings"] | {"with_answers": False}
    ),
    "whose board it is is not what the manifest says": lambda release: write_manifest(release, judge={}),
    "its section about the judge's board": lambda release: card_says(release, ": 6 verdicts", ": 60 verdicts"),
}


@pytest.mark.parametrize("told", TAMPERED)
def test_verify_finds_what_was_changed(copied, told):
    release = copied("texts")
    TAMPERED[told](release)
    problems = problems_of(release)
    assert any(told in problem for problem in problems), problems
