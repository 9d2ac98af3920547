"""Descriptions of one aspect and level: written one after the other, checked as far as words can be checked."""

import math
import re
from collections.abc import Sequence

import networkx as nx

from schemas.benches.generated import (
    Capability,
    CheckQuestion,
    GeneratedAspect,
    GeneratedBench,
    GeneratedDescription,
    Level,
)
from schemas.benches.generated_results import WrittenDescription
from tasks.generated_bench.alignment import THINGS
from tasks.generated_bench.wordings import mentions, words_of
from tasks.providers.capabilities import Author, DescriptionWanted, Failed
from tasks.storage.content_id import combined_id

DESCRIPTION_ATTEMPTS = 3
"""Times a description is asked for before it is dropped."""
KEY_WORDS = range(4, 7)
_NOT_THE_OBSERVERS = re.compile(r"\b(?:his|her|its|their|own|stage) (?:left|right)\b(?! of)", re.IGNORECASE)

_WHOLE = r" (?:the |an? )?(?:\w+ ){0,2}(?:image|picture|frame|scene|background|backdrop)\b"
_RELATION = re.compile(
    rf"\b(?:(?:(?:left|right) of|in front of)(?!{_WHOLE})|on top of|next to|behind|beside|between|beneath|underneath"
    r"|(?:above|below|under|inside|facing) (?:an?|the|one|another|it|them)\b)",
    re.IGNORECASE,
)
"""Relation of one thing to another; not where it is in the image, and not that it stands before a background."""
_LIGHT = re.compile(
    r"\b(?:shadows?|(?:sun|moon|day|lamp|candle|spot|street|back|torch|star)(?:light|lit)|sunset|sunrise|dusk|dawn|twilight"
    r"|silhouettes?|lighting|lit|glow(?:s|ing)?|(?:light|sun|moon) (?:from|of|falls|shines)|(?:sun|moon) is shining)\b",
    re.IGNORECASE,
)
"""Words about light; not the light of a light blue."""


class WordGraph:
    """Graph of topic and key words: what many descriptions share is kept out of later ones (AutoBench-V sec. 3.2)."""

    def __init__(self) -> None:
        self._graph: nx.Graph = nx.Graph()
        self._descriptions = 0

    def add(self, topic_word: str, key_words: Sequence[str]) -> None:
        """The words of one more description."""
        self._graph.add_edges_from((topic_word, word) for word in key_words if word != topic_word)
        self._descriptions += 1

    def neighbours(self) -> dict[str, int]:
        """Word -> number of words that it is connected with."""
        return dict(self._graph.degree)

    def kept_out(self) -> tuple[str, ...]:
        """The most connected words, floor(ln(descriptions) + 1) of them; by name among equals."""
        if not self._descriptions:
            return ()
        count = math.floor(math.log(self._descriptions) + 1)
        ranked = sorted(self.neighbours().items(), key=lambda pair: (-pair[1], pair[0]))
        return tuple(word for word, _ in ranked[:count])


class CellDescriptions:
    """Descriptions of one aspect and level, in order; earlier ones decide which words are kept out of later ones."""

    def __init__(
        self, bench: GeneratedBench, capability: Capability, aspect: GeneratedAspect, name: str, level: Level
    ) -> None:
        self._bench, self._capability, self._aspect = bench, capability, aspect
        self._name, self._level = name, level
        self._graph, self._texts = WordGraph(), list[str]()

    def known(self, description: GeneratedDescription) -> None:
        """Take a stored description into account."""
        self._graph.add(description.topic_word, description.key_words)
        self._texts.append(description.description)

    def write(self, author: Author, number: int) -> GeneratedDescription | Failed:
        """The next description with its check questions."""
        kept_out, failed = (self._graph.kept_out() if self._bench.graph else ()), Failed("description_rejected")
        description_id = description_id_of(self._bench.bench, self._aspect.aspect, self._name, number)
        for attempt in range(DESCRIPTION_ATTEMPTS):
            seed = f"{self._bench.seed} {description_id} {attempt}"
            request = DescriptionWanted(self._capability, self._aspect, self._name, self._level, kept_out, seed)
            reply = author.describe(request)
            if isinstance(reply, Failed):
                return reply
            if description_problem(reply, self._level, kept_out, self._texts):
                continue
            checks = author.checks(reply.description, self._level.checks)
            if isinstance(checks, Failed):
                return checks
            questions = sound_checks(checks.checks[: self._level.checks])
            if not questions:
                failed = Failed("no_check_questions")
                continue
            if not self._level.objects_min <= things_asked_about(questions) <= self._level.objects_max:
                failed = Failed("description_rejected")
                continue
            return GeneratedDescription(
                description_id=description_id, bench=self._bench.bench, aspect=self._aspect.aspect, level=self._name,
                number=number, **reply.model_dump(), kept_out=list(kept_out), checks=questions, version=author.version,
            )  # fmt: skip
        return failed


def description_id_of(bench: str, aspect: int, level: str, number: int) -> str:
    """Id of a description, the same in every run."""
    return combined_id("description", [bench, str(aspect), level, str(number)])


def description_problem(
    reply: WrittenDescription, level: Level, kept_out: Sequence[str], earlier: Sequence[str]
) -> str | None:
    """Why a description is asked for again; null for one that can be used."""
    words = words_of(reply.description)
    if not words or len(words) > level.words_max:
        return f"{len(words)} words, of at most {level.words_max}"
    if any(word.isdecimal() and int(word) > level.number_max for word in words):
        return f"a number over {level.number_max}"
    if not reply.topic_word.strip() or len(reply.key_words) not in KEY_WORDS:
        return f"{len(reply.key_words)} key words"
    if any(mentions(reply.topic_word, word) for word in kept_out):
        return "a topic word that was to be kept out"
    if _NOT_THE_OBSERVERS.search(reply.description):
        return "left or right of somebody in the image"
    if not level.relations and (phrase_match := _RELATION.search(reply.description)):
        return f"{phrase_match[0]!r}, a relation between things"
    if not level.light and (phrase_match := _LIGHT.search(reply.description)):
        return f"{phrase_match[0]!r}, about light"
    if any(words == words_of(text) for text in earlier):
        return "the same as an earlier one"
    return None


def things_asked_about(checks: Sequence[CheckQuestion]) -> int:
    """Number of kinds of thing, animal, person or food that the check questions ask for."""
    return len({" ".join(words_of(check.element)) for check in checks if check.type in THINGS})


def sound_checks(checks: Sequence[CheckQuestion]) -> list[CheckQuestion]:
    """Check questions whose parent stands before them and whose answer is among their choices.

    The first wrong one ends the list, because later ones refer to places in it.
    """
    sound: list[CheckQuestion] = []
    for place, check in enumerate(checks):
        among = not check.choices or any(words_of(choice) == words_of(check.answer) for choice in check.choices)
        parent = check.parent is None or 0 <= check.parent < place
        if not (check.question.strip() and words_of(check.answer) and among and parent):
            break
        sound.append(check)
    return sound
