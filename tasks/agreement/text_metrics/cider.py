"""CIDEr-D (Vedantam, Zitnick and Parikh 2015) of one answer against one reference.

Our own, because the package that has it, pycocoevalcap, carries 100 MB of Java programs. Words are those of ROUGE's
tokenizer, in lower case and without stemming; idf is counted over the references.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping

from rouge_score.tokenize import tokenize

_LONGEST = 4
_SIGMA = 6.0
"""Of the Gaussian in the difference of lengths."""
Grams = Counter[tuple[str, ...]]


class Cider:
    """Scores against a fixed set of references."""

    def __init__(self, references: Iterable[str]) -> None:
        each = [set(_grams(reference)) for reference in references]
        self._found = Counter(gram for grams in each for gram in grams)
        self._log_count = math.log(max(len(each), 1))

    def score(self, reference: str, answer: str) -> float:
        """0 to 10: the mean over lengths 1 to 4 of the clipped tf-idf cosine, lowered by a difference in length."""
        said, known = _grams(answer), _grams(reference)
        penalty = math.exp(-((_length(said) - _length(known)) ** 2) / (2 * _SIGMA**2))
        cosines = [self._cosine(_of(said, n), _of(known, n)) for n in range(1, _LONGEST + 1)]
        return 10 * penalty * sum(cosines) / _LONGEST

    def _cosine(self, said: Grams, known: Grams) -> float:
        a, b = self._weighted(said), self._weighted(known)
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
