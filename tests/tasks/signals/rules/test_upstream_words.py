"""Upstream's words are plain substrings of the lower-cased text, whatever they mean there."""

from pathlib import Path

import pytest
import yaml

from tasks.signals.rules import upstream_words as module
from tasks.signals.rules.upstream_words import upstream_words

WORDS = yaml.safe_load(Path(module.__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
MODERATION = [
    f"$MODERATION$ YOUR {what} VIOLATES OUR CONTENT MODERATION GUIDELINES." for what in ("INPUT", "TEXT", "IMAGE")
]
ALL = [(kind, word) for kind in ("identity", "errors", "unfinished") for word in WORDS[kind]]


@pytest.mark.parametrize(("kind", "word"), ALL)
def test_every_word_is_found_inside_other_words_and_in_capitals(kind, word):
    assert word in getattr(upstream_words(f"x{word.upper()}y"), kind)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("The most coherent palmistry.", ["palm", "cohere"]),
        ("bombard the koala at Google", ["koala", "bard", "google"]),
        ("I am phi, reka, internvl, pixtral, grok and llava", []),
        ("", []),
    ],
)
def test_it_fires_on_ordinary_words_and_misses_vision_models(text, found):
    assert upstream_words(text).identity == found


@pytest.mark.parametrize("notice", MODERATION)
def test_of_the_moderation_notices_it_knows_the_one_for_text_inputs_alone(notice):
    assert bool(upstream_words(notice).errors) == notice.startswith("$MODERATION$ YOUR INPUT")


def test_rate_limits_and_error_codes_are_no_errors_to_it():
    assert upstream_words("**RATE LIMIT OF THIS MODEL IS REACHED.**\n\n(error_code: 50004)").errors == []


def test_the_version_holds_the_words_version():
    assert module.VERSION.endswith(f".{WORDS['version']}")
