"""Methods that a vendor's batch API must offer, and the lines of its files."""

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from tasks.providers.capabilities import Reply
from tasks.providers.production.calls import REFUSED_CALL, CallFailed
from tasks.providers.production.replies import failure_of

Request = dict[str, Any]
"""The body of one call, as the vendor's own JSON."""
CLOCK_SKEW = timedelta(hours=1)
"""How far a vendor's clock may differ from ours."""


_NO_REPLY = Reply("", "empty")


@dataclass(frozen=True)
class BatchOutcome:
    """The answer to one question, or why there is none."""

    reply: Reply = _NO_REPLY
    """The answer."""
    failure: str = ""
    """Failure reason; empty for an answer."""
    unbilled: bool = False
    """Whether the vendor rejected the question, so that it costs nothing."""
    input_tokens: int | None = None
    """Tokens as counted by the vendor; None when not reported."""
    output_tokens: int | None = None
    """Tokens as counted by the vendor, thinking included; None when not reported."""


@dataclass(frozen=True)
class Ended:
    """The result of a finished batch."""

    outcomes: Sequence[tuple[str, BatchOutcome]] = ()
    """Question name and outcome of every readable line, in any order."""
    reason: str = "missing_answer"
    """Failure reason of questions without an outcome."""
    billed: bool = True
    """Whether questions without an outcome may have been billed."""
    files: Sequence[str] = ()
    """Files that the batch left at the vendor."""


class BatchApi(ABC):
    """A vendor's batch API. Every method may raise CallFailed."""

    requests_max: int
    """Maximum number of questions in a batch."""
    bytes_max: int
    """Maximum size of a request file."""
    account: str
    """Whose batches these are (`account_of`)."""

    @abstractmethod
    def line(self, name: str, request: Request) -> bytes:
        """One line of the request file."""

    @abstractmethod
    def make(self, file: Path, token: str) -> str:
        """Upload a request file and create a batch that is marked with `token`; returns the batch id."""

    @abstractmethod
    def newest_first(self) -> Iterable[tuple[str | None, str | None, datetime | None]]:
        """Id, token and creation time of all batches."""

    @abstractmethod
    def ended(self, batch_id: str) -> Ended | None:
        """The result of a batch; None while it is running."""

    @abstractmethod
    def delete(self, file: str) -> None:
        """Delete a file at the vendor."""

    def find(self, token: str, since: datetime) -> str | None:
        """The id of the batch that is marked with `token`, among batches created after `since`."""
        for batch_id, mark, created_at in self.newest_first():
            if mark == token:
                return batch_id
            if created_at and created_at < since - CLOCK_SKEW:
                break
        return None


def outcome_of(reply: Callable[[], Reply], tokens: tuple[int | None, int | None]) -> BatchOutcome:
    """The outcome of a billed question; `reply` may raise CallFailed. `tokens` are input and output tokens."""
    try:
        return BatchOutcome(reply(), "", False, *tokens)
    except CallFailed as failed:
        return BatchOutcome(failure=failed.reason, input_tokens=tokens[0], output_tokens=tokens[1])


def failed_outcome(error: object) -> BatchOutcome:
    """The outcome of a question that was answered by an error: declined, or a failure that costs nothing."""
    if failure_of(400, error).reason == REFUSED_CALL:
        return BatchOutcome(failure=REFUSED_CALL)
    return BatchOutcome(failure="batch_item_failed", unbilled=True)


def question_name(request: Request, about: str = "") -> str:
    """32 hex digits: a hash of the request and `about`. It reveals neither the item nor where it is stored."""
    content = json.dumps(request, sort_keys=True, ensure_ascii=True) + about
    return hashlib.blake2b(content.encode(), digest_size=16).hexdigest()


def json_line(row: dict[str, Any]) -> bytes:
    """One line of JSON Lines. ASCII only, because some readers split lines at Unicode line separators."""
    return json.dumps(row, ensure_ascii=True).encode() + b"\n"


def json_rows(content: bytes) -> list[dict[str, Any]]:
    """The JSON objects of a JSON Lines file. Other lines are skipped, so that their questions have no outcome."""
    rows = []
    for line in content.split(b"\n"):
        try:
            rows.append(json.loads(line))
        except (ValueError, RecursionError):
            continue
    return [row for row in rows if isinstance(row, dict)]
