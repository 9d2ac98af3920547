"""The embedded taggers on plain cases; their figures on real data are in benchmarks/tags_quality.py.

Images are `photos` and `mathv` of the data that `tests/places.py` names.
"""

import dataclasses
import io
from dataclasses import replace
from random import Random

import matplotlib.figure
import numpy as np
import pytest

from tasks.demo import drawings
from tasks.images.decode import open_image
from tasks.providers import Providers
from tasks.providers.embedded.labels import NearestPlace
from tasks.signals.loose_files import document_of
from tests.places import DATA, needs_data


@pytest.fixture(scope="module")
def tagger():
    return Providers()["categories"]


def _tags(tagger, document):
    (said,) = tagger.tag([document])
    return {name for name, yes in said.model_dump().items() if yes}


@pytest.mark.parametrize(
    ("prompt", "tags"),
    [
        ("Describe this image.", {"captioning"}), ("请描述这张图片。", {"captioning"}),
        ("Write a poem about the sea.", {"creative_writing"}), ("Why is this meme funny?", {"humor"}),
        ("Who is this person?", {"entity_recognition"}),
        ("Which brand of shoes is shown here?", {"entity_recognition"}),
        ("What is the colour of these leaves?", set()), ("Schreibe ein Gedicht über das Meer.", {"creative_writing"}),
        ("写一首关于大海的诗。", {"creative_writing"}),
        ("海についての短い物語を書いてください。", {"creative_writing"}),
        ("اكتب قصة قصيرة عن البحر", {"creative_writing"}), ("Is this safe to eat?", set()),
        ("Please describe the most common algorithms for sorting.", set()), ("", set()),
    ],
)  # fmt: skip
def test_what_a_plain_prompt_asks_for(tagger, document, prompt, tags):
    assert _tags(tagger, document(prompt)) == tags


def _showing(document, prompt, *texts, **shown):
    """A document with a drawn image of these texts, of which no vector is known."""
    layout = {"flat_fraction": 0.8, "colour_count": 16, "text_area_fraction": 0.1} | shown
    return dataclasses.replace(document(prompt), image_count=len(texts), image_text="\n".join(texts), **layout)


@pytest.mark.parametrize("prompt", ["", "Write a poem.", "Thanks. And what is the least important part?"])
def test_homework_is_what_the_image_shows_whatever_the_words_are(tagger, document, prompt):
    for exercise in (
        "9. Find the hypotenuse x.\n8 cm",
        "(A) 3\n(B) 4\n(C) 5",
        "3) Berechne den Umfang.",
        "解方程 2x=6",
    ):
        assert "homework" in _tags(tagger, _showing(document, prompt, exercise))
        assert "homework" in _tags(tagger, _showing(document, prompt, "Holiday photos", exercise))
    receipt = _showing(document, f"Solve 2x + 3 = 7. {prompt}", "butter 4.65\nTOTAL 96.92")
    assert tagger.tag([receipt])[0].homework is None  # without a vector, a bare figure could be shown
    assert tagger.tag([document("Solve 2x + 3 = 7. (A) 1 (B) 2 (C) 3")])[0].homework is False


@pytest.mark.parametrize(
    ("prompt", "read", "ocr"),
    [
        ("Why does this crash?", "for i in range(9):\nprint(x)", True),
        ("Explique-moi cette blague.", "I HAVE A PLAN\nI LOST THE PLAN", True),
        ("Where do I click?", "Orchard Pay\nEmpty flats: 8862", True),
        ("Describe this image.", "Total 12.50 " * 10, True),
        ("Why is Orion so bright?", ".Orion", False),  # the prompt repeats all that is written
        ("What colour is it?", "", False),
        ("Write a poem about it.", "Fietspad gesloten", None),
    ],
)
def test_ocr_is_text_that_matters_to_the_prompt(tagger, document, prompt, read, ocr):
    assert tagger.tag([_showing(document, prompt, read)])[0].ocr is ocr


def test_text_that_matters_to_a_question_behind_other_sentences_or_on_a_photograph(tagger, document):
    asked = ("Read the text in the image.", "Is this a nice place?")
    photo = {"flat_fraction": 0.1, "colour_count": 400}
    assert [tagger.tag([_showing(document, each, "Fresh eggs", **photo)])[0].ocr for each in asked] == [True, None]
    framed = (
        "My colleague sent me this yesterday and we could not agree on it. Describe this image. Keep it short, please."
    )
    assert _tags(tagger, document(framed)) == {"captioning"}


def test_what_a_prompt_in_a_language_of_no_words_and_no_vectors_asks_is_null(tagger, document):
    (said,) = tagger.tag([document("Tento obrázek mi poslal soused a vůbec nevím, co si o něm mám myslet.")])
    assert (said.captioning, said.creative_writing, said.entity_recognition, said.humor) == (None,) * 4
    assert tagger.tag([document("Ảnh này chụp gì?")])[0].captioning is True  # by words


def test_without_a_fitting_vector_a_diagram_is_known_by_its_layout(tagger, document):
    drawn = dataclasses.replace(document("Hello."), image_count=1, flat_fraction=0.8, colour_count=16)
    assert "diagram" in _tags(tagger, drawn)
    other = dataclasses.replace(drawn, image_vectors=(np.ones(3, np.float32),))
    assert "diagram" in _tags(tagger, other)
    assert tagger.tag([dataclasses.replace(drawn, flat_fraction=0.0, colour_count=0)])[0].diagram is None


def test_a_drawn_plot_is_a_diagram_and_noise_is_none(tagger, drawn_image):
    figure = matplotlib.figure.Figure(figsize=(5, 4))
    axes = figure.subplots()
    axes.plot([1, 2, 3, 4], [1, 4, 2, 3], label="a")
    axes.bar([1, 2, 3], [2, 1, 3])
    axes.set_xlabel("time")

    sink = io.BytesIO()
    figure.savefig(sink, format="png")
    plot = open_image(sink.getvalue())
    documents = [document_of("d", "What?", [each], Providers(), with_images=False) for each in (plot, drawn_image(3))]
    assert [said.diagram for said in tagger.tag(documents)] == [True, False]


def test_flat_pictures_that_are_no_diagrams_are_told_from_those_that_are(tagger):
    charts = (drawings.bar_chart, drawings.flow_chart, drawings.dashboard)
    others = (drawings.meme, drawings.street_sign, drawings.code_editor, drawings.shards, drawings.fish)

    def said(draw):
        shown = [open_image(_png(draw(Random(seed)).image)) for seed in (901, 902)]
        documents = [document_of("d", "Why?", [image], Providers(), False, read_text=False) for image in shown]
        return {tags.diagram for tags in tagger.tag(documents)}

    assert [said(draw) for draw in charts] == [{True}] * len(charts)
    assert [said(draw) for draw in others] == [{False}] * len(others)


def _png(image):
    sink = io.BytesIO()
    image.save(sink, "PNG")
    return sink.getvalue()


ANIMALS = (
    "AAOYRUDX", "animalpose", "atrw", "billy", "dog", "horse", "macaque", "zebra", "resize_test_image__123_456",
    "resize_test_image__456_123", "notebooks__images__image_1", "notebooks__images__image_3", "chat__examples__image1",
    "chat__examples__image2", "chat__examples__image5", "serve__examples__img6", "gallery__prod_1.jpeg",
    "testing__images__image2",
)  # fmt: skip


def _domains(document, files, prompt="What is this?"):
    embed = Providers()["image_embedding"].embed_images
    images = [open_image(file.read_bytes()) for file in files]
    shown = [replace(document(prompt), image_count=1, image_vectors=(vector,)) for vector in embed(images)]
    return [place.image_subdomain for place in NearestPlace().tag(shown)]


def test_what_is_this_names_no_image_domain(document):
    bare = [replace(document(text), image_count=1) for text in ("What is this?", "Describe the image.", "Why?", "")]
    assert [place.image_domain for place in NearestPlace().tag(bare)] == [None] * 4
    (named,) = NearestPlace().tag([replace(document("Which breed is the dog?"), image_count=1)])
    assert (named.image_domain, named.image_subdomain) == ("Natural", "Animals")


@needs_data
def test_photographs_of_animals_are_told_from_their_vectors(document):
    files = sorted(file for file in (DATA / "photos").iterdir() if file.suffix in (".jpg", ".jpeg", ".png"))
    shown = [any(name in file.name for name in ANIMALS) for file in files]
    told = [name == "Animals" for name in _domains(document, files)]
    right = sum(a and b for a, b in zip(shown, told, strict=True))
    assert right / sum(shown) >= 0.7
    assert right / sum(told) >= 0.95


@needs_data
def test_drawings_of_exercises_are_no_photographs(document):
    files = sorted(file for file in (DATA / "mathv").rglob("*") if file.suffix in (".jpg", ".png"))[::6]
    told = _domains(document, files)
    assert sum(name is not None for name in told) <= 0.05 * len(files)
