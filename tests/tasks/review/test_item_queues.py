"""Verification, preferences and reviews of generated items on the pages give what the lists give."""

import re

import pytest

from flows.commands.review_kinds import OF_EVERY_STORE, queues_of
from schemas.review import Draws, QueueName
from tasks.generated_bench.kept_items import generated_reviews, kept_items
from tasks.written_bench.findings import finding_tables, item_checks
from tests.generated_bench import NAME, decided, settings_for
from tests.looked_store import strict
from tests.reviewed_store import reviewing
from tests.visit_bench import visit_bench

ANSWERS = {"x": "A cup of {}.", "y": "A plate. <script>alert(1)</script>"}


@pytest.fixture
def written(tmp_path):
    return visit_bench(tmp_path / "store", ANSWERS, items=3)


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


def test_what_reviewers_mark_of_a_written_item_is_counted_as_on_a_sheet(written):
    html = _marked(written, "written", {"Ada": ["caption", "harmful"], "Bob": ["caption"], "Cat": []})
    assert "<h3>Reference</h3>" in html and "<h3>Caption" in html and html.count('type="checkbox"') == 4
    found = item_checks(written).sort("rater")
    assert found["rater"].to_list() == ["Ada", "Bob", "Cat"] and found["correct"].to_list() == [False, False, True]
    assert found["fault"].to_list() == ["caption", "caption", None]
    assert found["harmful"].to_list() == [True, False, False]
    every = finding_tables(written, "b")["yield"].filter(part="all").row(0, named=True)
    assert (every["items"], every["correct"], every["caption"], every["harmful"]) == (1, 0, 1, 0)


def test_what_most_reviewers_find_unfit_leaves_a_generated_bench(tmp_path):
    store = decided(settings_for(tmp_path, general=1, fine=1, per_aspect=1))
    items = kept_items(store, NAME).items
    both = ["description_fits", "question_fits"]
    html = _marked(store, QueueName.GENERATED.value, {"Ada": [], "Bob": both[:1], "Cat": both})
    assert "<h3>Guideline</h3>" in html and "<h3>Key</h3>" in html
    found = generated_reviews(store).sort("rater")
    assert found["guided"].all() and found["description_fits"].to_list() == [False, True, True]
    assert found["question_fits"].to_list() == [False, False, True]
    assert kept_items(store, NAME).dropped == {"people": 1} and len(kept_items(store, NAME).items) == len(items) - 1
