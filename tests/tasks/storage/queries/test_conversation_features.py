"""Features of a conversation are those of its messages, and a document's vector that of its prompt and images."""

import random

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.errors import BadInput
from schemas.settings import TopicSettings
from tasks.storage.content_id import text_id
from tasks.storage.queries.conversation_features import (
    CATEGORIES,
    CRITERIA,
    MARKDOWN,
    TAXONOMY,
    conversation_features,
    overlap,
    tag_counts,
    tallied,
    taxonomy_counts,
)
from tasks.storage.queries.documents import document_vectors
from tests.builders import VERSIONS, conversation, measure_clean, store_with

TALK = conversation("talk", "One?", "First.", "Two?", "Second.")
SHORT = conversation("short", "One?", "Third.")


def text(talk, place):
    return talk.turns[place].text_id


def features(tmp_path, conversations=(TALK, SHORT), **facts):
    store = store_with(tmp_path, conversations=conversations)
    measure_clean(store, conversations, **facts)
    frame = conversation_features(
        store, store.read("conversations")["conversation_id"], VERSIONS, ["* EXCLUDE (conversation_id)"]
    )
    return {row["conversation_id"]: row for row in frame.iter_rows(named=True)}


@pytest.mark.parametrize(("name", "context", "answers"), [("talk", 10 + 5, 100 + 5), ("same", 10, 10)])
def test_tokens_are_summed_over_the_messages_of_a_role(tmp_path, name, context, answers):
    same = conversation("same", "Again?", "Yes.", "Again?", "Yes.")
    rows = features(tmp_path, [TALK, same], tokens={text(TALK, 0): {"tokens": 10}, text(TALK, 3): {"tokens": 100}})
    assert (rows[name]["context_tokens"], rows[name]["assistant_tokens"]) == (context, answers)


def test_markdown_is_summed_over_the_answers(tmp_path):
    counts = {"h1": 1, "h4": 2, "ordered": 3, "unordered": 4, "bold_stars": 5, "bold_underscores": 6}
    row = features(tmp_path, markdown={text(TALK, 1): counts, text(TALK, 3): {"h1": 10}})["talk"]
    assert (row["headers"], row["list_items"], row["bold"]) == (13, 7, 11)
    assert {name: row[name] for name in MARKDOWN} == dict.fromkeys(MARKDOWN, 0) | counts | {"h1": 11}


@pytest.mark.parametrize("mark", ["code", "refusal", "multi_turn"])
def test_a_conversation_has_the_mark_that_any_of_its_messages_makes(tmp_path, mark):
    rows = features(tmp_path, code={text(TALK, 2): {"is_code": True}}, refusal={text(TALK, 3): {"refusal": True}})
    assert (rows["talk"][mark], rows["short"][mark]) == (True, False)


def test_code_is_also_what_an_image_shows_unless_it_was_not_read(tmp_path):
    shown, unread = (conversation(name, "What?", "That.", image_ids=[text_id(name)]) for name in ("shown", "unread"))
    code = {text_id("shown"): {"is_code": True}, text_id("unread"): None}
    rows = features(tmp_path, [shown, unread, SHORT], code=code)
    assert [rows[name]["code"] for name in ("shown", "unread", "short")] == [True, None, False]
    assert rows["shown"]["assistant_tokens"] == 5


def test_the_language_is_that_of_the_prompt(tmp_path):
    rows = features(tmp_path, language={SHORT.prompt_id: {"language": "fr"}})
    assert (rows["talk"]["language"], rows["short"]["language"]) == ("en", "fr")


def test_categories_are_those_of_the_document(tmp_path):
    rows = features(tmp_path, categories={TALK.document_id: {"ocr": True}})
    assert {name for name in CATEGORIES if rows["talk"][name]} == {"ocr"}


@pytest.mark.parametrize("seed", range(6))
def test_a_prompt_is_hard_where_six_of_seven_criteria_hold_unless_nulls_decide(tmp_path, seed):
    draw = random.Random(seed)
    talks = [conversation(f"talk{number}", f"Prompt {number}?", "Yes.") for number in range(20)]
    answers = {
        talk.document_id: dict(zip(CRITERIA, draw.choices([True, False, None], [8, 1, 1], k=7), strict=True))
        for talk in talks
    }
    rows = features(tmp_path, talks, criteria=answers)
    for talk in talks:
        met = list(answers[talk.document_id].values())
        at_least, at_most = met.count(True) >= 6, met.count(True) + met.count(None) >= 6
        assert rows[talk.conversation_id]["hard"] is (at_least if at_least == at_most else None)


@pytest.mark.parametrize(("provider", "hard"), [("rules", True), ("embedded", None)])
def test_criteria_of_words_alone_make_no_prompt_hard(tmp_path, provider, hard):
    store = store_with(tmp_path, conversations=[TALK])
    measure_clean(store, [TALK], criteria={TALK.document_id: dict.fromkeys(CRITERIA, True)})
    store.replace("signals/criteria", store.read("signals/criteria").with_columns(provider=pl.lit(provider)))
    marks = conversation_features(store, pl.Series([TALK.conversation_id]), VERSIONS, ["hard", "specificity"])
    assert marks.select("hard", "specificity").row(0) == (hard, True)


@pytest.mark.parametrize(("tokens", "longer"), [(249, False), (250, True), (None, None)])
def test_a_query_is_long_from_500_tokens_of_all_user_messages_on(tmp_path, tokens, longer):
    counts = {text(TALK, place): None if tokens is None else {"tokens": tokens} for place in (0, 2)}
    assert features(tmp_path, tokens=counts)["talk"]["longer_query"] is longer


@pytest.mark.parametrize("said", [True, False, None])
def test_instruction_following_is_what_a_tagger_says(tmp_path, said):
    rows = features(tmp_path, categories={TALK.document_id: {"instruction_following": said}})
    assert rows["talk"]["instruction_following"] is said


def test_several_images_are_more_than_one_of_the_conversation(tmp_path):
    pictures = [text_id(name) for name in "ab"]
    talks = [conversation(f"of{count}", f"Show {count}?", "Yes.", image_ids=pictures[:count]) for count in range(3)]
    rows = features(tmp_path, talks)
    assert [rows[f"of{count}"]["multi_image"] for count in range(3)] == [False, False, True]


def test_what_was_not_measured_is_null(tmp_path):
    row = features(tmp_path, language={SHORT.prompt_id: None}, categories={SHORT.document_id: None})["short"]
    assert row["language"] is None
    assert [row[name] for name in CATEGORIES] == [None] * len(CATEGORIES)


def test_only_a_sum_with_what_was_not_measured_is_null(tmp_path):
    missing = {text(TALK, 3): None}
    row = features(tmp_path, tokens=missing, markdown=missing, named_entities=missing, refusal=missing)["talk"]
    names = ("assistant_tokens", "headers", "list_items", "bold", "entities", "refusal")
    assert [row[name] for name in names] == [None] * 6
    assert row["context_tokens"] == 10


def sum_of_all(values):
    """The sum; None where there is no value, or one was not measured."""
    return None if None in values or not values else sum(values)


def true_for_any(values):
    """True where one is; None where there is none, or one was not measured and the others are not true."""
    return True if True in values else None if None in values or not values else False


def drawn_conversations(chance):
    """Conversations of one to six messages, which repeat texts and images of each other."""
    texts = [f"text {number}" for number in range(12)]
    images = [text_id(f"image {number}") for number in range(4)]
    for number in range(30):
        messages = chance.choices(texts, k=chance.randint(1, 6))
        yield conversation(f"c{number}", *messages, image_ids=chance.sample(images, chance.randint(0, 2)))


@pytest.mark.parametrize("seed", range(4))
def test_facts_of_drawn_conversations_are_what_plain_counting_says(tmp_path, seed):
    chance = random.Random(seed)
    conversations = [*drawn_conversations(chance)]
    content_ids = {turn.text_id for each in conversations for turn in each.turns}
    content_ids |= {image_id for each in conversations for image_id in each.image_ids}
    values = {
        "tokens": {one: {"tokens": chance.randint(0, 90)} for one in content_ids},
        "code": {one: {"is_code": chance.random() < 0.3} for one in content_ids},
        "refusal": {one: {"refusal": chance.random() < 0.3} for one in content_ids},
        "named_entities": {one: {"entities": chance.randint(0, 9)} for one in content_ids},
        "markdown": {one: {name: chance.randint(0, 3) for name in MARKDOWN} for one in content_ids},
    }
    for of_signal in values.values():
        of_signal |= dict.fromkeys(chance.sample(sorted(content_ids), 3))
    rows = features(tmp_path, conversations, **values)

    def measured(signal, name, ids):
        return [(values[signal][one] or {}).get(name) for one in ids]

    for each in conversations:
        row, answers = rows[each.conversation_id], [turn.text_id for turn in each.turns if turn.role == "assistant"]
        prompts = [turn.text_id for turn in each.turns if turn.role == "user"]
        everything = [*prompts, *answers, *each.image_ids]
        assert row["code"] is true_for_any(measured("code", "is_code", everything))
        assert row["refusal"] is true_for_any(measured("refusal", "refusal", answers))
        assert row["context_tokens"] == sum_of_all(measured("tokens", "tokens", prompts))
        assert row["assistant_tokens"] == (sum_of_all(measured("tokens", "tokens", answers)) if answers else 0)
        assert row["entities"] == sum_of_all(measured("named_entities", "entities", answers))
        marks = {name: sum_of_all(measured("markdown", name, answers)) for name in MARKDOWN}
        assert {name: row[name] for name in MARKDOWN} == marks
        assert row["bold"] == sum_of_all([marks["bold_stars"], marks["bold_underscores"]])
        assert row["headers"] == sum_of_all([marks[f"h{level}"] for level in range(1, 7)])


def test_every_declared_tag_and_mark_is_a_column(tmp_path):
    assert {*CATEGORIES, *CRITERIA, *TAXONOMY, *MARKDOWN} < {*features(tmp_path)["talk"]}


TAGS = ("code", "refusal")
TOLD = st.none() | st.booleans()
PLACE = st.none() | st.sampled_from(["art", "chart"])
ROWS = st.lists(
    st.fixed_dictionaries(dict.fromkeys(TAGS, TOLD) | dict.fromkeys(TAXONOMY, PLACE)), min_size=1, max_size=12
)
SCHEMA = dict.fromkeys(TAGS, pl.Boolean) | dict.fromkeys(TAXONOMY, pl.String)


def tallies(rows: list[dict], names: tuple[str, ...], size: int) -> pl.DataFrame:
    """Tallies of parts of so many rows."""
    parts = pl.DataFrame(rows, schema=SCHEMA).iter_slices(size)
    return pl.concat([tallied(part, names) for part in parts])


SIZES = st.integers(1, 5)


@settings(max_examples=25)
@given(rows=ROWS, size=SIZES)
def test_tallies_of_parts_count_the_tags_of_their_rows(rows, size):
    whole = pl.DataFrame(rows, schema=SCHEMA)
    counts = {count.tag: (count.items, count.not_told) for count in tag_counts(tallies(rows, TAGS, size), TAGS)}
    assert counts == {tag: (whole[tag].sum(), whole[tag].null_count()) for tag in TAGS}


@settings(max_examples=25)
@given(rows=ROWS, size=SIZES)
def test_the_overlap_of_two_tags_is_the_share_of_rows_with_both(rows, size):
    both = [row["code"] for row in rows if row["refusal"] and row["code"] is not None]
    share = overlap(tallies(rows, TAGS, size), TAGS).filter(tag="refusal")["code"].item()
    assert share == (sum(both) / len(both) if both else None)


@settings(max_examples=25)
@given(rows=ROWS, size=SIZES)
def test_the_size_of_parts_changes_no_place_of_the_taxonomy(rows, size):
    assert taxonomy_counts(tallies(rows, TAXONOMY, size)) == taxonomy_counts(tallies(rows, TAXONOMY, len(rows)))


@settings(max_examples=25)
@given(rows=ROWS, size=SIZES)
def test_places_of_the_taxonomy_are_counted(rows, size):
    places = taxonomy_counts(tallies(rows, TAXONOMY, size))
    art = [row for row in rows if row[TAXONOMY[0]] == "art"]
    assert sum(place.items for place in places if place.tag == f"{TAXONOMY[0]}: art") == len(art)


def _unit(*values):
    return np.array(values, np.float32) / np.linalg.norm(values)


def made(documents, prompts, images, weight=0.5, joint=False, document="auto"):
    return document_vectors(documents, prompts, images, TopicSettings(image_weight=weight, document=document), joint)


PROMPTS = {"p": _unit(1, 0), "q": _unit(1, 1)}
IMAGES = {"i": _unit(1, 0, 0), "j": _unit(0, 3, 4)}
DOCUMENTS = pl.DataFrame(
    {"prompt_id": ["p", "q", "p", "p"], "image_ids": [["i"], ["j"], ["i", "j"], []]},
    schema_overrides={"image_ids": pl.List(pl.String)},
)


@pytest.mark.parametrize("weight", [0.0, 0.3, 1.0])
def test_cosine_of_documents_is_the_weighted_mean_of_prompt_and_image_cosines(weight):
    a, b = made(DOCUMENTS[:2], PROMPTS, IMAGES, weight)
    prompts, images = PROMPTS["p"] @ PROMPTS["q"], IMAGES["i"] @ IMAGES["j"]
    assert a @ b == pytest.approx((1 - weight) * prompts + weight * images, abs=1e-6)


@pytest.mark.parametrize("joint", [False, True])
@pytest.mark.parametrize("weight", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("document", ["auto", "mean", "concatenated", "text", "image"])
def test_every_document_has_unit_length_with_or_without_images(joint, weight, document):
    if not joint and document in ("mean", "image"):
        return
    images = {name: vector[:2] / np.linalg.norm(vector[:2]) for name, vector in IMAGES.items()}
    vectors = made(DOCUMENTS, PROMPTS, images, weight, joint, document)
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1.0, abs=1e-6)
    assert vectors.dtype == np.float32


def test_several_images_count_as_their_mean():
    vectors = made(DOCUMENTS[2:3], PROMPTS, IMAGES, 1.0, joint=False)
    assert vectors[0, 2:] == pytest.approx(_unit(5, 3, 4), abs=1e-6)


JOINT = {"p": _unit(1, 0)}, {"i": _unit(0, 1)}


@pytest.mark.parametrize(
    ("document", "weight", "vector"),
    [
        ("mean", 0.5, (1, 1)),
        ("mean", 0.75, (1, 3)),
        ("text", 0.5, (1, 0)),
        ("image", 0.5, (0, 1)),
        ("concatenated", 0.5, (1, 0, 0, 1)),
    ],
)
def test_a_document_is_made_of_what_the_settings_say(document, weight, vector):
    vectors = made(DOCUMENTS[:1], *JOINT, weight, joint=True, document=document)
    assert vectors[0] == pytest.approx(_unit(*vector), abs=1e-6)


@pytest.mark.parametrize("document", ["auto", "mean", "image"])
def test_a_document_without_an_image_is_its_prompt(document):
    vectors = made(DOCUMENTS[3:], *JOINT, 1.0, joint=True, document=document)
    assert vectors[0] == pytest.approx(_unit(1, 0), abs=1e-6)


@pytest.mark.parametrize("document", ["mean", "image"])
def test_two_spaces_have_no_mean(document):
    with pytest.raises(BadInput, match="one space"):
        made(DOCUMENTS, PROMPTS, IMAGES, document=document)


def test_prompts_and_images_of_one_space_have_one_length():
    with pytest.raises(BadInput, match="text embeddings have 2 dimensions and image embeddings 3; choose one provider"):
        made(DOCUMENTS[:1], {"p": _unit(1, 0)}, {"i": _unit(0, 1, 0)}, joint=True, document="mean")
