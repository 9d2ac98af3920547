"""Features of a conversation are those of its messages, summed over the right side; null is not zero."""

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.storage.queries.conversation_features import (
    CATEGORIES,
    MARKDOWN,
    TAXONOMY,
    conversation_features,
    overlap,
    tag_counts,
    tallied,
    taxonomy_counts,
)
from tests.builders import VERSIONS, conversation, measure_clean, store_with

TALK = conversation("talk", "One?", "First.", "Two?", "Second.")
SHORT = conversation("short", "One?", "Third.")


def text(talk, place):
    return talk.turns[place].text_id


def features(tmp_path, conversations=(TALK, SHORT), **facts):
    store = store_with(tmp_path, conversations=conversations)
    measure_clean(store, conversations, **facts)
    frame = conversation_features(store, store.read("conversations"), VERSIONS)
    return {row["conversation_id"]: row for row in frame.iter_rows(named=True)}


def test_tokens_are_summed_by_role_and_a_repeated_text_counts_every_time(tmp_path):
    same = conversation("same", "Again?", "Yes.", "Again?", "Yes.")
    rows = features(tmp_path, [TALK, same], tokens={text(TALK, 0): {"tokens": 10}, text(TALK, 3): {"tokens": 100}})
    assert (rows["talk"]["context_tokens"], rows["talk"]["assistant_tokens"]) == (10 + 5, 100 + 5)
    assert (rows["same"]["context_tokens"], rows["same"]["assistant_tokens"]) == (10, 10)


def test_markdown_is_summed_over_answers_and_grouped_for_style_control(tmp_path):
    counts = {"h1": 1, "h4": 2, "ordered": 3, "unordered": 4, "bold_stars": 5, "bold_underscores": 6}
    row = features(tmp_path, markdown={text(TALK, 1): counts, text(TALK, 3): {"h1": 10}})["talk"]
    assert (row["headers"], row["list_items"], row["bold"]) == (13, 7, 11)
    assert {name: row[name] for name in MARKDOWN} == dict.fromkeys(MARKDOWN, 0) | counts | {"h1": 11}


def test_code_in_any_message_and_refusal_in_any_answer_count(tmp_path):
    rows = features(tmp_path, code={text(TALK, 2): {"is_code": True}}, refusal={text(TALK, 3): {"refusal": True}})
    assert (rows["talk"]["code"], rows["talk"]["refusal"], rows["talk"]["multi_turn"]) == (True, True, True)
    assert (rows["short"]["code"], rows["short"]["refusal"], rows["short"]["multi_turn"]) == (False, False, False)


def test_code_that_an_image_shows_counts_and_an_unread_image_leaves_it_unknown(tmp_path):
    shown, unread = (conversation(name, "What?", "That.", image_ids=[name]) for name in ("shown", "unread"))
    rows = features(tmp_path, [shown, unread, SHORT], code={"shown": {"is_code": True}, "unread": None})
    assert [rows[name]["code"] for name in ("shown", "unread", "short")] == [True, None, False]
    assert rows["shown"]["assistant_tokens"] == 5


def test_language_and_categories_are_those_of_the_prompt(tmp_path):
    rows = features(
        tmp_path, language={SHORT.prompt_id: {"language": "fr"}}, categories={TALK.document_id: {"ocr": True}}
    )
    assert (rows["talk"]["language"], rows["short"]["language"]) == ("en", "fr")
    assert {name for name in CATEGORIES if rows["talk"][name]} == {"ocr"}


def test_what_was_not_measured_is_null(tmp_path):
    row = features(tmp_path, language={SHORT.prompt_id: None}, categories={SHORT.document_id: None})["short"]
    assert row["language"] is None
    assert [row[name] for name in CATEGORIES] == [None] * len(CATEGORIES)


def test_a_sum_with_a_part_that_was_not_measured_is_null(tmp_path):
    missing = {text(TALK, 3): None}
    row = features(tmp_path, tokens=missing, markdown=missing, named_entities=missing, refusal=missing)["talk"]
    names = ("assistant_tokens", "headers", "list_items", "bold", "entities", "refusal")
    assert [row[name] for name in names] == [None] * 6
    assert row["context_tokens"] == 10


def test_rows_keep_their_order_and_number(tmp_path):
    store = store_with(tmp_path, conversations=[TALK, SHORT])
    measure_clean(store, [TALK, SHORT])
    wanted = store.read("conversations").sort("conversation_id", descending=True)
    assert conversation_features(store, wanted, VERSIONS)["conversation_id"].to_list() == ["talk", "short"]


TAGS = ("code", "refusal")
TOLD = st.none() | st.booleans()
PLACE = st.none() | st.sampled_from(["art", "chart"])
ROWS = st.lists(
    st.fixed_dictionaries(dict.fromkeys(TAGS, TOLD) | dict.fromkeys(TAXONOMY, PLACE)), min_size=1, max_size=12
)
SCHEMA = dict.fromkeys(TAGS, pl.Boolean) | dict.fromkeys(TAXONOMY, pl.String)


@settings(max_examples=60)
@given(rows=ROWS, size=st.integers(1, 5))
def test_tallies_of_parts_count_what_the_rows_say(rows, size):
    whole = pl.DataFrame(rows, schema=SCHEMA)
    parts = list(whole.iter_slices(size))
    tags = pl.concat([tallied(part, TAGS) for part in parts])
    counts = {count.tag: (count.items, count.not_told) for count in tag_counts(tags, TAGS)}
    assert counts == {tag: (whole[tag].sum(), whole[tag].null_count()) for tag in TAGS}
    both = [row["code"] for row in rows if row["refusal"] and row["code"] is not None]
    share = overlap(tags, TAGS).filter(tag="refusal")["code"].item()
    assert share == (sum(both) / len(both) if both else None)
    places = taxonomy_counts(pl.concat([tallied(part, TAXONOMY) for part in parts]))
    assert places == taxonomy_counts(tallied(whole, TAXONOMY))
    art = [row for row in rows if row[TAXONOMY[0]] == "art"]
    assert sum(place.items for place in places if place.tag == f"{TAXONOMY[0]}: art") == len(art)
