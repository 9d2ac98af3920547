"""What rows tell together: the card counts it, the policy's `linkage` makes it less, and `verify` counts again."""

import shutil
from collections import Counter
from pathlib import Path

import polars as pl
import pytest

from flows.products import problems_of
from schemas.policy import Linkage, policy_hash
from tasks.release.card_figures import JOINABLE, ROW_FIGURES
from tasks.release.checks.card_checks import wrong_sections
from tasks.release.shards import LAYOUT
from tests.small_store import POLICY, USER, make_release, small_store
from tests.tampered_release import BATTLE, CHAT, card_says, change_row

DAY_SECONDS = 86_400


@pytest.fixture(scope="module")
def coarse(tmp_path_factory) -> Path:
    """A release whose policy leaves days, and nobody's hash. Do not write to it."""
    store = small_store(tmp_path_factory.mktemp("coarse"))
    policy = POLICY.model_copy(update={"linkage": Linkage(times="day", users=False)})
    store.replace("decisions", store.read("decisions").with_columns(policy_hash=pl.lit(policy_hash(policy))))
    store.write_bytes(f"policies/{policy_hash(policy)}.json", policy.model_dump_json().encode())
    return Path(store.root) / make_release(store, release="coarse").result


@pytest.fixture
def own_coarse(coarse, tmp_path) -> Path:
    return Path(shutil.copytree(coarse, tmp_path / "coarse"))


def _figures(release: Path) -> dict[str, list[str]]:
    section = (release / "README.md").read_text(encoding="utf-8").partition("## What a stranger could join")[2]
    rows = [line.strip("| ").split(" | ") for line in section.partition("\n## ")[0].splitlines() if "| " in line]
    return {name: cells for name, *cells in rows}


def test_the_card_counts_what_a_stranger_could_join(release):
    chat = pl.read_parquet(release / CHAT)
    pairs = Counter(zip(chat["language"], chat["model"], strict=True))
    prompts = Counter("\n\n".join(t["content"] for t in row if t["role"] == "user") for row in chat["conversation"])
    rows_of_people = Counter(chat["user_id"].drop_nulls())
    few = {2, 3, 4, 5}
    expected = {
        "people": len(rows_of_people),
        "people with one row": sum(count == 1 for count in rows_of_people.values()),
        "people with two to 5 rows": sum(count in few for count in rows_of_people.values()),
        "rows with a time that no other row has": sum(count == 1 for count in Counter(chat["tstamp"]).values()),
        "rows of a language and a model with at most 5 rows": sum(n for n in pairs.values() if n <= 5),
        "rows with a prompt that no other row has": sum(count == 1 for count in prompts.values()),
    }
    told = _figures(release)
    assert {name: told[name][0] for name in expected} == {name: f"{count:,}" for name, count in expected.items()}


@pytest.mark.parametrize("what", ["people", "rows with a prompt that no other row has"])
def test_a_figure_that_is_not_that_of_the_rows_is_found(own_release, what):
    cells = _figures(own_release)[what]
    card_says(own_release, f"| {what} | {cells[0]} |", f"| {what} | {int(cells[0]) + 1} |")
    (problem,) = problems_of(own_release)
    assert "its section about what a stranger could join is not what a count of the rows says" in problem


def test_a_policy_makes_times_coarse_and_takes_people_out_and_the_release_is_whole(coarse):
    for shard, person, key in ((CHAT, "user_id", "conversation_id"), (BATTLE, "judge", "question_id")):
        rows = pl.read_parquet(coarse / shard)
        assert rows[person].null_count() == rows.height
        assert (rows["tstamp"] % DAY_SECONDS == 0).all()
        assert rows[key].to_list() == rows.sort("tstamp", key)[key].to_list(), "the order tells no time of day"
    assert problems_of(coarse) == []


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"tstamp": 1_726_600_000.5}, "chat: a time is finer than to the day"),
        ({"user_id": USER}, "chat: user_id is there, and the policy says that it is not"),
    ],
)
def test_a_row_that_tells_more_than_its_policy_says_is_found(own_coarse, change, told):
    change_row(own_coarse, CHAT, **change)
    assert any(told in problem for problem in problems_of(own_coarse))


def test_the_card_of_an_earlier_layout_may_lack_what_was_not_counted_then(release, tmp_path):
    own = Path(shutil.copytree(release, tmp_path / "release"))
    card = (own / "README.md").read_text(encoding="utf-8")
    (own / "README.md").write_text(card.replace(JOINABLE, "What could be joined"), encoding="utf-8")
    told = {layout: [*wrong_sections(own, 1, ROW_FIGURES, layout)] for layout in (5, LAYOUT)}
    about_it = [line for line in told[LAYOUT] if "what a stranger could join" in line]
    assert len(about_it) == 1 and about_it[0] not in told[5]
