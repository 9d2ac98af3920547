"""The judge that ships with the install, a stand-in: the answer is better that is closer to what the others say.

The text in the prompt's images counts as one more answer. No model is asked. Of llmfao's 5,460 decisive human votes
(59 models, 13 text prompts) it agrees with 72 %; "the longer answer is better" agrees with 41 %.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from schemas.judging import STAND_IN, Label, Verdict
from tasks.evaluate.answers import Called
from tasks.evaluate.compare import ByModel, Pair, pairs, unjudged
from tasks.evaluate.protocols import Protocol
from tasks.evaluate.questions import Bench, Question
from tasks.providers.capabilities import TextEmbedder
from tasks.storage.parts import append_incrementally
from tasks.storage.tables import Store

NOTE = (
    "the embedded judge is a stand-in: it measures how close an answer is to the other models' answers, and cannot "
    "tell when most of them are wrong"
)
TIE, MUCH = 0.01, 0.2
"""Differences of mean cosines below which two answers are as good, and from which one is much better."""
_ONLY = -1.0
"""Closeness of an answer without words."""


def closeness(answers: Sequence[str], image_text: str, embedder: TextEmbedder) -> list[float]:
    """Mean cosine, -1 to 1, of each answer to all others and to the text in the images.

    0 where there is nothing to compare with, -1 for an answer without words.
    """
    said = [place for place, text in enumerate(answers) if text.strip()]
    texts = [answers[place] for place in said] + ([image_text] if image_text.strip() else [])
    found = [_ONLY] * len(answers)
    if said:
        vectors = embedder.embed_texts(texts)
        cosines = vectors @ vectors.T
        means = (cosines.sum(axis=1) - cosines.diagonal()) / max(1, len(texts) - 1)
        for place, mean in zip(said, np.asarray(means, np.float64), strict=False):
            found[place] = float(mean)
    return found


def label_of(first: float, second: float) -> Label:
    """The verdict on two answers, from their closeness."""
    gap = abs(first - second)
    if gap < TIE:
        return Label.TIE
    much = gap >= MUCH
    if first > second:
        return Label.A_MUCH_BETTER if much else Label.A_BETTER
    return Label.B_MUCH_BETTER if much else Label.B_BETTER


def compare_by_consensus(
    store: Store,
    bench: Bench,
    answers: ByModel,
    protocol: Protocol,
    baseline: str,
    embedder: TextEmbedder,
    image_text: Callable[[Question], str],
) -> Called:
    """Write the verdicts that are missing. The judge's version depends on all answers that take part."""
    version, done = _version(answers, protocol, embedder), Called()
    every = list(pairs(bench, answers, protocol, baseline))
    wanted, again = unjudged(store, every, version, draw=bench.draw, baseline=baseline)
    scores: dict[str, Mapping[str, float]] = {}
    for pair in wanted:
        asked = pair.question
        if asked.question_id not in scores:
            rows = {model: of_model.get(asked.question_id) for model, of_model in answers.items()}
            said = {model: row["text"] for model, row in rows.items() if row}
            found = closeness(list(said.values()), image_text(asked), embedder)
            scores[asked.question_id] = dict(zip(said, found, strict=True))
    with append_incrementally(store, "verdicts") as keep:
        keep(again)
        for pair in wanted:
            verdict = _verdict(pair, scores[pair.question.question_id], protocol, bench, baseline, version)
            keep([verdict.model_dump()])
    done.counts += Counter({"verdicts": len(wanted), "known_already": len(again)})
    return done


def _verdict(
    pair: Pair, scores: Mapping[str, float], protocol: Protocol, bench: Bench, baseline: str, version: str
) -> Verdict:
    first, second = pair.first["model"], pair.second["model"]
    label = label_of(scores[first], scores[second])
    return Verdict(
        question_id=pair.question.question_id,
        protocol=protocol.name,
        model_a=first,
        model_b=second,
        baseline=baseline,
        answer_a=pair.first["version"],
        answer_b=pair.second["version"],
        label=label,
        judge=STAND_IN,
        judge_version=version,
        draw=bench.draw,
        text=f"Closeness to the other answers: {scores[first]:.3f} and {scores[second]:.3f}. [[{label}]]",
        asked_again=False,
        fenced_marks=0,
        document_id=pair.question.document_id,
    )


def _version(answers: ByModel, protocol: Protocol, embedder: TextEmbedder) -> str:
    sides = sorted((model, row["version"], name) for model, rows in answers.items() for name, row in rows.items())
    taking_part = hashlib.sha256(repr(sides).encode()).hexdigest()[:8]
    return f"embedded-consensus2-{embedder.version}-{taking_part}+{protocol.name}"
