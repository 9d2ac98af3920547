"""Judges that ship with the install and ask no model. Each measures two answers and compares the two numbers.

Under Arena-Hard's labels and in votes the answer is better that is closer to what the others say; the text in the
prompt's images counts as one more answer. Of llmfao's 5,460 decisive human votes (59 models, 13 text prompts) that
agrees with 72 %; "the longer answer is better" agrees with 41 %. Under `visit` the answer is better that is nearer to
the captions or the reference.
"""

import hashlib
from collections.abc import Callable, Sequence
from functools import cache

import numpy as np

from schemas.benches.judging import STAND_IN, Label
from schemas.items.conversation import Winner
from tasks.judging.answers import AnswersByModel
from tasks.judging.ask import Judge, JudgeReply
from tasks.judging.protocols import AnswerPair, Protocol
from tasks.providers.capabilities import TextEmbedder

TextOfImages = Callable[[Sequence[str]], str]
"""The text read in some images."""
TIE, MUCH = 0.01, 0.2
"""Differences of mean cosines below which two answers are as good, and from which one is much better."""
NEARNESS_TIE = 0.005
"""Differences in nearness below which there is no verdict."""
_ONLY = -1.0
"""Closeness of an answer without words."""


def consensus_judge(
    answers: AnswersByModel, protocol: Protocol, embedder: TextEmbedder, image_text: TextOfImages
) -> Judge:
    """Compares answers by their closeness to all others; its version depends on all answers that take part."""
    sides = sorted((model, row["version"], name) for model, rows in answers.items() for name, row in rows.items())
    taking_part = hashlib.sha256(repr(sides).encode()).hexdigest()[:8]

    @cache
    def scores(question_id: str, image_ids: Sequence[str]) -> dict[str, float]:
        rows = {model: of_model.get(question_id) for model, of_model in answers.items()}
        text_of_model = {model: row["text"] for model, row in rows.items() if row}
        return dict(
            zip(text_of_model, closeness(list(text_of_model.values()), image_text(image_ids), embedder), strict=True)
        )

    def reply(pair: AnswerPair) -> JudgeReply:
        score_of_model = scores(pair.row["question_id"], pair.image_ids)
        first, second = score_of_model[pair.row["model_a"]], score_of_model[pair.row["model_b"]]
        label = label_of(first, second)
        return JudgeReply(label, f"Closeness to the other answers: {first:.3f} and {second:.3f}. [[{label}]]")

    return Judge(
        STAND_IN,
        f"embedded-consensus2-{embedder.version}-{taking_part}+{protocol.name}",
        reply,
        note="the embedded judge is a stand-in: it measures how close an answer is to the other models' answers, and "
        "cannot tell when most of them are wrong",
    )


def consensus_voter(embedder: TextEmbedder, image_text: TextOfImages) -> Judge:
    """Votes for the answer that is closer to the other one and to the text in the images; never says both bad."""

    def reply(pair: AnswerPair) -> JudgeReply:
        picture_text = image_text(pair.image_ids)
        if not picture_text.strip():
            return JudgeReply(None, "No text in the images to compare with.")
        left_closeness, right_closeness = closeness([pair.first, pair.second], picture_text, embedder)
        winner = Winner.MODEL_A if left_closeness > right_closeness else Winner.MODEL_B
        label = Winner.TIE if abs(left_closeness - right_closeness) < TIE else winner
        return JudgeReply(
            label, f"Closeness to the other answer and the images' text: {left_closeness:.3f}, {right_closeness:.3f}."
        )

    return Judge(
        STAND_IN,
        f"embedded-consensus-votes1-{embedder.version}",
        reply,
        note="the embedded judge is a stand-in: the better answer is closer to the text in the images; it has no "
        "verdict where there is none, and never says both bad",
    )


def nearness_judge(protocol: Protocol, embedder: TextEmbedder) -> Judge:
    """Compares answers by the mean of word overlap (ROUGE-1's F) and cosine with what is known of the images."""
    from rouge_score.rouge_scorer import RougeScorer  # slow to import

    overlap = RougeScorer(["rouge1"], use_stemmer=True)
    vector = cache(lambda text: embedder.embed_texts([text])[0])

    @cache
    def near(answer: str, image_facts: str) -> float:
        cosine = float(np.dot(vector(answer), vector(image_facts)))
        return (cosine + float(overlap.score(image_facts, answer)["rouge1"].fmeasure)) / 2

    def reply(pair: AnswerPair) -> JudgeReply:
        image_facts = pair.reference or "\n".join(pair.captions)
        first, second = near(pair.first, image_facts), near(pair.second, image_facts)
        label = Label.A_BETTER if first > second else Label.B_BETTER
        return JudgeReply(
            None if abs(first - second) < NEARNESS_TIE else label,
            f"Nearness to what is known of the images: {first:.3f} and {second:.3f}.",
            fenced_marks=protocol.prompt(pair).fenced_marks,
        )

    return Judge(
        STAND_IN,
        f"embedded-nearness1-{embedder.version}+{protocol.name}",
        reply,
        note="the embedded judge is a stand-in: it measures how near an answer is to the captions or the reference, "
        "and not whether it is right; rank nothing in public with it",
    )


def closeness(answers: Sequence[str], image_text: str, embedder: TextEmbedder) -> list[float]:
    """Mean cosine, -1 to 1, of each answer to all others and to the text in the images.

    0 where there is nothing to compare with, -1 for an answer without words.
    """
    worded_places = [place for place, text in enumerate(answers) if text.strip()]
    texts = [answers[place] for place in worded_places] + ([image_text] if image_text.strip() else [])
    scores = [_ONLY] * len(answers)
    if worded_places:
        vectors = embedder.embed_texts(texts)
        cosines = vectors @ vectors.T
        means = (cosines.sum(axis=1) - cosines.diagonal()) / max(1, len(texts) - 1)
        for place, mean in zip(worded_places, np.asarray(means, np.float64), strict=False):
            scores[place] = float(mean)
    return scores


def label_of(first: float, second: float) -> Label:
    """The verdict on two answers, from their closeness."""
    gap = abs(first - second)
    if gap < TIE:
        return Label.TIE
    much = gap >= MUCH
    if first > second:
        return Label.A_MUCH_BETTER if much else Label.A_BETTER
    return Label.B_MUCH_BETTER if much else Label.B_BETTER
