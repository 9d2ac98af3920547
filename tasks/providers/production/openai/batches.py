"""OpenAI's Batch API: a file of requests is uploaded, made a batch of, and answered in two files within 24 hours."""

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import openai
from openai.types.chat import ChatCompletion

from tasks.providers.production.batches import CLOCK_SKEW, BatchApi, Ended, Outcome, Request, json_line, json_rows
from tasks.providers.production.calls import CallFailed
from tasks.providers.production.openai.client import answer_text, failures

ENDPOINT: Final = "/v1/chat/completions"
MARK = "curate"
"""Key of our token in the batch's metadata."""
UPLOAD_SECONDS = 600.0
_ENDED = {"completed": "missing_answer", "failed": "batch_failed", "expired": "batch_expired"}
_ENDED |= {"cancelled": "batch_cancelled"}
"""Status -> what is wrong with a question without an answer."""


class OpenAiBatches(BatchApi):
    """Batches of chat completions."""

    requests_max = 50_000
    bytes_max = 200_000_000

    def __init__(self, client: openai.OpenAI) -> None:
        self._client = client

    def line(self, name: str, request: Request) -> bytes:
        """One request."""
        return json_line({"custom_id": name, "method": "POST", "url": ENDPOINT, "body": request})

    def make(self, file: Path, token: str) -> str:
        """The batch's id."""
        with failures():
            uploaded = self._client.files.create(file=file, purpose="batch", timeout=UPLOAD_SECONDS).id
            made = self._client.batches.create(
                completion_window="24h", endpoint=ENDPOINT, input_file_id=uploaded, metadata={MARK: token}
            )
            return made.id

    def find(self, token: str, since: datetime) -> str | None:
        """The newest batches come first."""
        oldest = (since - CLOCK_SKEW).timestamp()
        with failures():
            for batch in self._client.batches.list(limit=100):
                if (batch.metadata or {}).get(MARK) == token:
                    return batch.id
                if batch.created_at < oldest:
                    break
        return None

    def ended(self, batch_id: str) -> Ended | None:
        """Outcomes are the lines of both result files."""
        with failures():
            batch = self._client.batches.retrieve(batch_id)
            if batch.status not in _ENDED:
                return None
            files = [file for file in (batch.output_file_id, batch.error_file_id) if file]
            contents = [self._client.files.content(file, timeout=UPLOAD_SECONDS).content for file in files]
        rows = [row for content in contents for row in json_rows(content)]
        outcomes = [(row["custom_id"], _outcome(row)) for row in rows if isinstance(row.get("custom_id"), str)]
        return Ended(outcomes, _ENDED[batch.status], batch.status == "completed", [batch.input_file_id, *files])

    def remove(self, files: Sequence[str]) -> None:
        """Questions and answers should not lie at the vendor longer than needed."""
        for file in files:
            with suppress(CallFailed), failures():
                self._client.files.delete(file)


def _outcome(row: dict[str, Any]) -> Outcome:
    response = row.get("response")
    if not isinstance(response, dict) or response.get("status_code") != 200:
        expired = isinstance(row.get("error"), dict) and row["error"].get("code") == "batch_expired"
        return Outcome(failure="batch_expired" if expired else "batch_item_failed", unbilled=True)
    try:
        completion = ChatCompletion.model_validate(response.get("body"))
    except ValueError:
        return Outcome(failure="malformed_answer")
    used = completion.usage
    tokens = (used.prompt_tokens, used.completion_tokens) if used else (None, None)
    try:
        return Outcome(answer_text(completion), "", False, *tokens)
    except CallFailed as failed:
        return Outcome("", failed.reason, False, *tokens)
