"""Language models behind vendors' SDKs: an answer that fits the schema exactly, or a failure."""

import json
import os
from abc import abstractmethod
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

from schemas.errors import BadInput
from schemas.row import Row
from schemas.run import Use
from tasks.providers.capabilities import Failed, Reply
from tasks.providers.production.batches.api import Request
from tasks.providers.production.batches.queue import Batched
from tasks.providers.production.calls import CallFailed, Service, seconds
from tasks.providers.production.upload import Upload
from tasks.runtime.budget import Bill, ledger

TIMEOUT, TIMEOUT_SECONDS = "CURATE_TIMEOUT_SECONDS", 90.0
"""Environment variable and default: seconds of silence after which a call times out."""
CALLS, CALLS_MAX = "CURATE_CALLS_AT_ONCE", 32
"""Environment variable and default of the maximum number of concurrent calls."""
ANSWER_TOKENS_MAX = 4096
"""Ample for a few fields, because thinking tokens count as well."""

Answer = TypeVar("Answer", bound=Row)


@dataclass(frozen=True)
class Question:
    """One question about untrusted text and images."""

    instructions: str
    """The prompt file, as the system message."""
    material: str
    """Fenced untrusted text (`tasks.prompts.untrusted`), as the user message."""
    images: tuple[Upload, ...] = ()
    """Sent after the text."""


class LanguageModel(Batched):
    """A hosted model."""

    def __init__(self, version: str) -> None:
        """`version` is vendor and model name."""
        self.version = version
        self.calls_at_once = calls_at_once()
        self._service = Service(version, self.calls_at_once)

    def ask(self, question: Question, answer: type[Answer]) -> Answer | Failed:
        """The model's answer as a row. Refused, truncated, malformed and missing answers are failures."""
        name, schema = answer.__name__, _schema(answer)
        most_usd = self._most_usd(question, schema, batch=self._queue is not None)
        try:
            if self._queue:
                text = finished_text(self._queue.answer(self._request(question, name, schema), most_usd))
            else:
                text = self._service.ask(most_usd, lambda bill: self._complete(question, name, schema, bill))
            return _row(text, answer)
        except CallFailed as failure:
            return Failed(failure.reason)

    def _most_usd(self, question: Question, schema: dict[str, Any], *, batch: bool) -> float | None:
        """Upper bound of a question's cost: one token per byte and the longest answer. None without a price."""
        price = ledger().prices.tokens(self.version)
        if price is None:
            return None
        text_bytes = len((question.instructions + question.material + str(schema)).encode("utf-8", "surrogatepass"))
        shown = sum(price.image_tokens(image.width, image.height) for image in question.images)
        return (price.batch_usd if batch else price.usd)(text_bytes + shown, ANSWER_TOKENS_MAX)

    def _count(self, bill: Bill, input_tokens: int | None, output_tokens: int | None) -> None:
        settle(bill, self.version, input_tokens, output_tokens)

    @abstractmethod
    def _complete(self, question: Question, name: str, schema: dict[str, Any], bill: Bill) -> str:
        """The text of one complete answer; settles the bill. Raises CallFailed."""

    @abstractmethod
    def _request(self, question: Question, name: str, schema: dict[str, Any]) -> Request:
        """The body of the same call, as the vendor's JSON."""


def finished_text(reply: Reply) -> str:
    """The text of a reply that is whole. Raises CallFailed for one that was refused or truncated."""
    if reply.state in ("refused", "truncated"):
        raise CallFailed(reply.state)
    return reply.text


def settle(bill: Bill, service: str, input_tokens: int | None, output_tokens: int | None) -> None:
    """Settle the bill by the token counts of the service; without both counts it stays unconfirmed."""
    if input_tokens is None or output_tokens is None:
        return
    price = ledger().prices.tokens(service)
    usd = price.usd(input_tokens, output_tokens) if price else 0.0
    bill.settle(Use(calls=1, input_tokens=input_tokens, output_tokens=output_tokens, usd=usd))


def _row(text: str, answer: type[Answer]) -> Answer:
    """The answer as a row. Raises CallFailed when it does not fit the schema or repeats a key."""
    try:
        json.loads(text, object_pairs_hook=_unique_keys)
        return answer.model_validate_json(text, strict=True)
    except ValueError:
        raise CallFailed("malformed_answer") from None


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs):
        raise CallFailed("contradictory_answer")
    return dict(pairs)


def timeout_seconds() -> float:
    """Seconds of silence after which a call times out. Raises BadInput."""
    given = os.environ.get(TIMEOUT) or str(TIMEOUT_SECONDS)
    if (timeout := seconds(given)) <= 0:
        raise BadInput(f"{TIMEOUT}={given!r}: give a request timeout in seconds, more than 0")
    return timeout


def calls_at_once() -> int:
    """Maximum number of concurrent calls. Raises BadInput."""
    given = os.environ.get(CALLS) or str(CALLS_MAX)
    if not given.isdecimal() or not int(given):
        raise BadInput(f"{CALLS}={given!r}: give the maximum number of concurrent calls, 1 or more")
    return int(given)


@cache
def _schema(answer: type[Row]) -> dict[str, Any]:
    schema: dict[str, Any] = bare(answer.model_json_schema())
    return schema


def bare(schema: Any) -> Any:
    """A JSON schema without descriptions: all instructions are in the prompt file, whose hash is in the version."""
    if isinstance(schema, list):
        return [bare(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    prose = ("description", "title")
    return {key: bare(part) for key, part in schema.items() if not (key in prose and isinstance(part, str))}
