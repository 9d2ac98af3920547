"""Text metrics by name. Each scores an answer, most of them against a reference; a text is scored once a metric."""

import hashlib
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import NamedTuple

import numpy as np
from nltk.stem.porter import PorterStemmer
from nltk.translate.meteor_score import single_meteor_score
from rouge_score.rouge_scorer import RougeScorer
from rouge_score.tokenize import tokenize
from sacrebleu import sentence_bleu

from tasks.providers.capabilities import TextEmbedder
from tasks.runtime.arrays import Vectors

METRIC_WORDS_MAX = 512
"""Words of a text that the matching metrics read, as RoBERTa's window does."""
Score = Callable[[str, str], float]
"""(reference, answer) -> score; higher is better."""


class Metric(NamedTuple):
    """One metric."""

    score: Score
    needs_reference: bool


class _Offline:
    """In place of WordNet, which would be downloaded: words match exactly or by their stem."""

    def synsets(self, word: str) -> list[str]:
        """None."""
        return []


def text_metrics(references: Iterable[str], embedder: TextEmbedder, seed: int) -> Mapping[str, Metric]:
    """Every metric under its name, which says where it is not the published one. Scores are remembered by text."""
    scorer = RougeScorer(["rougeL"], use_stemmer=True)
    scorers: dict[str, tuple[Score, bool]] = {
        "bleu_4": (lambda reference, answer: float(sentence_bleu(answer, [reference]).score), True),
        "rouge_l": (lambda reference, answer: float(scorer.score(reference, answer)["rougeL"].fmeasure), True),
        "meteor_exact_stem": (_meteor, True),
        "cider_d": (Cider(references).score, True),
        f"bertscore_words_{embedder.version}": (MatchedWords(embedder).score, True),
        "length": (lambda _, answer: float(len(answer.split())), False),
        "random": (lambda _, answer: _random(seed, answer), False),
    }
    return {name: Metric(cache(score), needs) for name, (score, needs) in scorers.items()}


def _meteor(reference: str, answer: str) -> float:
    answer_words, reference_words = (tokenize(text, None)[:METRIC_WORDS_MAX] for text in (answer, reference))
    return (
        float(single_meteor_score(reference_words, answer_words, stemmer=PorterStemmer(), wordnet=_Offline()))
        if answer_words
        else 0.0
    )


def _random(seed: int, answer: str) -> float:
    return int(hashlib.sha256(f"{seed}\0{answer}".encode("utf-8", "surrogatepass")).hexdigest()[:12], 16) / 16**12


class MatchedWords:
    """BERTScore's greedy matching over the vectors of single words.

    BERTScore has a vector for each word in its sentence, by RoBERTa-large; an encoder of whole texts gives one for each
    word by itself, so this is not BERTScore, and its name says which encoder it is.
    """

    def __init__(self, embedder: TextEmbedder) -> None:
        self._embedder = embedder
        self._vectors: dict[str, Vectors] = {}

    def score(self, reference: str, answer: str) -> float:
        """F of the mean best cosine of the answer's words, and of the reference's."""
        answer_words, reference_words = (tokenize(text, None)[:METRIC_WORDS_MAX] for text in (answer, reference))
        if not answer_words or not reference_words:
            return 0.0
        cosines = self._of(answer_words) @ self._of(reference_words).T
        precision, recall = float(cosines.max(axis=1).mean()), float(cosines.max(axis=0).mean())
        return 2 * precision * recall / (precision + recall) if precision + recall > 0 else 0.0

    def _of(self, words: list[str]) -> Vectors:
        new = [word for word in dict.fromkeys(words) if word not in self._vectors]
        if new:
            self._vectors |= dict(zip(new, self._embedder.embed_texts(new), strict=True))
        return np.stack([self._vectors[word] for word in words])


_LONGEST = 4
_SIGMA = 6.0
"""Standard deviation of the Gaussian in CIDEr-D's penalty for a difference of lengths."""
Grams = Counter[tuple[str, ...]]


class Cider:
    """CIDEr-D (Vedantam, Zitnick and Parikh 2015) of one answer against one of a fixed set of references.

    Our own, because the package that has it, pycocoevalcap, carries 100 MB of Java programs. Words are those of
    ROUGE's tokenizer, in lower case and without stemming; idf is counted over the references.
    """

    def __init__(self, references: Iterable[str]) -> None:
        grams_by_reference = [set(_grams(reference)) for reference in references]
        self._found = Counter(gram for grams in grams_by_reference for gram in grams)
        self._log_count = math.log(max(len(grams_by_reference), 1))

    def score(self, reference: str, answer: str) -> float:
        """0 to 10: the mean over lengths 1 to 4 of the clipped tf-idf cosine, lowered by a difference in length."""
        answer_grams, reference_grams = _grams(answer), _grams(reference)
        penalty = math.exp(-((_length(answer_grams) - _length(reference_grams)) ** 2) / (2 * _SIGMA**2))
        cosines = [self._cosine(_of(answer_grams, n), _of(reference_grams, n)) for n in range(1, _LONGEST + 1)]
        return 10 * penalty * sum(cosines) / _LONGEST

    def _cosine(self, answer_grams: Grams, reference_grams: Grams) -> float:
        a, b = self._weighted(answer_grams), self._weighted(reference_grams)
        norms = math.sqrt(sum(w * w for w in a.values())) * math.sqrt(sum(w * w for w in b.values()))
        return (
            sum(min(weight, b.get(gram, 0.0)) * b.get(gram, 0.0) for gram, weight in a.items()) / norms if norms else 0
        )

    def _weighted(self, grams: Grams) -> Mapping[tuple[str, ...], float]:
        return {gram: n * (self._log_count - math.log(max(1, self._found[gram]))) for gram, n in grams.items()}


def _grams(text: str) -> Grams:
    words = tokenize(text, None)
    return Counter(tuple(words[at : at + n]) for n in range(1, _LONGEST + 1) for at in range(len(words) - n + 1))


def _of(grams: Grams, length: int) -> Grams:
    return Counter({gram: count for gram, count in grams.items() if len(gram) == length})


def _length(grams: Grams) -> int:
    return sum(count for gram, count in grams.items() if len(gram) == 1)
