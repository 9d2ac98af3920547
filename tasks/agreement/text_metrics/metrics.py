"""Text metrics by name. Each scores an answer, most of them against a reference; a text is scored once a metric."""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import NamedTuple

import numpy as np
from nltk.stem.porter import PorterStemmer
from nltk.translate.meteor_score import single_meteor_score
from rouge_score.rouge_scorer import RougeScorer
from rouge_score.tokenize import tokenize
from sacrebleu import sentence_bleu

from tasks.agreement.text_metrics.cider import Cider
from tasks.providers.capabilities import TextEmbedder, Vectors

WORDS_MAX = 512
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


def metrics(references: Iterable[str], embedder: TextEmbedder, seed: int) -> Mapping[str, Metric]:
    """Every metric under its name, which says where it is not the published one. Scores are remembered by text."""
    found: dict[str, tuple[Score, bool]] = {
        "bleu_4": (lambda reference, answer: float(sentence_bleu(answer, [reference]).score), True),
        "rouge_l": (_rouge_l(), True),
        "meteor_exact_stem": (_meteor, True),
        "cider_d": (Cider(references).score, True),
        f"bertscore_words_{embedder.version}": (MatchedWords(embedder).score, True),
        "length": (lambda _, answer: float(len(answer.split())), False),
        "random": (lambda _, answer: _random(seed, answer), False),
    }
    return {name: Metric(cache(score), needs) for name, (score, needs) in found.items()}


def _rouge_l() -> Score:
    scorer = RougeScorer(["rougeL"], use_stemmer=True)
    return lambda reference, answer: float(scorer.score(reference, answer)["rougeL"].fmeasure)


def _meteor(reference: str, answer: str) -> float:
    said, known = (tokenize(text, None)[:WORDS_MAX] for text in (answer, reference))
    return float(single_meteor_score(known, said, stemmer=PorterStemmer(), wordnet=_Offline())) if said else 0.0


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
        said, known = (tokenize(text, None)[:WORDS_MAX] for text in (answer, reference))
        if not said or not known:
            return 0.0
        cosines = self._of(said) @ self._of(known).T
        precision, recall = float(cosines.max(axis=1).mean()), float(cosines.max(axis=0).mean())
        return 2 * precision * recall / (precision + recall) if precision + recall > 0 else 0.0

    def _of(self, words: list[str]) -> Vectors:
        new = [word for word in dict.fromkeys(words) if word not in self._vectors]
        if new:
            self._vectors |= dict(zip(new, self._embedder.embed_texts(new), strict=True))
        return np.stack([self._vectors[word] for word in words])
