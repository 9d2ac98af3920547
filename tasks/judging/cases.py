"""A judge proposes which answers to failures are right. It reads the reference; without one it is not asked.

In: cases with a reference (`queries/failures.py`) and a model. Out: rows of `reviews`, marked as the judge's. They hold
only where no person, vote or measured refusal has decided, and only while the reference stays as it is.
"""

import json
import re
from datetime import datetime
from functools import partial
from typing import NamedTuple

from schemas.asked_model import AskedModel
from schemas.errors import BadInput
from schemas.items.review import AnswerTruth, QueueName, Review
from schemas.run import Estimate, Prices
from tasks.prompts import load_prompt, untrusted
from tasks.providers.ask_items import Work, ask_each, store_results
from tasks.providers.capabilities import ChatMessage, ChatModel, Failed, ReplyShape
from tasks.providers.chat import chat_model
from tasks.providers.cost import Count, chat_cost
from tasks.storage.queries.failures import (
    PROPOSED,
    RIGHT,
    UNKNOWN_MARK,
    WRONG,
    CaseAnswer,
    FailureCase,
    ReferenceInUse,
    failure_cases,
    require_pictures,
    reviewer_of_judge,
)
from tasks.storage.queries.signals import StoredImages
from tasks.storage.reviews import reviews_of
from tasks.storage.tables import Store

REPLY_TOKENS = 60
"""Expected length of a reply: one or two sentences and a word."""
_PROMPT = "judges/case"
_OPEN_MARKS = (UNKNOWN_MARK, RIGHT + PROPOSED, WRONG + PROPOSED)
_WORDS = [truth.value for truth in AnswerTruth]
_STATED = re.compile(rf'"answer"\s*:\s*"({"|".join(_WORDS)})"')
_SHAPE = ReplyShape(
    "case",
    {
        "type": "object",
        "properties": {"reasons": {"type": "string"}, "answer": {"type": "string", "enum": _WORDS}},
        "required": ["reasons", "answer"],
        "additionalProperties": False,
    },
)


class _Question(NamedTuple):
    """One answer that a judge is asked about."""

    case: FailureCase
    answer: CaseAnswer
    reference: ReferenceInUse

    @property
    def material(self) -> str:
        """Request, reference and answer between marker lines."""
        texts = {"request": self.case.prompt, "reference": self.reference.text, "answer": self.answer.text}
        return untrusted(json.dumps(texts, ensure_ascii=False, indent=1))


def _reviewer(model: AskedModel) -> str:
    return reviewer_of_judge(model.name, f"{model.version}+{load_prompt(_PROMPT).version}")


def cases_with_reference(store: Store) -> list[tuple[FailureCase, ReferenceInUse]]:
    """The drawn cases that have a reference. Raises BadInput when none has: a judge has nothing to go by then."""
    cases = [(case, case.reference) for case in failure_cases(store) if case.reference]
    if not cases:
        raise BadInput(
            f"store {store.root!r}: no failure has a reference, and a judge proposes nothing without one; write some "
            "into the sheet of `curate review out failures`, and take it in with `curate review in failures FILE`"
        )
    return cases


def _unjudged(store: Store, reviewer: str) -> list[_Question]:
    """The answers that nobody has decided and that this judge has not judged with the present reference."""
    rows = reviews_of(store).filter(queue=QueueName.FAILURE_ANSWERS.value, reviewer=reviewer)
    judged = {(content_id, *reasons) for content_id, reasons in rows.select("content_id", "reasons").iter_rows()}
    # an item is one open answer to one case with a reference
    return [
        _Question(case, answer, reference)
        for case, reference in cases_with_reference(store)
        for answer in case.answers
        if _is_open(answer) and (answer.content_id, reference.text_id) not in judged
    ]


def _is_open(answer: CaseAnswer) -> bool:
    """Whether an answer has a text, and no person, vote or measured refusal decides its mark."""
    return bool(answer.text.strip()) and answer.people is None and answer.mark in _OPEN_MARKS


def estimate_proposals(store: Store, model: AskedModel, prices: Prices, count: Count) -> list[Estimate]:
    """Cost of what a judge has not judged yet. Raises BadInput when no case has a reference."""
    images, instructions = StoredImages(store, "images", "redacted_images"), load_prompt(_PROMPT).text
    texts = [
        (f"{instructions}\n{question.material}", _pictures(images, question.case))
        for question in _unjudged(store, _reviewer(model))
    ]
    return chat_cost(model, f"answers to failures judged by {model.name}", texts, REPLY_TOKENS, prices, count)[:1]


def propose_verdicts(store: Store, judge: AskedModel, work: Work, now: datetime) -> None:
    """Ask a judge about every answer that is open. A failed call stores nothing, so the next run makes it again.

    Raises BadInput when no case has a reference.
    """
    reviewer = _reviewer(judge)
    questions = _unjudged(store, reviewer)
    model, images = chat_model(judge), StoredImages(store, "images", "redacted_images")
    require_pictures(images, (image_id for question in questions for image_id in question.case.image_ids))
    ask = partial(_judged, model, images, reviewer, now)
    results = ask_each("answers to failures", ask, questions, model.calls_at_once)
    store_results(store, "reviews", results, judge.name, work, lambda review: review.verdict)


def _judged(
    model: ChatModel, images: StoredImages, reviewer: str, now: datetime, question: _Question
) -> Review | Failed:
    """The verdict of the judge on one answer."""
    system = ChatMessage("system", load_prompt(_PROMPT).text)
    user = ChatMessage("user", question.material, _pictures(images, question.case))
    content_id = question.answer.content_id
    reply = model.chat([system, user], f"case {content_id}", _SHAPE)
    if isinstance(reply, Failed):
        return reply
    verdicts = _STATED.findall(reply.text)
    if reply.state != "complete" or len({*verdicts}) != 1:
        return Failed("malformed_answer")
    return Review(
        conversation_id=question.case.question_id, content_id=content_id, reasons=[question.reference.text_id],
        verdict=verdicts[0], queue=QueueName.FAILURE_ANSWERS.value, item_id=content_id, reviewer=reviewer,
        reviewed_at=now,
    )  # fmt: skip


def _pictures(images: StoredImages, case: FailureCase) -> tuple[tuple[str, bytes], ...]:
    """(png or jpeg, encoded image) of the case's images, in order."""
    return tuple((images[image_id].format, images[image_id].bytes) for image_id in case.image_ids)
