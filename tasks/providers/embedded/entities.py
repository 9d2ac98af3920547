"""Number of distinct named entities of a text, by the spaCy pipeline of its language; style control's specificity.

English ships with the install. Any other pipeline of spaCy that is installed (`de_core_news_sm`; `xx_ent_wiki_sm` for
all other languages) is used for its language; without one the number is null.
"""

import re
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache, cached_property
from importlib.abc import MetaPathFinder
from importlib.metadata import entry_points
from typing import TYPE_CHECKING

from tasks.providers.embedded.texts import UNKNOWN, FastTextAndCld2
from tasks.runtime.blas_threads import one_blas_thread

if TYPE_CHECKING:
    from spacy.language import Language

CHARACTERS_MAX = 20_000
"""Longer texts are cut."""
_UNUSED = ["tagger", "morphologizer", "parser", "senter", "attribute_ruler", "lemmatizer"]
_VALUES = {"CARDINAL", "ORDINAL", "QUANTITY", "PERCENT", "MONEY", "DATE", "TIME"}
"""Labels of OntoNotes for numbers and times, which name nothing."""
_CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`", re.S)
_ENGLISH, _ANY = "en", "xx"
_LOCK = threading.Lock()
"""A pipeline keeps words that it has seen, so one thread at a time runs one."""


class SpacyEntities:
    """People, places, organisations, works and other names outside of code, each counted once."""

    @cached_property
    def _pipelines(self) -> dict[str, str]:
        """Language -> name of its pipeline; of several the first by name."""
        found = sorted((each.name for each in entry_points(group="spacy_models")), reverse=True)
        return {name.partition("_")[0]: name for name in found}

    @cached_property
    def version(self) -> str:
        """Changes with the installed pipelines, which decide what is null."""
        return f"spacy-3.8-{'+'.join(sorted(self._pipelines.values()))}-max{CHARACTERS_MAX}+{FastTextAndCld2.version}"

    def count_entities(self, texts: Sequence[str]) -> list[int | None]:
        """Number of every text; null where its language has no pipeline. Short ones of plain letters are English."""
        counts: list[int | None] = [None] * len(texts)
        places: dict[str, list[int]] = {}
        for place, (text, told) in enumerate(zip(texts, FastTextAndCld2().identify(texts), strict=True)):
            language = _ENGLISH if told == UNKNOWN and text.isascii() else told.language
            if name := self._pipelines.get(language, self._pipelines.get(_ANY)):
                places.setdefault(name, []).append(place)
        for name, chosen in places.items():
            with _LOCK, one_blas_thread():
                read = _pipeline(name).pipe(_CODE.sub(" ", texts[place][:CHARACTERS_MAX]) for place in chosen)
                for place, parsed in zip(chosen, read, strict=True):
                    counts[place] = len({each.text.casefold() for each in parsed.ents if each.label_ not in _VALUES})
        return counts


@cache
def _pipeline(name: str) -> "Language":
    with _without_torch():
        import spacy

    return spacy.load(name, exclude=_UNUSED)


@contextmanager
def _without_torch() -> Iterator[None]:
    """Let no import of this thread load torch: spaCy's does where it is installed, for 1.5 CPU s, and needs nothing."""
    finder = _NoTorch()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


class _NoTorch(MetaPathFinder):
    def __init__(self) -> None:
        self._thread = threading.get_ident()

    def find_spec(self, fullname: str, *_: object) -> None:
        if fullname == "torch" and threading.get_ident() == self._thread:
            raise ModuleNotFoundError(f"not wanted here: {fullname}", name=fullname)
