"""Every number of the report is a number of the tables."""

import csv
import random
import re

import polars as pl
import pytest

from schemas.items.decision import ALL_DROPS, Redaction
from schemas.policy import Policy, Rule
from tasks.report import content as sections
from tasks.report.content import redactions_part, report_content
from tasks.report.page import part
from tasks.storage.queries.bench import best_first
from tasks.storage.queries.conversation_features import Tallies
from tasks.storage.records import funnel, reason_texts
from tests.builders import conversation, decision, store_with
from tests.small_store import HOSTILE_TOPIC, MODELS


@pytest.fixture(scope="module")
def content(released_store, tallies):
    return report_content(released_store, tallies)


@pytest.fixture(scope="module")
def tables(content):
    return {part.key: part.table for part in content.parts}


@pytest.fixture(scope="module")
def released(report):
    """Rows of chat and of battle, as the release holds them."""
    return [pl.read_parquet(report.parent / config / "data" / "*.parquet") for config in ("chat", "battle")]


def test_sections_of_products_stand_where_their_texts_do(released_store, tallies):
    more = [part(key, pl.DataFrame({"a": [1]}), "<svg/>") for key in ("written_families", "detector_precision")]
    keys = [each.key for each in report_content(released_store, tallies, more).parts]
    assert keys.index("removed") < keys.index("detector_precision") < keys.index("days")
    assert keys[-1] == "written_families"


def test_votes_are_counted_by_month_and_boards_are_in_the_order_of_their_ranks(tables, released_store):
    checks = released_store.read("vote_checks")
    assert (
        tables["vote_checks"]
        .sort("check")
        .select("check", "votes")
        .equals(checks.sort("check").select("check", "votes"))
    )
    sides = released_store.read("exposure").filter(by="model")["appearances"].sum()
    assert 2 * tables["months"]["votes"].sum() == sides > 0
    ratings = released_store.read("ratings")
    for key in ("overall", "style_control"):
        board, rated = tables[f"leaderboard_{key}"], ratings.filter(slice=key)
        assert board.select("rank", "model").rows() == best_first(rated).select("rank", "model").rows()
    assert tables["ranks"].columns[:2] == ["model", "overall"]
    assert all(name.startswith(("category:", "language:")) for name in tables["ranks"].columns[2:])
    assert tables["ranks"]["overall"].drop_nulls().is_sorted()


def test_the_funnel_on_the_page_is_that_of_the_tables(content, released_store, report):
    assert content.funnel == funnel(released_store)
    html = (report / "index.html").read_text(encoding="utf-8")
    tiles = re.findall(r"<b>([\d,]+)</b>([^<]+)</div>", html)
    gone = content.funnel
    lines = [("log lines", gone.lines), ("kept", gone.kept), ("dropped", gone.dropped), ("rejected", gone.rejected)]
    assert [(name.strip(), int(number)) for number, name in tiles] == [*lines, *content.numbers.items()]


def test_each_rule_stands_beside_upstream_s_and_all_drops_come_first(tables, released_store, report):
    shown = tables["rule_parity"]
    assert shown.sort("item_kind", "reason").equals(released_store.read("rule_parity"))
    rows = shown.select("item_kind", "reason").rows()
    assert rows == [(kind, why) for kind in ("battle", "conversation") for why in (ALL_DROPS, "leaked_identity")]
    with (report / "tables" / "rule_parity.csv").open(newline="") as file:
        assert [row["only_upstream"] for row in csv.DictReader(file)] == ["2"] * 4


def test_removed_lines_add_up_to_what_was_dropped_and_rejected(content, tables):
    removed = tables["removed"]
    assert dict(removed.group_by("outcome").agg(pl.col("lines").sum()).iter_rows()) == {
        "dropped": content.funnel.dropped,
        "rejected": content.funnel.rejected,
    }
    assert dict(removed.filter(outcome="dropped").select("reason", "lines").iter_rows()) == content.funnel.dropped_by


def test_the_head_counts_what_is_released_and_says_how_much_that_was_kept_is_not(content, released, released_store):
    chat, battle = released
    assert content.numbers == {
        "conversations": chat.height,
        "battles": battle.height,
        "models": len(MODELS),
        "languages": 2,
        "users": 1,
        "images": 6,
        "topics": 2,
        "benchmark prompts": 1,
    }
    kept = released_store.read("decisions").filter("keep").group_by("item_kind").len()
    kept = dict(kept.iter_rows())
    assert content.withheld == {
        "conversations": kept["conversation"] - chat.height,
        "battles": kept["battle"] - battle.height,
    }
    assert content.withheld["conversations"] > 0


@pytest.mark.parametrize(("key", "column"), [("models", "model"), ("turns", "num_turns"), ("languages", "language")])
def test_counts_are_those_of_the_released_rows(tables, released, key, column):
    chat, battle = released
    met = pl.concat([battle["model_a"], battle["model_b"]]) if column == "model" else battle[column]
    counted = {"chat": chat[column], "battle": met}
    for config, values in counted.items():
        rows = {str(name): count for name, count in values.value_counts().iter_rows()}
        shown = {name: count for name, count in tables[key].select(key, config).iter_rows() if count}
        assert shown == rows


def test_what_two_configurations_hold_is_compared_in_shares_on_one_scale_without_example_images(
    released_store, rows_of_release
):
    rng, tallies, kept = random.Random(7), Tallies(), {}
    for config, times in (("chat", 40), ("battle", 9)):
        rows = pl.concat(rows_of_release[config] * times)
        rows = rows.with_columns(is_preset=pl.Series([rng.random() < 0.3 for _ in range(rows.height)]))
        kept[config] = rows.filter(~pl.col("is_preset"))
        tallies.add(config, rows)
    parts = {each.key: each for each in report_content(released_store, tallies).parts}
    for key, column in (("languages", "language"), ("turns", "num_turns")):
        table = parts[key].table
        for config, rows in kept.items():
            counted = {str(name): count for name, count in rows[column].value_counts().iter_rows()}
            shown = dict(table.filter(pl.col(config) > 0).select(key, config).iter_rows())
            assert shown == counted
            shares = dict(table.filter(pl.col(config) > 0).select(key, f"{config}_share").iter_rows())
            assert shares == {name: round(count / rows.height, 4) for name, count in counted.items()}
    categories = parts["categories"].table
    for config, rows in kept.items():
        for tag, count, unknown, share in categories.select(
            "label", config, f"{config}_unknown", f"{config}_share"
        ).iter_rows():
            known = rows.height - unknown
            assert share == (None if unknown and not count else round(count / known, 4)), tag
    unknown_tags = categories.filter(pl.col("chat_share").is_null() & pl.col("battle_share").is_null())["label"]
    drawn = parts["categories"].figure.svg
    assert [tag for tag in categories["label"] if (tag in drawn) == (tag in unknown_tags)] == []
    examples = {config: tallies.rows[config] - rows.height for config, rows in kept.items()}
    said = f"({examples['chat']} of chat, {examples['battle']} of battle)"
    assert all(examples.values()) and all(said in parts[key].about for key in ("models", "categories", "turns"))
    assert tallies.of("chat", ("day",))["conversations"].sum() == tallies.rows["chat"]


def test_topics_are_listed_once_with_their_documents_and_the_tree_names_its_leaves(tables, released_store, content):
    assert tables["topics"]["topic"].to_list() == [-1, 0, 1]
    assert tables["topics"]["documents"].sum() == released_store.read("topics").height
    assert tables["topics"].filter(topic=1)["name"].item() == HOSTILE_TOPIC
    (merge,) = tables["topic_tree"].rows(named=True)
    assert (merge["left_name"], merge["right_name"], merge["node"]) == ("picture, thing", HOSTILE_TOPIC, 2)
    figure = next(part.figure.svg for part in content.parts if part.key == "topic_tree")
    assert "0 picture, thing" in figure
    assert "<script" not in figure


def test_a_topic_without_a_name_has_its_number_alone_on_figures(released_store):
    counts = sections.topic_counts(released_store)
    counts = counts.with_columns(
        name=pl.when(pl.col("topic") == 1).then(pl.lit("to be named again (1)")).otherwise("name")
    )
    parts = [sections.topics_part(released_store, counts), sections.topic_tree_part(released_store, counts)]
    for made in parts:
        assert "to be named" not in made.figure.svg
        assert re.search(r">\s*1\s*</text>", made.figure.svg)
        assert "to be named again (1)" in made.table.write_csv()


def test_pairs_win_rates_and_votes_are_counted_from_every_released_battle(tables, released, content, released_store):
    pairs, battles = tables["battle_counts"], released[1]
    assert pairs["battles"].sum() == 2 * battles.height
    decisive = battles.filter(pl.col("winner").is_in(["model_a", "model_b"])).height
    assert pairs["won"].sum() == pairs["lost"].sum() == decisive
    figure = next(part.figure.svg for part in content.parts if part.key == "win_rates")
    decisive = tables["win_rates"].filter(pl.col("won") + pl.col("lost") > 0)
    expected = sorted(f"{100 * won / (won + lost):.0f}" for *_, won, lost in decisive.iter_rows())
    assert sorted(re.findall(r">(\d+)</text>", figure)) == expected
    shown = dict(tables["votes"].select("slice", "battles").iter_rows())
    assert shown == dict(released_store.read("vote_shares").select("slice", "battles").iter_rows())
    figure = next(part.figure.svg for part in content.parts if part.key == "votes")
    assert f">overall ({shown['overall']})<" in figure
    assert ">both bad<" in figure


def test_the_figure_of_removed_lines_leaves_out_what_only_repeats_and_says_so(content):
    removed = content.parts[0]
    assert "superseded" not in removed.figure.svg
    assert "(superseded, share_record: 1)" in removed.about
    assert "face (dropped)" in removed.figure.svg


def test_a_policy_without_a_duplicate_rule_can_be_explained():
    rule = Rule(reason="quiet", signal="tokens.tokens", over="prompt", at_most=1)
    policy = Policy(name="small", rules=[rule], duplicates=None)
    assert reason_texts(policy)["quiet"] == "tokens.tokens of the prompt: 1.0 or less"


def test_an_empty_store_has_a_report_without_sections(tmp_path):
    content = report_content(store_with(tmp_path), Tallies())
    assert content.parts == []
    assert set(content.numbers.values()) == {0}


def test_of_many_topics_documents_the_map_shows_some_and_the_table_counts_all(released_store, monkeypatch, content):
    def points(part):
        return part.figure.svg.count("<use")

    (whole,) = (part for part in content.parts if part.key == "topics")
    monkeypatch.setattr(sections, "POINTS_MAX", 6)
    part = sections.topics_part(released_store, sections.topic_counts(released_store))
    rows = whole.table["documents"].sum()
    assert part.table.equals(whole.table)
    assert points(whole) - points(part) == rows - -(-rows // 3)
    assert part.about == f"{whole.about} The map shows one prompt in 3."


def _redaction(part: str, kind: str, count: int) -> Redaction:
    return Redaction(reason="rule", part=part, place=0, type=kind, count=count)


def test_kept_conversations_are_counted_by_part_and_type(tmp_path):
    done = {
        "a": [_redaction("message", "email", 2), _redaction("message", "phone", 1)],
        "b": [_redaction("message", "email", 1), _redaction("image", "face", 3)],
    }
    kept = [decision(conversation(name), redactions=each) for name, each in done.items()]
    gone = decision(conversation("c"), "redaction_failed", redactions=done["a"])
    part = redactions_part(store_with(tmp_path, decisions=[*kept, gone]))
    assert part.table.rows() == [("message", "email", 2, 3), ("image", "face", 1, 3), ("message", "phone", 1, 1)]
    assert "2 kept conversations" in part.about


def test_a_release_without_redactions_has_no_such_section(tmp_path):
    assert redactions_part(store_with(tmp_path, decisions=[decision(conversation("a"))])) is None


def test_models_that_are_in_battles_alone_stand_last_in_answer_lengths(released_store, rows_of_release):
    """The bars are those of the first models."""
    of_chat = rows_of_release["chat"][0]
    talked = of_chat["model"][0]
    few = Tallies()
    few.add("chat", of_chat.filter(model=talked))
    for rows in rows_of_release["battle"]:
        few.add("battle", rows)
    (lengths,) = [part.table for part in report_content(released_store, few).parts if part.key == "answer_lengths"]
    assert lengths["model"][0] == talked
    assert lengths["chat"].is_null().sum() == lengths.height - 1 > 0


def test_rows_without_a_language_are_in_none(rows_of_release):
    tallies, rows = Tallies(), rows_of_release["chat"][0]
    tallies.add("chat", rows.with_columns(language=pl.lit(None, pl.String)))
    numbers = sections.head_numbers(tallies, pl.DataFrame({"topic": [0]}), 0)
    assert (numbers["conversations"], numbers["languages"]) == (rows.height, 0)


def test_a_model_without_an_answer_in_chat_has_no_length_there(released_store, rows_of_release):
    few, of_chat = Tallies(), rows_of_release["chat"][0]
    few.add("chat", of_chat.filter(model=of_chat["model"][0]))
    for rows in rows_of_release["battle"]:
        few.add("battle", rows)
    (lengths,) = [each for each in report_content(released_store, few).parts if each.key == "answer_lengths"]
    assert lengths.table["chat"].null_count() > 0
    ticks = 2  # each panel has a 0 on its axis
    assert lengths.figure.svg.count(">0</text>") == ticks
