"""The card: front matter the Hub understands, numbers that are the data's, nothing untrusted that takes effect."""

import csv
import html
import json
import re
from pathlib import Path

import polars as pl
import pytest
import yaml
from datasets import get_dataset_config_names, load_dataset

from flows.products import parts_of_release, problems_of
from schemas.benches.bench import BenchAgreement
from schemas.items.reject import REJECT_TEXTS, RejectReason
from schemas.policy import policy_hash
from schemas.release import CONFIGS, Manifest
from schemas.row import described_columns, inner_rows
from schemas.run import Funnel
from tasks.providers.embedded.known_tags import KnownTags
from tasks.release.dataset_card import Statistics, dataset_card
from tasks.release.diff import diff_releases
from tasks.storage.records import funnel
from tasks.storage.tables import frame_of
from tests.small_store import HOSTILE_MODEL, HOSTILE_PROMPT, HOSTILE_TOPIC, POLICY, make_release, manifest_of

PRINTED = """\
dataset,conversations,models,users,languages,unique_images,turns,prompt_tokens,answer_tokens,human_preference
LMSYS-Chat-1M,1000000,25,,35,,2.0,36.9,214.2,No
WildVision-Battle,10383,19,,28,,1.2,57.8,131.7,Yes
WildVision-Chat,45170,9,,26,,1.4,81.3,171.6,No
VisionArena-Battle,30000,17,14031,90,76.4,1.3,90.2,393.6,Yes
VisionArena-Chat,200000,45,,138,62.1,1.5,184.1,634.3,No
""".splitlines()
"""Table 1 of VisionArena (arXiv 2412.08687)."""


@pytest.fixture(scope="module")
def card(release):
    return (release / "README.md").read_text(encoding="utf-8")


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


def _only_the_benchmarks_prompt(store):
    decided = store.read("decisions").with_columns(keep=pl.col("keep") & (pl.col("item_id") == "c00"))
    store.replace("decisions", decided)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda store: None, list(CONFIGS)),
        (lambda store: store.replace("failures", store.read("failures")[:0]), ["chat", "battle", "bench"]),
        (_only_the_benchmarks_prompt, ["bench"]),
    ],
)
def test_datasets_loads_every_configuration_that_a_card_names_and_no_other_is_named(own_store, tmp_path, change, named):
    change(own_store)
    made = Path(own_store.root) / make_release(own_store, release="told").result
    told = (made / "README.md").read_text(encoding="utf-8")
    cache = str(tmp_path / "cache")
    assert get_dataset_config_names(str(made)) == named
    assert re.findall(r'load_dataset\("PATH_OR_REPOSITORY", "(\w+)"', told) == named
    assert [name for name, *_ in _table(told, "| configuration |")] == named
    for name in named:
        rows = load_dataset(str(made), name, split="train", cache_dir=cache)
        assert len(rows) == manifest_of(made)["counts"][name] > 0
        assert f"### {name}\n" in (made / "DATA.md").read_text(encoding="utf-8")
    assert load_dataset(str(made), split="train", cache_dir=cache).info.config_name == named[0]
    left_out = set(CONFIGS) - set(named)
    prose = told.replace("are not in `chat`", "")
    assert not [name for name in left_out if f"`{name}`" in prose or f"### {name}" in prose]
    assert problems_of(made) == []


def test_statistics_are_those_of_the_files_and_columns_say_whether_they_may_be_null(card, data, release):
    columns = (release / "DATA.md").read_text(encoding="utf-8")
    chat, battle = data["chat"], data["battle"]
    expected = {
        "**this release, chat**": _counted(chat, [chat["model"]], chat["user_id"], [chat["conversation"]]),
        "**this release, battle**": _counted(
            battle,
            [battle["model_a"], battle["model_b"]],
            battle["judge"],
            [battle["conversation_a"], battle["conversation_b"]],
        ),
    }
    shown = {name: cells for name, *cells in _table(card, "| dataset |")}
    assert {name: [*shown[name][:7], shown[name][-1]] for name in expected} == expected
    assert [len(cells) for cells in shown.values()] == [10] * 7
    kinds = {name: kind for name, kind, _ in _table(columns, "### chat")}
    assert (kinds["user_id"], kinds["model"], kinds["tstamp"]) == ("string or null", "string", "double or null")
    for config, frame in data.items():
        kinds = {name: kind for name, kind, _ in _table(columns, f"### {config}")}
        assert all(kinds[column.name].endswith(" or null") for column in frame if column.null_count())
    for row in CONFIGS.values():
        for each in (row, *inner_rows(row)):
            assert not [text for text in described_columns(each) if set("|<>`*") & set("".join(text))]


def _counted(frame, models, people, conversations):
    texts = [turns for column in conversations for turns in column]
    assert all(turn["role"] in ("user", "assistant") for turns in texts for turn in turns)
    return [
        f"{frame.height:,}",
        str(pl.concat(models).n_unique()),
        str(people.drop_nulls().n_unique()),
        str(frame.filter(pl.col("language") != "unknown")["language"].n_unique()),
        str(images := frame["images"].explode().struct.field("path").n_unique()),
        f"{100 * images / frame.height:.1f}",
        f"{frame['num_turns'].mean():.2f}",
        "yes" if len(models) == 2 else "no",
    ]


@pytest.mark.parametrize(("tokens", "means"), [((4, 2), ("4.0", "2.0")), ((None, None), ("–", "–"))])
def test_mean_tokens_are_those_of_messages_and_unknown_where_none_was_measured(data, tokens, means):
    context, assistant = (pl.lit(count, pl.Int64) for count in tokens)
    gathered = {"context_tokens": context, "assistant_tokens": assistant, "image_ids": pl.lit([], pl.List(pl.String))}
    chat = data["chat"].with_columns(
        conversation=pl.Series(
            [[{"role": "user", "content": "a b c d"}, {"role": "assistant", "content": "e f"}]] * data["chat"].height
        ),
        num_turns=pl.lit(1, pl.Int32),
        **gathered,
    )
    counted = Statistics("chat")
    for row in range(chat.height):
        counted.add(chat[row : row + 1])
    assert counted.cells()[-3:-1] == means


def test_published_datasets_stand_beside_it_and_nothing_from_the_log_takes_effect(card):
    shown = {name: cells for name, *cells in _table(card, "| dataset |")}
    assert shown["VisionArena-Chat"][2] == "72,933"
    printed = {row.pop("dataset"): [*row.values()] for row in csv.DictReader(PRINTED)}
    places = (0, 1, 2, 3, 5, 6, 7, 8, 9)  # all but the number of images
    for name, values in printed.items():
        ours = [shown[name][place].replace(",", "").lower() for place in places]
        assert [cell for cell, value in zip(ours, values, strict=True) if value] == [v.lower() for v in values if v]
    assert len(printed) == 5
    lines = [line for text in (HOSTILE_MODEL, HOSTILE_TOPIC, HOSTILE_PROMPT) for line in text.split("\n") if line]
    assert not [line for line in lines if line != "---" and line in card.splitlines()]
    assert card.count("\n---\n") == 1
    assert not re.search(r"<(?!1K|10K)[a-z/!]|javascript:|evil", card.split("---\n", 2)[2])


def test_licence_and_address_are_those_of_the_policy(own_store, release):
    chosen = json.loads(own_store.read_bytes(f"policies/{policy_hash(POLICY)}.json"))
    chosen |= {"licence": "cc-by-4.0", "contact": "removal@lab.example | <b>"}
    own_store.write_bytes(f"policies/{policy_hash(POLICY)}.json", json.dumps(chosen).encode())
    made = make_release(own_store, release="licensed").result
    told = (Path(own_store.root) / made / "README.md").read_text(encoding="utf-8")
    assert yaml.safe_load(told.split("---\n", 2)[1])["license"] == "cc-by-4.0"
    assert "\n`cc-by-4.0`\n" in told
    assert "Write to removal@lab&#46;example &#124; &#60;b&#62; with" in told
    assert diff_releases(release, Path(own_store.root) / made, parts_of_release).rules == [
        "licence: None became cc-by-4.0",
        "contact: None became removal@lab.example | <b>",
    ]


def test_the_funnel_adds_up_and_every_reason_that_removed_something_is_explained(card, store):
    gone = funnel(store)
    assert f"{gone.lines} log lines = {gone.kept} kept + {gone.dropped} dropped + {gone.rejected} rejected." in card
    shown = {reason: int(count) for reason, count, _ in _table(card, "## What was removed")}
    expected = {f"dropped: {reason}": count for reason, count in gone.dropped_by.items()}
    assert shown == expected | {f"rejected: {reason}": count for reason, count in gone.rejected_by.items()}
    assert sum(shown.values()) == gone.dropped + gone.rejected
    means = {reason: text for reason, _, text in _table(card, "## What was removed")}
    assert all(means.values())
    assert means["rejected: not_json"] == "a broken line, or an archive that breaks off"
    assert html.unescape(means["dropped: face"]) == "a face with confidence 0.5 or more in an image"
    assert {*REJECT_TEXTS} == {*RejectReason}


@pytest.mark.parametrize("config", CONFIGS)
def test_every_column_and_every_field_inside_one_is_described(release, data, config):
    page = (release / "DATA.md").read_text(encoding="utf-8")
    described = _table(page, f"### {config}")
    assert [row[0] for row in described] == data[config].columns
    assert all(len(row) == 3 and row[2] for row in described)
    for name, kind, _ in _table(page, f"### {config}"):
        inner = data[config].schema[name]
        while isinstance(inner, pl.List):
            inner, kind = inner.inner, kind.removeprefix("list of ")
        if isinstance(inner, pl.Struct):
            assert [row[0] for row in _table(page, f"### {kind}")] == [field.name for field in inner.fields]


def test_boards_of_both_kinds_of_draws_stand_side_by_side(own_store):
    known = {"reference": "all_battles", "low": 0.1, "high": 0.9, "samples": 100, "battles": 5, "of_battles": 9}
    rows = [
        BenchAgreement(**known, metric=metric, sample=sample, mean=mean, flags=[])
        for metric, sample, mean in (("kendall", "bench", 0.5), ("kendall", "random", 0.25), ("models", "bench", 3.0))
    ]
    own_store.replace("bench_agreement", frame_of(BenchAgreement, rows))
    made = make_release(own_store, rated=False, release="agreed").result
    told = (Path(own_store.root) / made / "README.md").read_text(encoding="utf-8")
    assert _table(told, "| metric |") == [
        ["kendall", "all_battles", "0.500 (0.100 to 0.900)", "0.250 (0.100 to 0.900)"],
        ["models", "all_battles", "3.000 (0.100 to 0.900)", "–"],
    ]


def test_an_embedded_build_says_what_each_stand_in_was_measured_to_find(card, release):
    manifest, page = manifest_of(release), (release / "DATA.md").read_text(encoding="utf-8")
    assert "**Built with embedded stand-ins**" in card
    assert list(manifest["embedded_figures"]) == manifest["embedded_providers"]
    for name, lines in manifest["embedded_figures"].items():
        assert lines, name
        for line in lines:
            assert f"\n| {name} | {line['what']} | {line['made_with']} | {line['unseen']} |\n" in page
    assert all(f"\n* `{tag}` is {says}.\n" in page for tag, says in manifest["limited_tags"].items())
    assert manifest["limited_tags"] == KnownTags().limited


def test_the_card_says_which_version_every_name_stands_for_and_is_verified(own_release):
    hostile = "x](http://192.0.2.1) | <b>y"
    facts = {
        "gpt-4o": {
            "version": "gpt-4o-2024-05-13",
            "provider": "OpenAI",
            "licence": "proprietary",
            "since": "2024-05-13",
        },
        "own | model": {"version": hostile},
    }
    manifest = Manifest.model_validate(manifest_of(own_release))
    policy = manifest.policy | {"models": facts}
    told = dataset_card(
        manifest.model_copy(update={"policy": policy}),
        Funnel.model_validate(manifest.funnel),
        dict.fromkeys(CONFIGS, ("–",) * 10),
        dict.fromkeys(("bench_funnel", "bench_measures", "bench_agreement"), ()),
    )
    rows = [line.strip("| ").split(" | ") for line in told.partition("## Models\n")[2].splitlines()[3:5]]
    assert rows[0] == ["gpt-4o", "gpt-4o-2024-05-13", "OpenAI", "proprietary", "2024-05-13"]
    assert len(rows[1]) == 5 and rows[1][2:] == ["–", "–", "–"]
    assert "](http" not in told.partition("## Models\n")[2].partition("\n## ")[0]
    assert "## Models\n" not in (own_release / "README.md").read_text(encoding="utf-8")
