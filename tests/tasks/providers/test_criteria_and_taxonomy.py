"""Criteria and taxonomy: enums from the data file, null as a value, failures instead of guesses."""

import json

import pytest

from schemas.benches.bench import FailureLabel, FailureType
from schemas.tags import Criteria, Taxonomy
from tasks.prompts import failure_types_prompt, taxonomy_file
from tasks.providers import Providers
from tasks.providers.capabilities import Failed

pytest.importorskip("tenacity", reason="production extra")
from tasks.providers.production import labels

NOWHERE = Taxonomy(question_category=None, question_subcategory=None, image_domain=None, image_subdomain=None)


@pytest.fixture
def ask(vendor, http_server, quick, reply):
    def ask(make, documents, answer):
        http_server.answer(reply(vendor.completed(json.dumps(answer))))
        return make(vendor.model()).tag(documents)

    return ask


def test_criteria_are_bool_or_null_as_the_model_said(ask, document):
    said = dict.fromkeys(Criteria.model_fields, True) | {"creativity": None, "complexity": False}
    assert ask(labels.criteria, [document()], said) == [Criteria(**said)]


@pytest.mark.parametrize("kind", [*FailureType, None])
def test_a_type_of_failure_is_one_of_seven_or_null(ask, document, kind):
    assert ask(labels.failure_types, [document()], {"failure_type": kind}) == [FailureLabel(failure_type=kind)]


@pytest.mark.parametrize("wrong", ["Hallucination", "visual", "", 3])
def test_an_eighth_type_of_failure_is_no_type(ask, document, wrong):
    assert ask(labels.failure_types, [document()], {"failure_type": wrong}) == [Failed("malformed_answer")]


def test_every_type_of_failure_is_defined_in_its_prompt():
    text = failure_types_prompt().text
    assert [kind for kind in FailureType if f"* `{kind}`: " not in text] == []


def test_a_place_is_split_into_its_columns(ask, document):
    said = {"question": "Analytical / Mathematical Reasoning", "image": "Expert"}
    assert ask(labels.taxonomy, [document()], said) == [
        Taxonomy(
            question_category="Analytical",
            question_subcategory="Mathematical Reasoning",
            image_domain="Expert",
            image_subdomain=None,
        )
    ]


def test_a_place_that_cannot_be_told_is_null(ask, document):
    assert ask(labels.taxonomy, [document()], {"question": None, "image": None}) == [NOWHERE]


@pytest.mark.parametrize("wrong", ["Analytical / Portraits", "analytical", "Music", "", 3])
def test_a_place_outside_the_taxonomy_is_a_failure(ask, document, wrong):
    assert ask(labels.taxonomy, [document()], {"question": wrong, "image": None}) == [Failed("malformed_answer")]


def test_the_model_is_given_every_value_as_an_enum(ask, document, http_server):
    ask(labels.taxonomy, [document()], {"question": None, "image": None})
    sent = json.dumps(http_server.requests[0])
    known = taxonomy_file()
    assert [value for value in (*known.question, *known.image) if f'"{value}"' not in sent] == []


@pytest.mark.parametrize(
    ("prompt", "category"),
    [
        ("What is the area of this triangle?", "Analytical"),
        ("Write a short story about this scene.", "Creative"),
        ("Who is this person?", "Recognition"),
        ("Describe this image in detail.", "Descriptive"),
        ("", None),
    ],
)
def test_the_embedded_place_of_a_plain_prompt(prompt, category, document):
    (place,) = Providers()["taxonomy"].tag([document(prompt)])
    assert place.question_category == category
    assert place.image_domain is None  # there is no image


def test_embedded_places_are_in_the_taxonomy(document, drawn_image):
    known = taxonomy_file()
    prompts = ["How many dogs are there?", "What is the total?", "Fix this bug", "Which movie is it?", "x"]
    for place in Providers()["taxonomy"].tag([document(prompt, [drawn_image()]) for prompt in prompts]):
        for tree, one, two in (
            (known.question, place.question_category, place.question_subcategory),
            (known.image, place.image_domain, place.image_subdomain),
        ):
            assert one is None or one in tree
            assert two is None or f"{one} / {two}" in tree


def test_embedded_criteria_of_a_hard_and_of_an_idle_prompt(document):
    hard = "Write a Python function that solves a quadratic equation. It must handle a = 0, and return None if no root."
    judged, idle, empty = Providers()["criteria"].tag([document(hard), document("Hello!"), document(" ")])
    assert judged.domain_knowledge and judged.specificity and judged.technical_accuracy and judged.complexity
    assert not any(idle.model_dump().values())
    assert set(empty.model_dump().values()) == {None}
