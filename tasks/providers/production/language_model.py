"""Asking a language model for facts: an answer that fits the schema exactly, or a failure. Never a guess."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import ValidationError

from schemas.row import Row
from schemas.run import Use
from tasks.ledger import Bill, ledger
from tasks.prices import TokenPrice
from tasks.providers.capabilities import Failed
from tasks.providers.production.pace import Pace
from tasks.providers.production.retries import CallFailed, Retries
from tasks.providers.production.upload import Upload

TIMEOUT_SECONDS = 90.0
ANSWER_TOKENS_MAX = 4096
"""Ample for a few fields: models that think first spend the same budget on it."""
CALLS_AT_ONCE = 8
"""Questions of one batch that are under way together."""

Answer = TypeVar("Answer", bound=Row)


@dataclass(frozen=True)
class Question:
    """One question about untrusted material."""

    instructions: str
    """The prompt file, as the system message."""
    material: str
    """Fenced text of strangers (`tasks.prompts.untrusted`), as the user message."""
    pictures: tuple[Upload, ...] = ()
    """Shown after the material."""


class LanguageModel(ABC):
    """A hosted model behind a vendor's SDK."""

    version: str
    """Vendor and model name."""

    def __init__(self, version: str, retries: Retries | None) -> None:
        self.version = version
        self._retries = retries or Retries()
        self._pace = Pace(CALLS_AT_ONCE)

    def ask(self, question: Question, answer: type[Answer]) -> Answer | Failed:
        """The model's answer as a row. Refused, cut off, ill-formed and lost answers are failures."""
        schema = bare(answer.model_json_schema())
        try:
            text = self._retries.call(lambda: self._pace.call(lambda: self._paid(question, answer.__name__, schema)))
            return answer.model_validate_json(text, strict=True)
        except CallFailed as failure:
            return Failed(failure.reason)
        except ValidationError:
            return Failed("malformed_answer")

    def _paid(self, question: Question, name: str, schema: dict[str, Any]) -> str:
        """One call within the budget. Raises CallFailed, also when the budget is used up."""
        price = ledger().prices.tokens(self.version)
        text_bytes = len((question.instructions + question.material + str(schema)).encode("utf-8", "surrogatepass"))
        shown = sum(price.picture_tokens(p.width, p.height) for p in question.pictures) if price else 0
        bill = ledger().reserve(self.version, price.usd(text_bytes + shown, ANSWER_TOKENS_MAX) if price else None)
        if bill is None:
            raise CallFailed("budget_reached")
        with bill:
            try:
                return self._complete(question, name, schema, bill)
            except CallFailed as failure:
                if failure.unbilled:
                    bill.nothing()
                raise

    def _count(self, bill: Bill, input_tokens: int | None, output_tokens: int | None) -> None:
        """Put what the service says it used on the bill; without both counts the bill stays open."""
        if input_tokens is None or output_tokens is None:
            return
        price: TokenPrice | None = ledger().prices.tokens(self.version)
        usd = price.usd(input_tokens, output_tokens) if price else 0.0
        bill.settle(Use(calls=1, input_tokens=input_tokens, output_tokens=output_tokens, usd=usd))

    @abstractmethod
    def _complete(self, question: Question, name: str, schema: dict[str, Any], bill: Bill) -> str:
        """The text of one completed answer, its tokens on the bill. Raises CallFailed."""


def bare(schema: Any) -> Any:
    """A JSON schema without its prose, so that the prompt file is all that a model is told, and its hash covers it."""
    if isinstance(schema, list):
        return [bare(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    prose = ("description", "title")
    return {key: bare(part) for key, part in schema.items() if not (key in prose and isinstance(part, str))}


def http_failure(status: int, wait_seconds: float = 0.0) -> CallFailed:
    """What an HTTP status means for the caller: timeouts, rate limits and server errors may pass."""
    may_pass = status in (408, 429) or status >= 500
    reason = "rate_limited" if status == 429 else "server_error" if status >= 500 else f"http_{status}"
    return CallFailed(reason, may_pass=may_pass, wait_seconds=wait_seconds, unbilled=status != 408 and status < 500)


def seconds(value: object) -> float:
    """A waiting time such as `2`, `"1.5"` or `"3s"`; 0 for anything else."""
    try:
        return max(0.0, float(str(value).removesuffix("s")))
    except ValueError:
        return 0.0
