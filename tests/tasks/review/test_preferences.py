"""Choices of several raters between two answers become battles that `curate rate` reads, without the raters' names."""

import json

import polars as pl
import pytest

from schemas.review import Draws, QueueName, Review
from tasks.storage.reviews import add_reviews
from tests.builders import NOON

TABLE_3 = {
    "LLaVA (13B)": (64, 244, 26.23),
    "LlamaAdapter-v2 (7B)": (71, 259, 27.41),
    "mPLUG-Owl (7B)": (32, 214, 14.95),
    "InstructBLIP (13B)": (24, 194, 12.37),
    "MiniGPT-4 (7B)": (44, 299, 14.72),
    "PandaGPT (13B)": (24, 229, 10.48),
}
"""VisIT-Bench, Table 3: model -> wins against the reference, ratings, printed percent."""


def _choices(rows, raters):
    """Verdicts of raters who like cups; also one on answers that the store does not have."""
    for name, cups in rows.items():
        for rater in range(raters):
            yield Review(
                conversation_id="i0", content_id=name, reasons=[], verdict=cups, queue=QueueName.PREFERENCES.value,
                item_id=name, reviewer=f"rater{rater}", reviewed_at=NOON,
            )  # fmt: skip


def test_a_forced_choice_of_several_raters_becomes_battles_without_their_names(asking, curate, tmp_path):
    from flows.commands.review.kinds import queues_of

    store = asking("preferences")
    (queue,) = queues_of(["preferences"], Draws(store=store.root, bench="b", tuples=12, hidden=False))
    said = {item.item_id: [text.stretches[0].text for text in item.texts] for item in queue.waiting(store)}
    cups = {name: "left" if "cup" in left or "plate" in right else "right" for name, (left, right) in said.items()}
    assert {*cups.values()} == {"left", "right"}  # sides by hash
    add_reviews(store, [*_choices(cups, 5), *_choices({"0123": "left"}, 1)])
    battles = tmp_path / "battles.csv"
    options = ("review", "results", "preferences", "--store", store.root, "--bench", "b")
    code, out, err = curate(*options, "--out", battles)
    assert (code, out.strip()) == (0, str(battles)), err
    assert f"{5 * len(cups)} choices; pairs by number of choices: {len(cups)} with 5; 1 on other answers" in err
    found = pl.read_csv(battles)
    assert found["judge"].n_unique() == 5 and "rater" not in "".join(found["judge"])
    won = found.select(pl.when(pl.col("winner") == "model_a").then("model_a").otherwise("model_b")).to_series()
    assert won.filter((found["model_a"] != "reference") & (found["model_b"] != "reference")).unique().to_list() == ["x"]
    code, printed, _ = curate("rate", battles, "--json")
    assert code == 0 and json.loads(printed.splitlines()[0])["model"] == "x"


def test_win_rates_against_the_reference_are_those_of_the_published_table(tmp_path, curate):
    rows = [
        ("reference", model, "model_b" if n < wins else "model_a")
        for model, (wins, ratings, _) in TABLE_3.items()
        for n in range(ratings)
    ]
    file = tmp_path / "votes.csv"
    file.write_text("\n".join(["model_a,model_b,winner", *map(",".join, rows)]))
    code, out, err = curate("rate", file, "--table", "win_rates", "--reference", "reference", "--json")
    assert code == 0, err
    found = {row["model"]: row for row in map(json.loads, out.splitlines())}
    columns = ("wins_vs_reference", "battles_vs_reference", "win_rate_vs_reference")
    for model, (wins, ratings, percent) in TABLE_3.items():
        assert [found[model][name] for name in columns] == [wins, ratings, pytest.approx(percent / 100, abs=5e-5)]
