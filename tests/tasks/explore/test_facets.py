"""A query is a link; facets count what each further choice would leave."""

from urllib.parse import parse_qsl

import polars as pl
import pytest

from tasks.explore.facets import Query, find, matching, query_of
from tasks.explore.listing import SIDE, finished
from tasks.explore.static_pages import sampled


@pytest.fixture(scope="module")
def listing() -> pl.DataFrame:
    rows = {
        "kind": ["conversation", "conversation", "battle", SIDE],
        "id": ["a", "b", "v", "v"],
        "models": [["one"], ["two"], ["one", "two"], ["one"]],
        "language": ["English", "German", "English", "English"],
        "tags": [["ocr", "humor"], ["ocr"], [], []],
        "topic": ["maps", "maps", "cats", "cats"],
        "prompt": ["A MAP of Oslo", "Eine Karte", "Two cats", "Two cats"],
        "answers": ["Fine.", None, "Yes.", "Yes."],
        "tstamp": [1.0, 2.0, 3.0, 3.0],
    }
    return finished([pl.DataFrame(rows)])


def ids(listing, **asked) -> list[str]:
    pairs = [
        (name, value) for name, values in asked.items() for value in ([values] if isinstance(values, str) else values)
    ]
    return find(listing, query_of(pairs)).rows["id"].to_list()


def counts(listing, facet, **asked) -> dict[str, int]:
    found = find(listing, query_of(asked.items()))
    return {count.value: count.rows for each, some in found.counts.items() if each.name == facet for count in some}


def test_values_of_one_facet_are_alternatives_and_facets_add_up(listing):
    assert ids(listing) == ["v", "b", "a"]
    assert ids(listing, language=["German", "English"], tag="ocr") == ["b", "a"]
    assert ids(listing, tag="humor", language="German") == []


def test_answers_that_name_a_model_of_the_vote_or_hold_hidden_marks_are_tagged(listing):
    rows = {
        "kind": ["battle"] * 3,
        "id": ["n", "m", "p"],
        "models": [["gpt-4o-mini", "tern-2"]] * 3,
        "tags": [["ocr"]] * 3,
    }
    answers = ["Ask **GPT 4o mini**.", "Two\u2060 cats", "gpt"]
    tagged = finished([pl.DataFrame(rows | {"answers": answers, "prompt": "gpt-4o-mini", "tstamp": [3.0, 2.0, 1.0]})])
    assert tagged["tags"].to_list() == [["ocr", "names_model"], ["ocr", "unseen_marks"], ["ocr"]]
    assert "names_model" not in counts(listing, "tag")


def test_a_facet_counts_what_its_other_values_would_give(listing):
    assert counts(listing, "language", language="German") == {"English": 2, "German": 1}
    assert counts(listing, "tag", language="German") == {"ocr": 1}
    assert counts(listing, "model") == {"one": 2, "two": 2}


def test_search_looks_in_prompts_and_answers_in_any_case(listing):
    assert ids(listing, q="map of") == ["a"] and ids(listing, q="YES.") == ["v"]
    assert ids(listing, q=".*") == []


def test_sides_of_battles_are_listed_only_when_asked_for(listing):
    assert ids(listing, kind=SIDE) == ["v"]
    assert counts(listing, "kind")[SIDE] == 1


@pytest.mark.parametrize("value", ["x", "a&b=c#d", "</script>", "\u202e", "100 %", "ä ö"])
def test_a_view_is_a_link_and_the_link_is_the_view(value):
    query = Query("words & more", {}, 3).toggled("topic", value).toggled("model", value).but(page=2, outliers=False)
    assert query_of(parse_qsl(query.encoded())) == query
    assert query.toggled("topic", value).chosen == {"model": (value,)}


@pytest.mark.parametrize("page", ["0", "-1", "x", "9" * 40, "٣"])
def test_a_page_that_does_not_exist_is_the_nearest_one(listing, page):
    found = find(listing, query_of([("page", page)]))
    assert (found.page, found.total) == (1, 3)


def test_a_sample_is_even_over_topics(listing):
    rows = {"kind": ["conversation"] * 100, "id": [str(n) for n in range(100)], "models": [["m"]] * 100}
    many = finished([pl.DataFrame(rows | {"topic": ["large"] * 90 + ["small"] * 10, "prompt": [""] * 100})])
    topics = sampled(many, 30)["topic"].cast(pl.String).value_counts()
    assert dict(topics.iter_rows()) == {"large": 20, "small": 10}
    assert sampled(many, 100).height == 100


def test_the_map_and_the_list_agree(listing):
    query = query_of([("language", "English")])
    assert matching(listing, query).sum() == find(listing, query).total == 2
