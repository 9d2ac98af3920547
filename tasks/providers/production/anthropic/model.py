"""Anthropic's Claude: text and images in, text or JSON out, by single calls or by Message Batches.

A batch has no field for a mark of ours, so the mark is the first half of every request's `custom_id`. Anthropic shows
those ids only in the results of a batch that has ended. Where the response to a creation was lost, batches of that time
that are still running may therefore be ours: until they have ended, their questions are not asked again.
"""

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import anthropic
import httpx2  # the SDK raises its transport's errors while a body is read
from anthropic.types import Message, TextBlock, ToolUseBlock
from anthropic.types.messages import MessageBatch

from tasks.providers.capabilities import Reply
from tasks.providers.chat import Endpoint
from tasks.providers.production.batches.api import (
    CLOCK_SKEW,
    BatchApi,
    BatchOutcome,
    Ended,
    Request,
    failed_outcome,
    json_line,
    json_rows,
    outcome_of,
)
from tasks.providers.production.batches.queue import account_of
from tasks.providers.production.calls import CallFailed, waiting_seconds
from tasks.providers.production.language_model import Chat, HostedModel, Turn, timeout_seconds
from tasks.providers.production.replies import failure_in, failure_of, reply, state_of
from tasks.providers.upload import UPLOAD_SECONDS, Upload
from tasks.runtime.budget import Bill

ANTHROPIC_ADDRESS = "https://api.anthropic.com"
"""Given explicitly, so that ANTHROPIC_BASE_URL cannot redirect prompts to a server that no models file names."""
_TOKEN_DIGITS = 32
_UNBILLED = {"expired": "batch_expired", "canceled": "batch_cancelled"}
"""Kind of result -> failure reason; Anthropic bills none of them."""


class AnthropicModel(HostedModel):
    """One model over one connection."""

    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__(endpoint)
        self._client = anthropic.Anthropic(
            api_key=endpoint.key,
            base_url=endpoint.base_url or ANTHROPIC_ADDRESS,
            timeout=timeout_seconds(),
            max_retries=0,
        )

    def _call(self, chat: Chat, bill: Bill) -> Reply:
        with _failures():
            message = self._client.messages.create(
                model=self.endpoint.model,
                max_tokens=self.endpoint.answer_tokens_max,
                messages=[],
                extra_body=self._request(chat),
                timeout=timeout_seconds(),  # given, or else the SDK refuses long answers
            )
        bill.settle_tokens(*_tokens_used(message))
        return _said(message)

    def _request(self, chat: Chat) -> Request:
        optional_fields = {
            "system": chat.system or None,
            "temperature": self.endpoint.temperature,
            "top_p": self.endpoint.top_p,
            "output_config": chat.schema and {"format": {"type": "json_schema", "schema": chat.schema}},
        }
        return {
            "model": self.endpoint.model,
            "max_tokens": self.endpoint.answer_tokens_max,
            "messages": [_message(turn) for turn in chat.turns if turn.role != "system"],
            **{name: value for name, value in optional_fields.items() if value is not None},
        }

    def _batches(self) -> "AnthropicBatches":
        return AnthropicBatches(self._client)


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
        with _failures():
            create = self._client.messages.batches.create
            batch = create(requests=[], extra_body={"requests": requests}, timeout=UPLOAD_SECONDS)
        if not isinstance(batch, MessageBatch) or not batch.id:
            raise CallFailed("malformed_answer")
        return batch.id

    def newest_first(self) -> Iterator[tuple[str, str | None, datetime]]:
        """In the order of the API's list; the mark is known only of batches that have ended."""
        with _failures():
            for batch in self._client.messages.batches.list(limit=100):
                yield batch.id, self._token(batch), batch.created_at

    def find(self, token: str, since: datetime) -> str | None:
        """The id of the batch with this mark. Raises CallFailed while a running batch may be it."""
        with _failures():
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
        with _failures():
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
        with _failures():
            self._client.messages.batches.delete(file)


def _outcome(result: object) -> BatchOutcome:
    fields = result if isinstance(result, dict) else {}
    if fields.get("type") == "errored":
        return failed_outcome(fields)
    if fields.get("type") in _UNBILLED:
        return BatchOutcome(failure=_UNBILLED[fields["type"]], unbilled=True)
    body = fields.get("message")
    message = Message.construct(**body) if isinstance(body, dict) else None  # as single calls read it
    return outcome_of(lambda: _said(message), _tokens_used(message))


def _message(turn: Turn) -> dict[str, Any]:
    """A turn; text without words is left out beside images, because Anthropic refuses it."""
    parts = turn.parts[1:] if turn.images and not turn.text.strip() and not turn.places else turn.parts
    content = [{"type": "text", "text": part} if isinstance(part, str) else _image(part) for part in parts]
    return {"role": turn.role, "content": content}


def _image(upload: Upload) -> dict[str, Any]:
    data = base64.b64encode(upload.content).decode("ascii")
    return {"type": "image", "source": {"type": "base64", "media_type": upload.mime_type, "data": data}}


def _said(message: object) -> Reply:
    """The reply in a message. Raises CallFailed for one that is not usable."""
    if not isinstance(message, Message):
        raise CallFailed("malformed_answer")  # the SDK returns any body that a proxy sends with status 200
    if not isinstance(message.content, list):
        raise failure_in(message.model_extra)
    text = "".join(block.text or "" for block in message.content if isinstance(block, TextBlock))
    tools = [block for block in message.content if isinstance(block, ToolUseBlock)]
    return reply(text, state_of(message.stop_reason, text, tools), _tokens_used(message)[1])


def _tokens_used(message: object) -> tuple[int | None, int | None]:
    """Input and output tokens, thinking included; None where the service did not report them."""
    used = getattr(message, "usage", None)
    return getattr(used, "input_tokens", None), getattr(used, "output_tokens", None)


@contextmanager
def _failures() -> Iterator[None]:
    """Raises the exceptions of the SDK and its transport as CallFailed."""
    try:
        yield
    except anthropic.APITimeoutError:
        raise CallFailed("timed_out", may_pass=True) from None
    except anthropic.APIConnectionError as error:
        unsent = isinstance(error.__cause__, httpx2.ConnectError)  # nothing was sent, so it costs nothing
        raise CallFailed("connection_failed", may_pass=True, unbilled=unsent) from None
    except anthropic.APIStatusError as error:
        wait = waiting_seconds(error.response.headers.get("retry-after"))
        raise failure_of(error.status_code, error.body, wait) from None
    except (httpx2.TransportError, httpx2.DecodingError):
        raise CallFailed("connection_failed", may_pass=True) from None
    except (anthropic.APIError, ValueError):  # a body that is not JSON, or not shaped like an answer
        raise CallFailed("malformed_answer") from None
