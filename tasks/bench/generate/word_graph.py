"""The graph of topic and key words: what many descriptions share is kept out of later ones (AutoBench-V sec. 3.2)."""

import math
from collections.abc import Sequence

import networkx as nx
import numpy as np
import numpy.typing as npt


class WordGraph:
    """Words of descriptions; a topic word is joined with each of its key words."""

    def __init__(self) -> None:
        self._graph: nx.Graph = nx.Graph()
        self._descriptions = 0

    def add(self, topic_word: str, key_words: Sequence[str]) -> None:
        """The words of one more description."""
        self._graph.add_edges_from((topic_word, word) for word in key_words if word != topic_word)
        self._descriptions += 1

    def kept_out(self) -> tuple[str, ...]:
        """The most connected words, floor(ln(descriptions) + 1) of them; by name among equals."""
        if not self._descriptions:
            return ()
        count = math.floor(math.log(self._descriptions) + 1)
        ranked = sorted(self._graph.degree, key=lambda pair: (-pair[1], pair[0]))
        return tuple(word for word, _ in ranked[:count])


def mean_cosine(vectors: npt.NDArray[np.float32]) -> float | None:
    """Mean cosine of all pairs of unit vectors (n, dimension): lower is more diverse. None for fewer than two."""
    count = len(vectors)
    if count < 2:
        return None
    total = float(np.square(vectors.sum(axis=0, dtype=np.float64)).sum())
    return (total - count) / (count * (count - 1))
