"""Wrong answers sorted into errors of comprehension and of reasoning (AutoBench-V, App. E), by people or by a model.

What was found is a row of `reviews` in either case. Where an audit asked with the description in place of the image,
that sorts, too: who is right then had not seen what the image shows, and who is wrong then concluded wrongly.
"""

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial

import polars as pl

from schemas.asked_model import AskedModel
from schemas.benches.generated import GeneratedItem
from schemas.benches.generated_results import AuditMode, ErrorRow
from schemas.benches.judging import AnswerState
from schemas.items.review import QueueName, Review
from schemas.run import Estimate, Prices
from tasks.generated_bench.accuracy import letter_of
from tasks.generated_bench.audit import audited
from tasks.generated_bench.items import kept_items
from tasks.generated_bench.results.examined import answers_to
from tasks.generated_bench.wordings import named_letters
from tasks.prompts import load_prompt, untrusted
from tasks.providers.ask_items import Work, ask_each, store_results
from tasks.providers.capabilities import ChatMessage, ChatModel, Failed, ReplyShape
from tasks.providers.chat import chat_model
from tasks.providers.cost import Count, chat_cost
from tasks.storage.content_id import combined_id
from tasks.storage.queries.signals import StoredImages
from tasks.storage.reviews import last_findings, reviews_of
from tasks.storage.tables import Store

ERRORS = ("comprehension", "reasoning", "neither")
"""Kinds of error that a wrong answer shows."""
SORTED_TOKENS = 60
"""Expected length of a reply: one or two sentences and a word."""
_MODEL = "model "
"""Start of the reviewer's name of a model."""
_PROMPT = "bench/error"
_SAID = re.compile(rf'"error"\s*:\s*"({"|".join(ERRORS)})"')
_SHAPE = ReplyShape(
    "error",
    {
        "type": "object",
        "properties": {"reasons": {"type": "string"}, "error": {"type": "string", "enum": [*ERRORS]}},
        "required": ["reasons", "error"],
        "additionalProperties": False,
    },
)


@dataclass(frozen=True)
class WrongAnswer:
    """A model's answer to a kept item that names another letter than the key, or none."""

    item: GeneratedItem
    model: str
    version: str
    text: str

    @property
    def content_id(self) -> str:
        """Content id of item and answer, as in `reviews`."""
        return combined_id("wrong answer", [self.item.item_id, self.model, self.version])


def wrong_answers(store: Store, bench: str) -> list[WrongAnswer]:
    """Wrong answers of all models, in the order of the benchmark. Raises BadInput as `kept_items` does."""
    kept = kept_items(store, bench)
    items = {item.item_id: item for item in kept.items}
    answers = answers_to(store, kept.conversations).filter(pl.col("state") != AnswerState.FAILED.value)
    wrong_in_order = [
        WrongAnswer(item, row["model"], row["version"], row["text"])
        for row in answers.sort("model", "version").iter_rows(named=True)
        if letter_of(row["text"], len((item := items[row["question_id"]]).options)) != item.key
    ]
    return sorted(wrong_in_order, key=lambda wrong: wrong.item.number)


def _unsorted(store: Store, bench: str, asked_model: AskedModel) -> tuple[str, list[tuple[WrongAnswer, str]]]:
    """(reviewer, wrong answers with the material) that a model has not sorted yet."""
    reviewer = f"{_MODEL}{asked_model.version}+{load_prompt(_PROMPT).version}"
    sorted_ids = set(reviews_of(store).filter(queue=QueueName.WRONG_ANSWERS.value, reviewer=reviewer)["content_id"])
    descriptions = audited(store, bench)[1]
    unsorted_answers = list[tuple[WrongAnswer, str]]()
    for wrong in wrong_answers(store, bench):
        if wrong.content_id not in sorted_ids:
            item, description = wrong.item, descriptions[wrong.item.description_id].description
            material = {"question": named_letters(item.question, item.options), "right": item.key, "answer": wrong.text}
            material["description"] = description
            unsorted_answers.append((wrong, untrusted(json.dumps(material, ensure_ascii=False, indent=1))))
    return reviewer, unsorted_answers


def estimate_sorting(store: Store, bench: str, model: AskedModel, prices: Prices, count: Count) -> list[Estimate]:
    """Cost of what a model has not sorted yet."""
    images, instructions = StoredImages(store, "images", "redacted_images"), load_prompt(_PROMPT).text
    stored = [(images[wrong.item.image_id], material) for wrong, material in _unsorted(store, bench, model)[1]]
    texts = [(f"{instructions}\n{material}", ((image.format, image.bytes),)) for image, material in stored]
    return chat_cost(model, f"wrong answers sorted by {model.name}", texts, SORTED_TOKENS, prices, count)[:1]


def sort_by_model(store: Store, bench: str, sorter: AskedModel, work: Work, now: datetime) -> None:
    """Ask a model about every wrong answer that it has not sorted yet. A failed call stores nothing."""
    model, images = chat_model(sorter), StoredImages(store, "images", "redacted_images")
    reviewer, unsorted_answers = _unsorted(store, bench, sorter)
    ask = partial(_sorted, model, images, reviewer, now)
    store_results(
        store, "reviews", ask_each("wrong answers", ask, unsorted_answers, model.calls_at_once), sorter.name, work,
        lambda review: review.verdict,
    )  # fmt: skip


def _sorted(
    model: ChatModel, images: StoredImages, reviewer: str, now: datetime, wrong_and_material: tuple[WrongAnswer, str]
) -> Review | Failed:
    wrong, material = wrong_and_material
    image = images[wrong.item.image_id]
    message = ChatMessage("user", material, ((image.format, image.bytes),))
    reply = model.chat([ChatMessage("system", load_prompt(_PROMPT).text), message], f"error {wrong.content_id}", _SHAPE)
    if isinstance(reply, Failed):
        return reply
    named_errors = _SAID.findall(reply.text)
    if reply.state != "complete" or not named_errors:
        return Failed("malformed_answer")
    return Review(
        conversation_id=wrong.item.item_id, content_id=wrong.content_id, reasons=[], verdict=named_errors[-1],
        queue=QueueName.WRONG_ANSWERS.value, item_id=wrong.content_id, reviewer=reviewer, reviewed_at=now,
    )  # fmt: skip


def error_rows(store: Store, bench: str) -> list[ErrorRow]:
    """Rows of what wrong answers are errors of, by who sorted them, slice and model; none where nobody has."""
    wrong, findings_by_sorter = wrong_answers(store, bench), _found(store)
    by_slice = {"overall": wrong} | {
        f"level:{level}": [answer for answer in wrong if answer.item.level == level]
        for level in dict.fromkeys(answer.item.level for answer in wrong)
    }
    # one row for each sorter with a finding, slice and model, also for models without findings
    return [
        _row(name, model, by, [findings.get(answer.content_id, "") for answer in of_slice if answer.model == model])
        for by, findings in findings_by_sorter.items()
        for name, of_slice in by_slice.items()
        for model in sorted({answer.model for answer in of_slice})
        if any(answer.content_id in findings for answer in wrong)
    ]


def _row(name: str, model: str, by: str, findings: Sequence[str]) -> ErrorRow:
    counts = Counter(findings)
    sorted_into = {kind: counts[kind] for kind in ERRORS[:2]}
    unsorted_count = len(findings) - sum(sorted_into.values())
    return ErrorRow(slice=name, model=model, wrong=len(findings), by=by, **sorted_into, unsorted=unsorted_count)


def _found(store: Store) -> Mapping[str, Mapping[str, str]]:
    """Who sorted -> wrong answer -> what most of them said; empty where no word has most voices."""
    voices = dict[str, dict[str, Counter[str]]]()
    for _, content_id, reviewer, verdict, _ in last_findings(store, QueueName.WRONG_ANSWERS).iter_rows():
        by = reviewer.removeprefix(_MODEL) if reviewer.startswith(_MODEL) else "people"
        voices.setdefault(by, {}).setdefault(content_id, Counter())[verdict] += 1
    findings_by_sorter = {
        by: {content_id: _most(verdict_counts) for content_id, verdict_counts in voices_by_answer.items()}
        for by, voices_by_answer in voices.items()
    }
    described = store.read("audit_answers").filter(mode=AuditMode.DESCRIBED.value)
    by_description = {
        combined_id("wrong answer", [row["item_id"], row["model"], row["version"]]): ERRORS[row["letter"] != row["key"]]
        for row in described.iter_rows(named=True)
    }
    return {**findings_by_sorter, "description": by_description} if by_description else findings_by_sorter


def _most(verdict_counts: Counter[str]) -> str:
    (word, count), *others = verdict_counts.most_common()
    return "" if others and others[0][1] == count else word
