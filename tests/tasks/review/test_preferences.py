"""Checks, choices and reviews of benchmark items give verdicts, and battles without the raters' names."""

import json
import re

import polars as pl
import pytest

from flows.commands.review.kinds import OF_EVERY_STORE, queues_of
from schemas.items.review import Draws, QueueName, Review
from tasks.generated_bench.kept_items import generated_reviews, kept_items
from tasks.storage.reviews import add_reviews
from tasks.written_bench.findings import finding_tables, item_checks
from tests.builders import NOON
from tests.generated_bench import NAME
from tests.looked_store import strict
from tests.reviewed_store import reviewing

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


def _asked(store, name):
    return [each for each in queues_of(OF_EVERY_STORE, Draws(store=store.root, sample=5)) if each.name == name]


def _marked(store, name, marks):
    """Three reviewers mark the same item; returns its page as the first one saw it."""
    (path, seen) = "", ""
    for reviewer, marked in marks.items():
        pages = reviewing(store, reviewer, _asked(store, name))
        path = path or pages.page(name)[0]
        html = pages.client.get(path).text
        strict(html)
        fields = dict(re.findall(r'name="(token|shown)" value="([^"]*)"', html))
        assert pages.client.post(path, data=fields | {"verdict": marked}, follow_redirects=False).status_code == 303
        seen = seen or html
    pages.session.take_in()
    return seen


def test_what_reviewers_mark_of_a_written_item_is_counted_as_on_a_sheet(asking):
    written = asking("items")
    html = _marked(written, "written", {"Ada": ["caption", "harmful"], "Bob": ["caption"], "Cat": []})
    assert "<h3>Reference</h3>" in html and "<h3>Caption" in html and html.count('type="checkbox"') == 4
    found = item_checks(written).sort("rater")
    assert found["rater"].to_list() == ["Ada", "Bob", "Cat"] and found["correct"].to_list() == [False, False, True]
    assert found["fault"].to_list() == ["caption", "caption", None]
    assert found["harmful"].to_list() == [True, False, False]
    every = finding_tables(written, "b")["yield"].filter(part="all").row(0, named=True)
    assert (every["items"], every["correct"], every["caption"], every["harmful"]) == (1, 0, 1, 0)


def test_what_most_reviewers_find_unfit_leaves_a_generated_bench(asking):
    store = asking("generated")
    items = kept_items(store, NAME).items
    both = ["description_fits", "question_fits"]
    html = _marked(store, QueueName.GENERATED.value, {"Ada": [], "Bob": both[:1], "Cat": both})
    assert "<h3>Guideline</h3>" in html and "<h3>Key</h3>" in html
    found = generated_reviews(store).sort("rater")
    assert found["guided"].all() and found["description_fits"].to_list() == [False, True, True]
    assert found["question_fits"].to_list() == [False, False, True]
    assert kept_items(store, NAME).dropped == {"people": 1} and len(kept_items(store, NAME).items) == len(items) - 1
