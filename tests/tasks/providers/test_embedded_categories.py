"""The embedded tagger on plain cases of every tag; its figures on real data are in benchmarks/tags_quality.py."""

import dataclasses
import io

import matplotlib.figure
import numpy as np
import pytest

from tasks.images.decode import open_image
from tasks.providers import Providers
from tasks.signals.loose_files import document_of


@pytest.fixture(scope="module")
def tagger():
    return Providers()["categories"]


def _tags(tagger, document):
    (said,) = tagger.tag([document])
    return {name for name, yes in said.model_dump().items() if yes}


@pytest.mark.parametrize(
    ("prompt", "tags"),
    [
        ("Describe this image.", {"captioning"}),
        ("请描述这张图片。", {"captioning"}),
        ("Write a poem about the sea.", {"creative_writing"}),
        ("Why is this meme funny?", {"humor"}),
        ("Read the text in the image.", {"ocr"}),
        ("Who is this person?", {"entity_recognition"}),
        ("Which brand of shoes is shown here?", {"entity_recognition"}),
        ("What is the colour of these leaves?", set()),
        ("Schreibe ein Gedicht über das Meer.", {"creative_writing"}),
        ("写一首关于大海的诗。", {"creative_writing"}),
        ("海についての短い物語を書いてください。", {"creative_writing"}),
        ("اكتب قصة قصيرة عن البحر", {"creative_writing"}),
        ("Is this safe to eat?", set()),
        ("Please describe the most common algorithms for sorting.", set()),
        ("", set()),
    ],
)
def test_what_a_plain_prompt_asks_for(tagger, document, prompt, tags):
    assert _tags(tagger, document(prompt)) == tags


@pytest.mark.parametrize(
    "prompt",
    [
        "Solve 2x + 3 = 7.",
        "Which is correct? (A) 1 (B) 2 (C) 3",
        "In triangle $ABC$ the angle is $\\angle A = 50^{\\circ}$. How large is B?",
    ],
)
def test_an_exercise_is_homework_whatever_is_shown(tagger, document, prompt):
    assert "homework" in _tags(tagger, document(prompt))


def test_a_task_of_some_length_is_homework_under_a_drawing_and_not_under_a_photograph(tagger, document):
    task = document("How many of the small white squares do you need to cover 2 sides of the board exactly?")
    drawn = dataclasses.replace(task, image_count=1, flat_fraction=0.8, colour_count=16)
    photo = dataclasses.replace(task, image_count=1, flat_fraction=0.1, colour_count=400)
    assert "homework" in _tags(tagger, drawn)
    assert "homework" not in _tags(tagger, photo)


def test_a_page_of_text_is_ocr_unless_a_caption_is_asked_for(tagger, document):
    page = {"image_count": 1, "image_text": "Total 12.50 " * 10, "text_area_fraction": 0.4}
    assert _tags(tagger, dataclasses.replace(document(""), **page)) == {"ocr"}
    assert _tags(tagger, dataclasses.replace(document("Describe this image."), **page)) == {"captioning"}


def test_without_a_fitting_vector_a_diagram_is_known_by_its_layout(tagger, document):
    drawn = dataclasses.replace(document("Hello."), image_count=1, flat_fraction=0.8, colour_count=16)
    assert "diagram" in _tags(tagger, drawn)
    other = dataclasses.replace(drawn, image_vectors=(np.ones(3, np.float32),))
    assert "diagram" in _tags(tagger, other)


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
