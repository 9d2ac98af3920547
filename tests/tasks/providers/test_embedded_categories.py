"""The embedded taggers on plain cases; their figures on real data are in benchmarks/tags_quality.py.

Images are `photos` and `mathv` of the data that `tests/places.py` names.
"""

import dataclasses
import io
import re
from dataclasses import replace
from random import Random

import matplotlib.figure
import numpy as np
import PIL.Image
import pytest

from tasks.demo import drawings
from tasks.images.decode import open_image
from tasks.providers import Providers
from tasks.providers.embedded import labels
from tasks.providers.embedded.known_tags import KnownTags
from tasks.providers.embedded.labels import NearestPlace, WordsAndLayout
from tasks.signals.loose_files import document_of
from tasks.signals.rules.texts import code
from tests.places import DATA, ROOT, needs_data


@pytest.fixture(scope="module")
def tagger():
    return WordsAndLayout()


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
    assert tagger.tag([receipt])[0].homework is False
    assert tagger.tag([document("Solve 2x + 3 = 7. (A) 1 (B) 2 (C) 3")])[0].homework is False


NO_TASK = [
    "A B C x 8 cm 6 cm", "(a) before (b) after (c) both", "A. Smith\nB. Jones", "The dog ate my homework",
    "These results show that the method works.", "Name: Ann Doe\nBorn: 1 May", "butter 4.65\nTOTAL 96.92",
    "Notes of Monday: a circle has the area of pi r squared.", "STOP", "",
]  # fmt: skip
TASKS = [
    "7. Calculate the area of the shaded part.", "Which is largest?\n(A) 3\n(B) 4\n(C) 5", "Show your work.",
    "Fill in the blank: the cat ___ on the mat.", "12 + 5 = ?", "Tim has 12 apples and eats 5. How many are left?",
    "Berechne den Umfang des Kreises.", "Ergänze die Lücken.", "Calcule l'aire du triangle.", "Resuelve la ecuación.",
    "解方程 2x = 6", "次の式を計算しなさい。",
]  # fmt: skip


def _looks_like(kind):
    """A vector of an image that the shipped weights take for the kind."""
    weights = labels._weights()[kind][1:]
    return np.asarray(20 * weights / np.linalg.norm(weights), np.float32)


@pytest.mark.parametrize("text", TASKS)
def test_a_written_task_in_an_image_is_homework_whatever_else_it_looks_like(tagger, document, text):
    assert tagger.tag([_showing(document, "What is this?", text)])[0].homework is True


@pytest.mark.parametrize("text", NO_TASK)
def test_a_figure_or_page_without_a_task_is_no_homework_however_it_looks(tagger, document, text):
    shown = _showing(document, "Solve 2x + 3 = 7.", text)
    assert tagger.tag([shown])[0].homework is False
    drawn = replace(shown, image_vectors=(_looks_like("homework"),))
    assert tagger.tag([drawn])[0].homework is not True
    asks = replace(drawn, image_text=f"{text}\nWhich of them is the longest one?")
    assert tagger.tag([asks])[0].homework is True


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


def _told_in_docs(tag):
    """The cases of a tag that docs/models.md shows: those that have it, then those that do not."""
    part = (ROOT / "docs" / "models.md").read_text(encoding="utf-8").partition(f"**`{tag}`**")[2]
    lines = [line.strip("| ").split(" | ") for line in part.split("\n\n")[1].splitlines()[2:]]
    return [yes for yes, _ in lines], [no for _, no in lines]


OF_PROMPT = ("captioning", "creative_writing", "entity_recognition", "humor")
TOLD = (
    "captioning",
    "creative_writing",
    "diagram",
    "entity_recognition",
    "homework",
    "humor",
    "ocr",
    "refusal",
    "code",
)
SEEN_IN = {
    "a photograph": {"flat_fraction": 0.1, "colour_count": 400, "text_area_fraction": 0.03},
    "a page": {"text_area_fraction": 0.4},
}
"""Kind of picture -> its layout; others are drawn."""


def _drawn(name):
    """The picture that the docs name, drawn; None for one that nothing here draws."""
    drawing = {
        "a bar chart": drawings.bar_chart, "a flow chart": drawings.flow_chart,
        "a triangle with letters and measures": drawings.right_triangle, "a photograph of hills": drawings.landscape,
        "a page of text": drawings.text_page, "a receipt": drawings.receipt, "a road sign": drawings.street_sign,
    }.get(name)  # fmt: skip
    if drawing:
        return drawing(Random(7)).image
    if name != "a line plot with axes":
        return None
    figure, sink = matplotlib.figure.Figure(figsize=(5, 4)), io.BytesIO()
    figure.subplots().plot([1, 2, 3, 4], [1, 4, 2, 3], label="a")
    figure.savefig(sink, format="png")
    return PIL.Image.open(sink).convert("RGB")


def _said_of(tagger, document, tag, case):
    """What the embedded provider says of one case of the docs; `tagger` is one of categories."""
    if tag == "refusal":
        return Providers()["refusal"].refuses([case])[0]
    if tag == "code":
        return code(case.strip("`").replace("⏎", "\n")).is_code
    if tag in OF_PROMPT:
        return getattr(tagger.tag([document(case)])[0], tag)
    if tag == "diagram":
        if (image := _drawn(case)) is None:
            return None
        sink = io.BytesIO()
        image.save(sink, "PNG")
        shown = document_of("d", "What is this?", [open_image(sink.getvalue())], Providers(), False)
        return tagger.tag([shown])[0].diagram
    if tag == "homework":
        quoted = re.fullmatch('"(.+)"', case)
        return tagger.tag([_showing(document, "What is this?", quoted[1])])[0].homework if quoted else None
    prompt, kind, read = re.fullmatch(r"(.+) \((.+?): (.+)\)", case).groups()
    shown = _showing(document, prompt, "" if read == "nothing" else read, **SEEN_IN.get(kind, {}))
    return tagger.tag([shown])[0].ocr


@pytest.mark.parametrize("tag", TOLD)
def test_the_cases_of_the_docs_are_tagged_as_they_say_or_null(tag, document):
    yes, no = _told_in_docs(tag)
    assert len(yes) == len(no) == 5
    tagger = KnownTags()
    wrong = [case for case in yes if _said_of(tagger, document, tag, case) is False]
    wrong += [case for case in no if _said_of(tagger, document, tag, case) is True]
    assert wrong == []


@pytest.mark.parametrize("tag", OF_PROMPT)
def test_the_rules_of_what_a_prompt_asks_know_the_cases_of_the_docs(tag, tagger, document):
    yes, no = _told_in_docs(tag)
    said = [getattr(tags, tag) for tags in tagger.tag([document(prompt) for prompt in (*yes, *no)])]
    assert said == [True] * 5 + [False] * 5


ASKED = {  # language -> forms of a question that name something, and things
    "en": (["Which {} is this?", "What is the name of this {}?"], ["comet", "castle", "breed of dog", "painting"]),
    "de": (["Welches {} ist das?", "Wie heißt dieses {}?"], ["Gebäude", "Gemälde", "Schloss", "Tier"]),
    "fr": (["Quel {} est-ce ?", "Comment s'appelle ce {} ?"], ["monument", "château", "tableau", "animal"]),
    "es": (["¿Qué {} es este?", "¿Cómo se llama este {}?"], ["monumento", "castillo", "cuadro", "animal"]),
    "zh": (["这是哪个{}？", "这个{}叫什么名字？"], ["城市", "品牌", "星球", "景点"]),
    "ja": (["これは何という{}ですか？", "この{}の名前は何ですか？"], ["建物", "天体", "花", "動物"]),
}
NOT_ASKED = [
    "Which tree would you plant here?",
    "Wo ist der Fehler in diesem Code?",
    "Welchen Verlauf zeigt das Diagramm?",
    "这张图里哪个数值最高？",
    "Which model are you?",
    "Who made you?",
    "Are you GPT or Claude?",
    "Would this fit in a small car?",
    "Welches Modell bist du?",
    "Passt das in ein kleines Auto?",
    "Quel modèle es-tu ?",
    "Est-ce que cela tient dans une petite voiture ?",
    "¿Qué modelo eres?",
    "¿Cabe esto en un coche pequeño?",
    "你是什么模型？",
    "这个能放进小汽车里吗？",
    "あなたはどのモデルですか？",
    "これは小さな車に入りますか？",
    "Welche Farbe hat das Auto?",
    "De quelle couleur est la voiture ?",
    "車は何色ですか？",
    "车是什么颜色的？",
    "¿De qué color es el coche?",
]


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("language", ASKED)
def test_a_question_for_a_name_is_entity_recognition_in_every_language(tagger, document, language, seed):
    forms, things = ASKED[language]
    chance = Random(f"{seed} {language}")
    prompts = [chance.choice(forms).format(chance.choice(things)) for _ in range(6)]
    assert [each for each, tags in zip(prompts, tagger.tag([*map(document, prompts)]), strict=True)
            if not tags.entity_recognition] == []  # fmt: skip


@pytest.mark.parametrize("prompt", NOT_ASKED)
def test_neither_the_models_identity_nor_a_property_is_an_entity_or_a_brand(tagger, document, prompt):
    assert tagger.tag([document(prompt)])[0].entity_recognition is False
    assert NearestPlace().tag([document(prompt)])[0].question_subcategory != "Brand Recognition"


NAMES_ASKED = ["Which brand is this {}?", "Which city is this?", "Which species is this?", "Which brand made the {}?"]
BESIDE = ["Describe it in a few words.", "I took the picture last summer.", "Please help me.", "Thank you very much."]


@pytest.mark.parametrize("seed", range(2))
def test_the_order_of_sentences_decides_no_question_category(document, seed):
    chance = Random(f"{seed} sentences")
    asked = [chance.choice(NAMES_ASKED).format(chance.choice(["car", "shoe", "watch"])) for _ in range(8)]
    pairs = [(question, chance.choice(BESIDE)) for question in asked]
    first = NearestPlace().tag([document(f"{question} {other}") for question, other in pairs])
    last = NearestPlace().tag([document(f"{other} {question}") for question, other in pairs])
    assert [place.question_subcategory for place in first] == [place.question_subcategory for place in last]
    assert {place.question_category for place in first} == {"Recognition"}


CHOICES = ["figures", "shapes", "cards", "dogs", "flowers", "cars", "houses", "planets"]
CHOSEN_BY = [
    "is shown most often in the row", "comes next", "is the largest", "does not belong to the others", "looks oldest",
    "is shown most often? (A) A (B) B (C) C (D) D",
]  # fmt: skip
AILING = ["plant", "dog", "car", "phone", "roof", "washing machine"]
AILS = ["is the issue with", "is the problem with", "is the matter with", "is wrong with"]


@pytest.mark.parametrize("seed", [1, 2])
def test_a_choice_among_what_is_shown_names_nothing(tagger, document, seed):
    chance = Random(f"choices {seed}")
    prompts = [f"Which of the {chance.choice(CHOICES)} {chance.choice(CHOSEN_BY)}?" for _ in range(10)]
    assert [prompt for prompt, tags in zip(prompts, tagger.tag([*map(document, prompts)]), strict=True)
            if tags.entity_recognition] == []  # fmt: skip


@pytest.mark.parametrize("seed", [1, 2])
def test_a_question_what_is_wrong_with_a_thing_names_nothing(tagger, document, seed):
    chance = Random(f"ails {seed}")
    prompts = [f"What {chance.choice(AILS)} my {chance.choice(AILING)}? What should I do now?" for _ in range(10)]
    assert [prompt for prompt, tags in zip(prompts, tagger.tag([*map(document, prompts)]), strict=True)
            if tags.entity_recognition] == []  # fmt: skip


@pytest.mark.parametrize("prompt", ["Which of these birds is this?", "Which of the seven wonders is shown?"])
def test_which_of_several_this_is_asks_for_a_name(tagger, document, prompt):
    assert tagger.tag([document(prompt)])[0].entity_recognition is True


def test_a_question_about_the_image_beside_one_about_the_model_counts(tagger, document):
    assert tagger.tag([document("Which model are you? Which castle is this?")])[0].entity_recognition is True
    assert tagger.tag([document("What model is this?")])[0].entity_recognition is True


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
