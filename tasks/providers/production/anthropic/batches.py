"""Anthropic's Message Batches: many requests in one body, answered within 24 hours.

A batch has no field for a mark of ours, so the mark is the first half of every request's `custom_id`. Anthropic shows
those ids only in the results of a batch that has ended. Where the response to a creation was lost, batches of that time
that are still running may therefore be ours: until they have ended, their questions are not asked again.
"""

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import anthropic
import httpx2
from anthropic.types import Message
from anthropic.types.messages import MessageBatch

from tasks.providers.production.anthropic.replies import failures, said, tokens_used
from tasks.providers.production.batches.api import (
    CLOCK_SKEW,
    BatchApi,
    Ended,
    Outcome,
    Request,
    json_line,
    json_rows,
    outcome_of,
)
from tasks.providers.production.batches.records import account_of
from tasks.providers.production.calls import CallFailed

UPLOAD_SECONDS = 600.0
_TOKEN_DIGITS = 32
_UNBILLED = {"errored": "batch_item_failed", "expired": "batch_expired", "canceled": "batch_cancelled"}
"""Kind of result -> failure reason; Anthropic bills none of them."""


class AnthropicBatches(BatchApi):
    """One connection's batches."""

    requests_max = 100_000
    bytes_max = 100_000_000
    """Anthropic's limit is 256 MB; ours bounds the memory, because the whole body is sent at once."""

    def __init__(self, client: anthropic.Anthropic) -> None:
        self._client = client
        self.account = account_of(str(client.base_url), client.api_key)

    def line(self, name: str, request: Request) -> bytes:
        """One request."""
        return json_line({"custom_id": name, "params": request})

    def make(self, file: Path, token: str) -> str:
        """The batch's id."""
        requests = [json.loads(line) for line in file.read_bytes().splitlines()]
        for request in requests:
            request["custom_id"] = token + request["custom_id"]
        with failures():
            create = self._client.messages.batches.create
            made = create(requests=[], extra_body={"requests": requests}, timeout=UPLOAD_SECONDS)
        if not isinstance(made, MessageBatch) or not made.id:
            raise CallFailed("malformed_answer")
        return made.id

    def newest_first(self) -> Iterator[tuple[str, str | None, datetime]]:
        """In the order of the API's list; the mark is known only of batches that have ended."""
        with failures():
            for batch in self._client.messages.batches.list(limit=100):
                yield batch.id, self._token(batch), batch.created_at

    def find(self, token: str, since: datetime) -> str | None:
        """The id of the batch with this mark. Raises CallFailed while a running batch may be it."""
        with failures():
            for batch in self._client.messages.batches.list(limit=100):
                if batch.created_at < since - CLOCK_SKEW:
                    break
                if batch.processing_status != "ended":
                    raise CallFailed("batch_maybe_running")
                if self._token(batch) == token:
                    return batch.id
        return None

    def _token(self, batch: MessageBatch) -> str | None:
        if batch.processing_status != "ended":
            return None
        rows = self._rows(batch.id)
        return str(rows[0].get("custom_id"))[:_TOKEN_DIGITS] if rows else None

    def ended(self, batch_id: str) -> Ended | None:
        """Reads the results."""
        with failures():
            if self._client.messages.batches.retrieve(batch_id).processing_status != "ended":
                return None
            rows = self._rows(batch_id)
        outcomes = [(str(row.get("custom_id"))[_TOKEN_DIGITS:], _outcome(row.get("result"))) for row in rows]
        return Ended(outcomes, "missing_answer", True, [batch_id])

    def _rows(self, batch_id: str) -> list[dict[str, Any]]:
        """The results, from the address that the batch's id gives: a key goes to no other that a body may name."""
        path = f"/v1/messages/batches/{batch_id}/results"
        options: Any = {"timeout": UPLOAD_SECONDS}
        return json_rows(self._client.get(path, cast_to=httpx2.Response, options=options).content)

    def delete(self, file: str) -> None:
        """For the batch with its results."""
        with failures():
            self._client.messages.batches.delete(file)


def _outcome(result: object) -> Outcome:
    """The outcome in one line of the results."""
    kind = result.get("type") if isinstance(result, dict) else None
    if kind in _UNBILLED:
        return Outcome(failure=_UNBILLED[kind], unbilled=True)
    try:
        message = Message.model_validate(result.get("message") if isinstance(result, dict) else None)
    except ValueError:
        return Outcome(failure="malformed_answer")
    return outcome_of(lambda: said(message), tokens_used(message))
