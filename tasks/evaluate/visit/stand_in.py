"""The judge without the image that ships with the install, a stand-in: what is nearer to captions or reference wins.

Nearness is the mean of word overlap (ROUGE-1's F) and the cosine of the shipped sentence encoder. No model is asked.
"""

from collections.abc import Sequence
from functools import cache

import numpy as np
from rouge_score.rouge_scorer import RougeScorer

from schemas.judging import STAND_IN, Label
from tasks.evaluate.answers import Called
from tasks.evaluate.compare import judge_version
from tasks.evaluate.visit.compare import JudgeReply, OrderedPair, judge_prompt, verdict_row, without_verdict
from tasks.evaluate.visit.items import Items
from tasks.evaluate.visit.protocol import VisitProtocol
from tasks.providers.capabilities import TextEmbedder
from tasks.storage.parts import append_incrementally
from tasks.storage.tables import Store

NOTE = (
    "the embedded judge is a stand-in: it measures how near an answer is to the captions or the reference, and not "
    "whether it is right; rank nothing in public with it"
)
TIE = 0.005
"""Differences in nearness below which it has no verdict."""


def compare_by_nearness(
    store: Store, items: Items, wanted: Sequence[OrderedPair], protocol: VisitProtocol, embedder: TextEmbedder
) -> Called:
    """Write the verdicts that are missing."""
    version, done = stand_in_version(protocol, embedder), Called()
    near = _Nearness(embedder)
    with append_incrementally(store, "verdicts") as keep:
        for pair in without_verdict(store, wanted, version):
            shown = pair.item.reference if protocol.with_reference else None
            judge_reply = _judge_reply(
                *(near.of(row["text"], shown or "\n".join(pair.item.captions)) for row in _sides(pair))
            )
            marks = judge_prompt(protocol, pair).fenced_marks
            keep([verdict_row(pair, items.draw, protocol, STAND_IN, version, judge_reply, marks).model_dump()])
            done.counts["verdicts" if judge_reply.label else "no_verdict"] += 1
    return done


def stand_in_version(protocol: VisitProtocol, embedder: TextEmbedder) -> str:
    """As in `verdicts`."""
    return judge_version(f"embedded-nearness1-{embedder.version}", protocol.name)


def _sides(pair: OrderedPair) -> tuple[dict[str, str], dict[str, str]]:
    return dict(pair.first), dict(pair.second)


def _judge_reply(first: float, second: float) -> JudgeReply:
    text = f"Nearness to what is known of the images: {first:.3f} and {second:.3f}."
    if abs(first - second) < TIE:
        return JudgeReply(None, text, False)
    return JudgeReply(Label.A_BETTER if first > second else Label.B_BETTER, text, False)


class _Nearness:
    """Nearness of texts, each encoded once."""

    def __init__(self, embedder: TextEmbedder) -> None:
        self._rouge = RougeScorer(["rouge1"], use_stemmer=True)
        self._vector = cache(lambda text: embedder.embed_texts([text])[0])
        self.of = cache(self._of)

    def _of(self, answer: str, known: str) -> float:
        cosine = float(np.dot(self._vector(answer), self._vector(known)))
        return (cosine + float(self._rouge.score(known, answer)["rouge1"].fmeasure)) / 2
