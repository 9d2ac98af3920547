"""One unit vector for each document, from its prompt and images."""

import numpy as np
import polars as pl
import pytest

from schemas.errors import BadInput
from schemas.settings import TopicSettings
from tasks.storage.queries.documents import document_vectors


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
