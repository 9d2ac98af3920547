"""Who answers is revealed by a model's own name anywhere, and by an ordinary word only in an introduction."""

import re
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tasks.signals.rules import model_names as module
from tasks.signals.rules.model_names import model_names

WORDS = yaml.safe_load(Path(module.__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
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
    for text in (
        f"I am {name}.",
        f"My name is {name.title()}",
        f"As {name}, I see a chart.",
        f"I was built by {name}.",
    ):
        assert name in names(text)
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
    assert module.VERSION.endswith(f".{WORDS['version']}")


@given(st.text(max_size=300))
def test_names_are_distinct_sorted_and_stand_in_the_text(text):
    for name in (found := names(text)):
        assert name in text.lower()
    assert found == sorted(set(found))
