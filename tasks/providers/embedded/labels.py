"""Categories, criteria and taxonomy without a language model: nearest example prompts, words, lengths and image layout.

The default where no API key is set; quality is measured in docs/privacy.md (benchmarks/tags_quality.py). Criteria and
taxonomy are of lower assurance and not evaluated against human labels: criteria judge the wording of a prompt, not what
an answer needs; the image domain is what the image's vector says, else what the prompt names, else null. Examples and
words are in the YAML files beside this one.
"""

import re
from collections.abc import Mapping, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from schemas.tags import TAGS, Categories, Criteria, Taxonomy
from tasks.prompts import placed, taxonomy_file
from tasks.providers.capabilities import Document
from tasks.providers.embedded.embeddings import (
    CLASSES,
    COMPARED_CHARACTERS,
    FEATURES,
    NearestExamples,
    class_probabilities,
    sentences_of,
)
from tasks.providers.embedded.texts import FastTextAndCld2
from tasks.runtime.arrays import Vectors
from tasks.runtime.identity import ASKS_IDENTITY
from tasks.runtime.untrusted import read_yaml

COSINE_MIN, COSINE_MARGIN, OTHER_MARGIN = 0.5, 0.03, 0.03
"""Least cosine to an example, how far below the best another category may be, and how far above `other` it must be."""
FLAT_FRACTION_MIN, COLOUR_COUNT_MAX = 0.45, 235
"""Thresholds between drawings or documents and photographs, tuned on the labelled images."""
IMAGE_KIND_PROBABILITY_MIN = 0.5
"""Least probability of a kind of image."""
DOMAIN_PROBABILITY_MIN = 0.6
"""Least probability of a subdomain's ImageNet classes together."""
TEXT_AREA_MIN, TEXT_CHARACTERS_MIN = 0.2, 40
"""With at least this much text an image is a page, sign or receipt, not a drawing with labels."""
TASK_CHARACTERS_MIN = 12
"""With fewer characters an image holds no written task."""
SMALL_AREA, LARGE_AREA, NOISE_CHARACTERS = 0.02, 0.5, 10
"""Text on less of an image is incidental; fewer characters on more of it are shapes misread."""
KNOWN_LANGUAGES = {"ar", "de", "en", "es", "fr", "it", "ja", "ko", "nl", "pl", "pt", "ru", "th", "tr", "unknown", "zh"}
"""Languages that the sentence encoder knows; a text too short for a language is taken for one of them."""
_IDENTITY = re.compile(ASKS_IDENTITY, re.I)
_SUPPOSES = re.compile(r"\b(?:what|which|who)\b.{0,40}\b(?:would|should|could|might)\b(?! (?:this|that|it)\b)", re.I)
"""Asks what one would do: "Which tree would you plant here?"."""
_OF_A_THING = re.compile(r"(?:what|which) (?:model|version) is this", re.I)
"""Asks about the car in the image, not about who answers."""
_OF_PROMPT = ("captioning", "creative_writing", "entity_recognition", "humor")
_HERE = Path(__file__).parent


class WordsAndLayout:
    """Tags documents by words, examples, text read in the images, and vectors. What these do not tell is null."""

    looks_at_images = False
    looks_at_vectors = True

    def __init__(self) -> None:
        words: dict[str, Any] = read_yaml(_HERE / "category_words.yaml")
        self._asks = {name: _any_of(forms) for name, forms in words["asks"].items()}
        self._exercise, self._task = (
            re.compile("|".join(words[name]), re.I | re.S | re.M) for name in ("exercise", "task")
        )
        self._examples = NearestExamples(_HERE / "categories.yaml")
        self._languages = FastTextAndCld2()
        self.version = (
            f"words-{words['version']}+kinds-{KINDS_VERSION}+{self._examples.version}+{self._languages.version}"
        )

    def tag(self, documents: Sequence[Document]) -> list[Categories]:
        """Categories of every document."""
        return [self._tag(document) for document in documents]

    def _tag(self, document: Document) -> Categories:
        asked_categories = self._asked(document.prompt[:COMPARED_CHARACTERS])
        tags: dict[str, bool | None] = {name: asked_categories[name] for name in _OF_PROMPT}
        if document.image_count:
            tags["diagram"] = _is_diagram(document)
            tags["homework"] = self._is_exercise(document)
            tags["ocr"] = asked_categories["ocr"] or _needs_reading(document, tags)
        return Categories(**dict.fromkeys(TAGS) | dict.fromkeys(("diagram", "homework", "ocr"), False) | tags)

    def _is_exercise(self, document: Document) -> bool | None:
        """Whether an image shows a written task of an exercise, whatever the prompt is.

        A figure without one is none, however much it looks like a textbook's. Null where an image looks so and text is
        read in it, but no task.
        """
        if self._exercise.search(document.image_text):
            return True
        if len("".join(document.image_text.split())) < TASK_CHARACTERS_MIN:
            return False
        probability = kind_probability("homework", document.image_vectors)
        if probability is None or probability < IMAGE_KIND_PROBABILITY_MIN:
            return False
        return True if self._task.search(document.image_text) else None

    def _asked(self, prompt: str) -> dict[str, bool | None]:
        """Whether words or nearest examples ask for each category; null in languages of which neither knows enough."""
        prompt = without_identity(prompt)
        sentences = sentences_of(prompt)
        naming = [sentence for sentence in sentences if not _NO_NAME.search(sentence)]
        texts = {} if len(naming) == len(sentences) else {"entity_recognition": " ".join(naming)}
        named = {name for name, form in self._asks.items() if form.search(texts.get(name, prompt))}
        nearest = self._examples.cosines_of_sentences(prompt) if prompt.strip() else {}
        for sentence, cosines in nearest.items():
            if not asks_which(sentence):
                cosines.pop("entity_recognition")
            other = cosines.pop("other")
            least = max(COSINE_MIN, max(cosines.values()) - COSINE_MARGIN, other + OTHER_MARGIN)
            named |= {name for name, cosine in cosines.items() if cosine >= least}
        (language,) = self._languages.identify([prompt])
        no = False if language.language in KNOWN_LANGUAGES else None
        return {name: True if name in named else no for name in (*_OF_PROMPT, "ocr")}


def without_identity(prompt: str) -> str:
    """The prompt without sentences that ask which model answers, since they ask nothing about an image."""
    matches = {sentence: _IDENTITY.search(sentence) for sentence in sentences_of(prompt)}
    left_out = [sentence for sentence, match in matches.items() if match and not _OF_A_THING.fullmatch(match[0])]
    return " ".join(sentence for sentence in matches if sentence not in left_out) if left_out else prompt


def asks_which(sentence: str) -> bool:
    """Whether a sentence asks who, what, which, where or for a name; "Would this fit in a car?" does not."""
    return bool(_ASKS_WHICH.search(sentence)) and not (_SUPPOSES.search(sentence) or _NO_NAME.search(sentence))


def _is_diagram(document: Document) -> bool | None:
    """Whether an image is a diagram, by its vector; by its layout if vectors are missing or of another embedder."""
    if _is_page(document):
        return False
    probability = kind_probability("diagram", document.image_vectors)
    if probability is not None:
        return probability >= IMAGE_KIND_PROBABILITY_MIN
    return _is_drawn(document) if document.colour_count else None


def _needs_reading(document: Document, tags: Mapping[str, bool | None]) -> bool | None:
    """Whether text in the images matters to a prompt that does not ask to read it; null where only meaning can tell."""
    characters = "".join(re.findall(r"\w", document.image_text))
    noise = document.text_area_fraction >= LARGE_AREA and len(characters) < NOISE_CHARACTERS
    if len(characters) < 2 or noise:
        return False
    if tags["homework"] is not False:  # text beside a figure of an exercise is its labels, and matters
        return True
    read, prompt_words = (set(re.findall(r"\w{2,}", text.lower())) for text in (document.image_text, document.prompt))
    if read and read <= prompt_words:
        return False
    if tags["creative_writing"]:
        return None
    if tags["diagram"] or _is_page(document):
        return True
    if document.text_area_fraction < SMALL_AREA:
        return False
    return True if document.colour_count <= COLOUR_COUNT_MAX else None


def _is_drawn(document: Document) -> bool:
    return document.flat_fraction >= FLAT_FRACTION_MIN and 0 < document.colour_count <= COLOUR_COUNT_MAX


def _is_page(document: Document) -> bool:
    characters = len("".join(document.image_text.split()))
    return document.text_area_fraction >= TEXT_AREA_MIN and characters >= TEXT_CHARACTERS_MIN


def _any_of(forms: Sequence[str]) -> re.Pattern[str]:
    return re.compile("|".join(forms), re.I | re.S)


_ASKS_WHICH, _NO_NAME = (
    _any_of(read_yaml(_HERE / "category_words.yaml")[forms]) for forms in ("asks_which", "no_name")
)


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


WHICH_IS_ASKED = {f"Recognition / {kind} Recognition" for kind in ("Brand", "Face", "Location", "Species", "Artistic")}
"""Question categories of sentences that ask who, what, which or where alone."""
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
        domains = f"classes-{self._classes.pop('version')}-min{DOMAIN_PROBABILITY_MIN}+kinds-{KINDS_VERSION}"
        tree = taxonomy_file(shipped=True).version
        self.version = f"taxonomy{tree}+words-{words['version']}+{domains}+{self._question.version}"

    @cached_property
    def _members(self) -> Vectors:
        """float32 (subdomains, 1000): 1 where an ImageNet class is of the subdomain."""
        members = np.zeros((len(self._classes), CLASSES), np.float32)
        for row, ranges in zip(members, self._classes.values(), strict=True):
            for first, _, last in (str(class_range).partition("-") for class_range in ranges):
                row[int(first) : int(last or first) + 1] = 1
        return members

    def tag(self, documents: Sequence[Document]) -> list[Taxonomy]:
        """Taxonomy of every document."""
        return [self._tag(document) for document in documents]

    def _tag(self, document: Document) -> Taxonomy:
        prompt = without_identity(document.prompt[:COMPARED_CHARACTERS])
        named = (_named(self._words["image"], prompt) if prompt.strip() else None) if document.image_count else None
        image_domain = (
            self._shown(document.image_vectors) or domain(document.image_vectors) if document.image_count else None
        )
        return placed(self._asked(document, prompt) if prompt.strip() else None, image_domain or named)

    def _asked(self, document: Document, prompt: str) -> str | None:
        """By the nearest example of any sentence, else by words; what is asked about an exercise is to solve it."""
        scores: dict[str, float] = {}
        for sentence, cosines in self._question.cosines_of_sentences(prompt).items():
            if not asks_which(sentence):
                cosines = {name: cosine for name, cosine in cosines.items() if name not in WHICH_IS_ASKED}
            scores |= {name: max(cosine, scores.get(name, -1.0)) for name, cosine in cosines.items()}
        nearest = _nearest(scores, COSINE_MIN)
        exercise = (kind_probability("homework", document.image_vectors) or 0.0) >= IMAGE_KIND_PROBABILITY_MIN
        if exercise and not (nearest or "").startswith(("Creative", "Descriptive")):
            return "Analytical / Mathematical Reasoning"
        return nearest or _named(self._words["question"], prompt)

    def _shown(self, vectors: Sequence[Vectors]) -> str | None:
        """The first subdomain that an image is probably of; None if no image is, or they are of another embedder."""
        fitting = [self._members @ class_probabilities(vector) for vector in vectors if vector.shape == (FEATURES,)]
        places = (
            _nearest(dict(zip(self._classes, probabilities, strict=True)), DOMAIN_PROBABILITY_MIN)
            for probabilities in fitting
        )
        return next((place for place in places if place), None)


def _nearest(scores: Mapping[str, float], least: float) -> str | None:
    name, score = max(scores.items(), key=lambda item: item[1])
    return name if score >= least else None


def _named(words: Words, prompt: str) -> str | None:
    return next((value for value, form in words if form.search(prompt)), None)


KINDS_VERSION = 1
"""Version of `image_weights.yaml`: logistic regressions on vectors, which benchmarks/tags_quality.py --fit writes."""
DOMAINS = ("Entertainment", "Expert", "Natural", "Objects", "Urban")
"""Domains of the taxonomy of which there were enough images to learn from."""
FIRST_DOMAIN_MIN = 0.6
"""Least share of the domains' odds that the first one has. Vectors of another embedder tell nothing."""


def kind_probability(kind: str, vectors: Sequence[Vectors]) -> float | None:
    """Greatest probability among the images of being of a kind (`diagram`, `homework`); None if nothing tells."""
    odds = [float(_odds((kind,), vector)[0]) for vector in _fitting(vectors)]
    return 1 / (1 + float(np.exp(-max(odds)))) if odds else None


def domain(vectors: Sequence[Vectors]) -> str | None:
    """The domain of the first image whose domain is told; None if no image's is."""
    for vector in _fitting(vectors):
        odds = _odds(DOMAINS, vector)
        shares = np.exp(odds - odds.max())
        if shares.max() >= FIRST_DOMAIN_MIN * shares.sum():
            return DOMAINS[int(shares.argmax())]
    return None


def _fitting(vectors: Sequence[Vectors]) -> list[Vectors]:
    width = len(next(iter(_weights().values()))) - 1
    return [vector for vector in vectors if vector.shape == (width,)]


def _odds(kinds: Sequence[str], vector: Vectors) -> npt.NDArray[np.float32]:
    """float32 (kinds,): log odds of each."""
    rows = np.array([_weights()[kind] for kind in kinds])
    odds: npt.NDArray[np.float32] = rows[:, 1:] @ vector + rows[:, 0]
    return odds


@cache
def _weights() -> dict[str, npt.NDArray[np.float32]]:
    """Kind -> float32 (1 + dimension,): intercept and weights."""
    content = read_yaml(Path(__file__).with_name("image_weights.yaml"))
    return {kind: np.asarray(line, np.float32) for kind, line in content.items()}
