"""What a vendor's batch interface must be able to do."""

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

Request = dict[str, Any]
"""The body of one call, as the vendor's own JSON."""


@dataclass(frozen=True)
class Outcome:
    """What became of one question."""

    text: str = ""
    """The completed answer."""
    failure: str = ""
    """Why there is none; empty when there is."""
    unbilled: bool = False
    """Whether the vendor turned the question down, so that it costs nothing."""
    input_tokens: int | None = None
    """As the vendor counted; None when it did not say."""
    output_tokens: int | None = None
    """As the vendor counted, thinking included; None when it did not say."""


@dataclass(frozen=True)
class BatchState:
    """How far a batch is."""

    ended: bool
    """Whether nothing more will come."""
    reason: str = "missing_answer"
    """What is wrong with a question without an outcome."""
    billed: bool = True
    """Whether a question without an outcome may have been billed."""
    results: tuple[str, ...] = ()
    """Files that hold outcomes."""
    inlined: tuple[Any, ...] = ()
    """Outcomes that came with the state."""
    files: tuple[str, ...] = ()
    """Everything it left at the vendor."""


class BatchApi(ABC):
    """Every method may raise CallFailed."""

    requests_max: int
    """Questions in one batch."""
    bytes_max: int
    """Size of one request file."""

    @abstractmethod
    def line(self, name: str, request: Request) -> bytes:
        """One line of the request file."""

    @abstractmethod
    def upload(self, file: Path) -> str:
        """The vendor's name of the uploaded request file."""

    @abstractmethod
    def create(self, file: str, token: str) -> str:
        """Make a batch of an uploaded file, marked with our token; its id."""

    @abstractmethod
    def find(self, token: str, since: datetime) -> str | None:
        """The id of the batch that is marked with the token and was not made before `since`."""

    @abstractmethod
    def state(self, batch_id: str) -> BatchState:
        """How far it is."""

    @abstractmethod
    def outcomes(self, state: BatchState) -> Sequence[tuple[str, Outcome]]:
        """Name and outcome of every line that can be read. Nothing here trusts the order of lines."""

    @abstractmethod
    def remove(self, files: Sequence[str]) -> None:
        """Delete files at the vendor; what cannot be deleted expires there."""


def question_name(request: Request) -> str:
    """32 hex digits: a hash of the whole request, which says nothing of who asked or where it is stored."""
    content = json.dumps(request, sort_keys=True, ensure_ascii=True).encode()
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def json_line(row: dict[str, Any]) -> bytes:
    """One line of JSON Lines, ASCII only: line separators of Unicode would split it for some readers."""
    return json.dumps(row, ensure_ascii=True).encode() + b"\n"


def json_rows(content: bytes) -> list[dict[str, Any]]:
    """The objects among the lines; a line that is not one is left out, so that its question has no outcome."""
    rows = []
    for line in content.split(b"\n"):
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if isinstance(row, dict):
            rows.append(row)
    return rows
