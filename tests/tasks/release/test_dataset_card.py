"""The card: front matter the Hub understands, numbers that are the data's, nothing untrusted that takes effect."""

import re

import polars as pl
import pytest
import yaml

from schemas.release import CONFIGS
from tasks.lookup.funnel import funnel
from tests.small_store import HOSTILE_MODEL, HOSTILE_PROMPT, HOSTILE_TOPIC, manifest_of

HUB_SIZES = {"n<1K", "1K<n<10K", "10K<n<100K", "100K<n<1M", "1M<n<10M", "10M<n<100M", "100M<n<1B"}


@pytest.fixture(scope="module")
def card(release):
    return (release / "README.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def front_matter(card):
    opening, matter, _ = card.split("---\n", 2)
    assert opening == ""
    return yaml.safe_load(matter)


@pytest.fixture(scope="module")
def data(release):
    return {config: pl.read_parquet(release / config / "data" / "*.parquet") for config in CONFIGS}


def _table(card, heading):
    """Rows of the first Markdown table below a heading or header cell."""
    lines = card[card.index(heading) :].splitlines()
    start = next(n for n, line in enumerate(lines) if line.startswith("|---"))
    rows = []
    for line in lines[start + 1 :]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip(" `") for cell in line.strip("|").split(" | ")])
    return rows


def test_front_matter_names_every_configuration_and_finds_its_files(front_matter, release):
    assert [each["config_name"] for each in front_matter["configs"]] == list(CONFIGS)
    assert [each.get("default", False) for each in front_matter["configs"]] == [True, False, False]
    for each in front_matter["configs"]:
        (files,) = each["data_files"]
        assert files["split"] == "train"
        assert list(release.glob(files["path"])) == list((release / each["config_name"] / "data").iterdir())


def test_front_matter_uses_words_of_the_hub(front_matter):
    assert set(front_matter["size_categories"]) <= HUB_SIZES
    assert front_matter["license"] == "other"
    assert front_matter["task_categories"] == ["image-text-to-text", "visual-question-answering"]


def test_row_counts_are_those_of_the_files(card, data):
    assert {name: int(rows) for name, rows, _ in _table(card, "| configuration |")} == {
        name: frame.height for name, frame in data.items()
    }


def test_statistics_are_those_of_the_files(card, data):
    chat, battle = data["chat"], data["battle"]
    pictures = [frame["images"].explode().struct.field("path").n_unique() for frame in (chat, battle)]
    turns = [f"{frame['num_turns'].mean():.2f}" for frame in (chat, battle)]
    expected = {
        "models": [chat["model"].n_unique(), battle.select(pl.concat_list("model_a", "model_b").explode()).n_unique()],
        "languages": [frame.filter(pl.col("language") != "unknown")["language"].n_unique() for frame in (chat, battle)],
        "users or judges": [chat["user_id"].drop_nulls().n_unique(), battle["judge"].drop_nulls().n_unique()],
        "distinct pictures": pictures,
        "mean turns": turns,
    }
    assert {name: values for name, *values in _table(card, "| statistic |")} == {
        name: [str(value) for value in values] for name, values in expected.items()
    }


def test_the_funnel_is_that_of_the_tables_and_adds_up(card, store):
    gone = funnel(store)
    assert f"{gone.lines} log lines = {gone.kept} kept + {gone.dropped} dropped + {gone.rejected} rejected." in card
    shown = {reason: int(count) for reason, count in _table(card, "## What was removed")}
    expected = {f"dropped: {reason}": count for reason, count in gone.dropped_by.items()}
    assert shown == expected | {f"rejected: {reason}": count for reason, count in gone.rejected_by.items()}
    assert sum(shown.values()) == gone.dropped + gone.rejected


@pytest.mark.parametrize("config", CONFIGS)
def test_every_column_is_described(card, data, config):
    described = _table(card, f"### {config}")
    assert [row[0] for row in described] == data[config].columns
    assert all(len(row) == 3 and row[2] for row in described)


def test_every_signal_is_listed_with_its_version(card, release):
    assert dict(_table(card, "## How facts were measured")) == manifest_of(release)["signal_versions"]


def test_an_embedded_build_says_that_it_must_not_be_published(card):
    assert "**Built with embedded stand-ins**" in card


def test_nothing_from_the_log_takes_effect_in_the_card(card):
    assert not [text for text in (HOSTILE_MODEL, HOSTILE_TOPIC, HOSTILE_PROMPT) if text in card]
    assert not re.search(r"<(?!1K|10K)[a-z/!]|javascript:|evil", card.split("---\n", 2)[2])
