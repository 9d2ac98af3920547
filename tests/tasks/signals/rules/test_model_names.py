"""Names: a model's own reveals who answers; those that an exercise makes up are told from names of people."""

import re
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from schemas.signals import PiiSpan
from tasks.signals.rules import texts
from tasks.signals.rules.texts import exercise_names, model_names

WORDS = yaml.safe_load(Path(texts.__file__).with_name("model_names.yaml").read_text(encoding="utf-8"))
NAMES = sorted(name for name in WORDS["distinctive"] if not set(name) & set("[](?:)|\\"))
ORDINARY = sorted(name for name in WORDS["ambiguous"] if re.fullmatch(r"[\w ]+", name))


def names(text):
    return model_names(text).names


@pytest.mark.parametrize("name", [name for name in NAMES if name.isascii() and name[-1].isalnum()])
def test_a_distinctive_name_counts_between_word_boundaries_in_any_case(name):
    assert names(f"Some say {name.upper()}, others not.") == [name]
    assert names(f"It is x{name} or {name}x or x-{name}.") == []


@pytest.mark.parametrize("name", ORDINARY)
def test_an_ordinary_word_counts_only_where_the_speaker_introduces_itself(name):
    said = (f"I am {name}.", f"My name is {name.title()}", f"As {name}, I see a chart.", f"I was built by {name}.")
    assert all(name in names(text) for text in said)
    for text in (f"There is a {name} in the picture.", f"It says {name.title()}.", f"This is a {name}.", f"The {name}"):
        assert names(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "GPT-4o would say so.", "Here is LLaVA.", "I'm a large language model, trained by Google.",
        "I’m an AI assistant called Bard.", "As a Google model, I cannot see it.",
        "I was developed by the team at Google.", "This is Gemini, your assistant.", "I am Command R, by Cohere.",
        "Ich bin Claude und sehe ein Diagramm.", "Soy Gemini.", "Я Gemini, модель.", "我是Claude，一个助手。",
        "Grok here: it is a sine wave.", "Hi there, Gemini here! The chart shows sales.",
        "A sine wave. Claude here, by the way.", "Grok speaking. It is a sine wave.", "Gemini at your service!",
        "**Grok**: I see a sine wave.", "I, Claude, see a sine wave.", "You are talking to Grok.",
        "I'm your friendly assistant, Nova.", "我是由Google训练的大型语言模型。", "我是通义千问。", "由OpenAI开发。",
    ],
)  # fmt: skip
def test_an_introduction_reveals_who_answers(text):
    assert names(text)


@pytest.mark.parametrize(
    "text",
    [
        "As the bard might say, I think it is more coherent.", "As Google reports, rain is likely.",
        "There is a llama here: it is brown.", "Apple: a fruit. Koala: an animal.",
        "The palm, here, is old. On the left, a koala here.", "You are talking to Google recruiters tomorrow.",
        "Ask your voice assistant: Apple or Google.", "I, Claudius, is a novel.", "I'm a Gemini, my sister is a Leo.",
        "This is Google Maps.", "This is an Apple laptop.",
        "A phone made by Apple, with software developed by Microsoft.", "Press Command-R to reload.",
        "A palm tree, a llama, a koala and the mistral.", "我看到由 Apple 制造的手机。",
        "The claudette opened a bardic gptology.",
    ],
)  # fmt: skip
def test_what_an_image_shows_is_not_who_answers(text):
    assert names(text) == []


def test_the_version_holds_the_words_version():
    assert texts.MODEL_NAMES_VERSION.endswith(f".{WORDS['version']}")


@given(st.text(max_size=300))
def test_names_stand_in_the_text(text):
    assert [name for name in names(text) if name not in text.lower()] == []


@given(st.text(max_size=300))
def test_each_name_is_told_once_in_order(text):
    found = names(text)
    assert found == sorted(set(found))


def told(text: str, *names: str, **others: str) -> dict[str, str]:
    """Name -> its type, for names (and `others`, by type) that the finder reports in the text."""
    kinds = [*(("person", name) for name in names), *others.items()]
    spans = [
        PiiSpan(type=kind, start=text.index(held), end=text.index(held) + len(held), confidence=1)
        for kind, held in kinds
    ]
    return {text[span.start : span.end]: span.type for span in exercise_names(text, spans)}


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Tom has 5 apples and eats two. How many apples are left?", "Tom"),
        ("Eva hat 5 Sticker. Wie viele bleiben?", "Eva"), ("Luis makes $2^3$ patterns.", "Luis"),
        ("Which picture does Ella see in the mirror?", "Ella"), ("So Maria has \\boxed{19} apples.", "Maria"),
    ],
)  # fmt: skip
def test_a_name_in_an_exercise_is_of_nobody(text, name):
    assert told(text, name) == {name: "exercise_name"}


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("My neighbour Tom has 5 apples. How many are left?", "Tom"), ("I am Eva. How old do I look?", "Eva"),
        ("How much does Eva Berg owe?", "Eva Berg"), ("Eva lives in Leeds.", "Eva"),
        ("how many apples has eva", "eva"), ("My Eva is ill. How long should she rest?", "Eva"),
        ("How many pills can i give Eva?", "Eva"), ("Combien gagne notre voisine Eva ?", "Eva"),
        ("Our new doctor is Eva. How old is she?", "Eva"),
    ],
)  # fmt: skip
def test_a_name_that_may_be_somebodys_stays_a_person(text, name):
    assert told(text, name) == {name: "person"}


def test_other_personal_data_in_the_text_makes_it_no_exercise():
    text = "Tom, tom@example.org, has 5 apples. How many are left?"
    assert told(text, "Tom", email="tom@example.org") == {"Tom": "person", "tom@example.org": "email"}


@pytest.mark.parametrize(
    "text",
    [
        "Who ran?\n(A) Alicia\n(B) Bea Berg\n(C) Dani",
        "Who ran? A) Alicia B) Bea Berg C) Dani",
        "A. Alicia\nB. Bea Berg",
    ],
)
def test_a_name_that_is_an_option_is_of_nobody(text):
    assert told(text, "Alicia", "Bea Berg") == {"Alicia": "exercise_name", "Bea Berg": "exercise_name"}


@pytest.mark.parametrize("start", ["My patients:", "Our team:", "Mail tom@example.org:"])
def test_a_list_beside_other_personal_data_or_by_somebody_who_knows_them_is_no_list_of_options(start):
    text = f"{start}\nA. Alicia Ruiz\nB. Bea Berg"
    others = {"email": "tom@example.org"} if "@" in start else {}
    found = told(text, "Alicia Ruiz", "Bea Berg", **others)
    assert {found["Alicia Ruiz"], found["Bea Berg"]} == {"person"}


def test_a_list_of_people_is_no_list_of_options():
    text = "Staff:\na. Jane Smith: $55,000\nb. Bo Berg: $60,000"
    assert told(text, "Jane Smith", "Bo Berg") == {"Jane Smith": "person", "Bo Berg": "person"}
    assert told("B. Bo Berg wrote it", "Bo Berg") == {"Bo Berg": "person"}
