"""Categories, criteria and taxonomy without a language model: nearest example prompts, words, lengths and image layout.

The default where no API key is set; quality is measured in docs/tags.md (benchmarks/tags_quality.py). Criteria and
taxonomy are of lower assurance and not evaluated against human labels: criteria judge the wording of a prompt, not what
an answer needs; the image domain is what the image's vector says, else what the prompt names, else null. Examples and
words are in the YAML files beside this one.
"""

import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from schemas.tags import TAGS, Categories, Criteria, Taxonomy
from tasks.prompts import placed, taxonomy_file
from tasks.providers.capabilities import Document, Vectors
from tasks.providers.embedded.image_embedding import CLASSES, FEATURES, class_probabilities
from tasks.providers.embedded.text_embedding import PROMPT_CHARACTERS, NearestExamples
from tasks.runtime.yaml_files import read_yaml

COSINE_MIN, COSINE_MARGIN = 0.5, 0.03
"""Least cosine to an example, and how far below the best cosine another category may be."""
FLAT_FRACTION_MIN, COLOUR_COUNT_MAX = 0.45, 235
"""Thresholds between drawings or documents and photographs, tuned on the labelled images."""
DIAGRAM_PROBABILITY_MIN = 0.5
DOMAIN_PROBABILITY_MIN = 0.6
"""Least probability of a subdomain's ImageNet classes together."""
TEXT_AREA_MIN, TEXT_CHARACTERS_MIN = 0.2, 40
"""With at least this much text an image is a page, sign or receipt, not a drawing with labels."""
TASK_WORDS_MIN, TASK_TERMS_MIN = 10, 2
"""Least words, and least distinct task terms, of a prompt that makes a drawing homework."""
DIAGRAMS_VERSION = 1
"""Version of `diagram_weights.yaml`."""
_HERE = Path(__file__).parent


class WordsAndLayout:
    """Tags documents by words, examples and layout. A tag without a rule is null."""

    looks_at_images = False
    looks_at_vectors = True

    def __init__(self) -> None:
        words: dict[str, Any] = read_yaml(_HERE / "category_words.yaml")
        self._asks = {name: _any_of(forms) for name, forms in words["asks"].items()}
        self._exercise, self._task = _any_of(words["exercise"]), _any_of(words["task"])
        self._examples = NearestExamples(_HERE / "categories.yaml")
        self.version = f"words-{words['version']}+diagrams-{DIAGRAMS_VERSION}+{self._examples.version}"

    @cached_property
    def _line(self) -> tuple[Vectors, float]:
        """Weights float32 (dimension,) and intercept of the logistic regression for diagrams."""
        fitted: dict[str, Any] = read_yaml(_HERE / "diagram_weights.yaml")
        return np.asarray(fitted["weights"], np.float32), float(fitted["intercept"])

    def tag(self, documents: Sequence[Document]) -> list[Categories]:
        """Categories of every document."""
        return [self._tag(document) for document in documents]

    def _tag(self, document: Document) -> Categories:
        prompt = document.prompt[:PROMPT_CHARACTERS]
        asked = self._asked(prompt) if prompt.strip() else set()
        drawn = document.flat_fraction >= FLAT_FRACTION_MIN and 0 < document.colour_count <= COLOUR_COUNT_MAX
        page = (
            document.text_area_fraction >= TEXT_AREA_MIN
            and len("".join(document.image_text.split())) >= TEXT_CHARACTERS_MIN
        )
        known = {
            **{name: name in asked for name in ("captioning", "creative_writing", "entity_recognition", "humor")},
            "diagram": not page and self._is_diagram(document, drawn),
            "homework": self._is_exercise(prompt, drawn),
            "ocr": "ocr" in asked or (page and not asked & {"captioning", "creative_writing"}),
        }
        return Categories(**dict.fromkeys(TAGS) | known)

    def _is_diagram(self, document: Document, drawn: bool) -> bool:
        """By the image embedding; by layout if embeddings are missing or of another embedder."""
        weights, intercept = self._line
        fitting = [vector for vector in document.image_vectors if vector.shape == weights.shape]
        if not fitting:
            return drawn
        odds = max(float(vector @ weights) + intercept for vector in fitting)
        return bool(1 / (1 + np.exp(-odds)) >= DIAGRAM_PROBABILITY_MIN)

    def _is_exercise(self, prompt: str, drawn: bool) -> bool:
        """True if the prompt is worded as an exercise, or is a longer task about a drawing."""
        if self._exercise.search(prompt):
            return True
        terms = {match.group().lower() for match in self._task.finditer(prompt)}
        return drawn and len(prompt.split()) >= TASK_WORDS_MIN and len(terms) >= TASK_TERMS_MIN

    def _asked(self, prompt: str) -> set[str]:
        """Categories whose words occur, plus those of the nearest examples unless `other` is nearest."""
        cosines = self._examples.cosines(prompt)
        best = max(cosines.values())
        near = {name for name, cosine in cosines.items() if cosine >= max(COSINE_MIN, best - COSINE_MARGIN)}
        named = {name for name, form in self._asks.items() if form.search(prompt)}
        return named | (near if cosines["other"] < best else set())


def _any_of(forms: Sequence[str]) -> re.Pattern[str]:
    return re.compile("|".join(forms), re.I | re.S)


_WORDS: dict[str, Any] = read_yaml(_HERE / "criteria_words.yaml")
_FORMS = {name: re.compile("|".join(forms), re.I | re.M) for name, forms in _WORDS.items() if name != "version"}
LONG_WORDS, DETAILED_WORDS = 60, 14
PARTS_MIN, JOINED_MIN = 2, 2


class Wording:
    """Criteria of documents from the wording of the prompt."""

    version = f"criteria-words-{_WORDS['version']}"
    looks_at_images = False

    def tag(self, documents: Sequence[Document]) -> list[Criteria]:
        """Criteria of every document."""
        return [_judge(document.prompt) for document in documents]


def _judge(prompt: str) -> Criteria:
    if not prompt.strip():
        return Criteria(**dict.fromkeys(Criteria.model_fields))
    words = len(prompt.split())
    counts = {name: len(form.findall(prompt)) for name, form in _FORMS.items()}
    return Criteria(
        specificity=words >= DETAILED_WORDS or (counts["asks"] > 0 and not counts["open"]),
        domain_knowledge=counts["field"] > 0,
        complexity=words >= LONG_WORDS or counts["parts"] >= PARTS_MIN or counts["joined"] >= JOINED_MIN,
        problem_solving=counts["solves"] > 0,
        creativity=counts["invents"] > 0,
        technical_accuracy=not counts["invents"] and counts["field"] > 0 and counts["exact"] + counts["solves"] > 0,
        real_world=counts["needs"] > 0 and not counts["puzzle"],
    )


Words = list[tuple[str, re.Pattern[str]]]


class NearestPlace:
    """Question category by nearest example question; image domain by ImageNet classes, else by words, else null."""

    looks_at_images = False
    looks_at_vectors = True

    def __init__(self) -> None:
        self._question = NearestExamples(_HERE / "taxonomy_question.yaml")
        self._classes: dict[str, Any] = read_yaml(_HERE / "taxonomy_classes.yaml")
        words: dict[str, Any] = read_yaml(_HERE / "taxonomy_words.yaml")
        self._words = {
            tree: [(value, _any_of([form])) for value, form in words[tree]] for tree in ("question", "image")
        }
        domains = f"classes-{self._classes.pop('version')}-min{DOMAIN_PROBABILITY_MIN}"
        self.version = (
            f"taxonomy{taxonomy_file(shipped=True).version}+words-{words['version']}+{domains}+{self._question.version}"
        )

    @cached_property
    def _members(self) -> Vectors:
        """float32 (subdomains, 1000): 1 where an ImageNet class is of the subdomain."""
        members = np.zeros((len(self._classes), CLASSES), np.float32)
        for row, ranges in zip(members, self._classes.values(), strict=True):
            for first, _, last in (str(each).partition("-") for each in ranges):
                row[int(first) : int(last or first) + 1] = 1
        return members

    def tag(self, documents: Sequence[Document]) -> list[Taxonomy]:
        """Taxonomy of every document."""
        return [self._tag(document) for document in documents]

    def _tag(self, document: Document) -> Taxonomy:
        prompt = document.prompt[:PROMPT_CHARACTERS]
        shown = self._shown(document.image_vectors) if document.image_count else None
        if not prompt.strip():
            return placed(None, shown)
        question = _nearest(self._question.cosines(prompt), COSINE_MIN) or _named(self._words["question"], prompt)
        named = _named(self._words["image"], prompt) if document.image_count else None
        return placed(question, shown or named)

    def _shown(self, vectors: Sequence[Vectors]) -> str | None:
        """The first subdomain that an image is probably of; None if no image is, or they are of another embedder."""
        fitting = [self._members @ class_probabilities(vector) for vector in vectors if vector.shape == (FEATURES,)]
        told = (_nearest(dict(zip(self._classes, each, strict=True)), DOMAIN_PROBABILITY_MIN) for each in fitting)
        return next((place for place in told if place), None)


def _nearest(scores: Mapping[str, float], least: float) -> str | None:
    name, score = max(scores.items(), key=lambda item: item[1])
    return name if score >= least else None


def _named(words: Words, prompt: str) -> str | None:
    return next((value for value, form in words if form.search(prompt)), None)
