"""OpenAI's Batch API: a file of requests is uploaded, made a batch of, and answered in two files within 24 hours."""

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

import openai
from openai.types.chat import ChatCompletion

from tasks.providers.production.batch_api import BatchApi, BatchState, Outcome, Request, json_line, json_rows
from tasks.providers.production.openai_answers import answer_text, failures
from tasks.providers.production.retries import CallFailed

ENDPOINT: Final = "/v1/chat/completions"
MARK = "curate"
"""Key of our token in the batch's metadata."""
UPLOAD_SECONDS = 600.0
CLOCK_SKEW = timedelta(hours=1)
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

    def upload(self, file: Path) -> str:
        """The id of the uploaded file."""
        with failures():
            return self._client.files.create(file=file, purpose="batch", timeout=UPLOAD_SECONDS).id

    def create(self, file: str, token: str) -> str:
        """The batch's id."""
        with failures():
            made = self._client.batches.create(
                completion_window="24h", endpoint=ENDPOINT, input_file_id=file, metadata={MARK: token}
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

    def state(self, batch_id: str) -> BatchState:
        """How far it is."""
        with failures():
            batch = self._client.batches.retrieve(batch_id)
        results = tuple(file for file in (batch.output_file_id, batch.error_file_id) if file)
        return BatchState(
            ended=batch.status in _ENDED,
            reason=_ENDED.get(batch.status, ""),
            billed=batch.status == "completed",
            results=results,
            files=(batch.input_file_id, *results),
        )

    def outcomes(self, state: BatchState) -> Sequence[tuple[str, Outcome]]:
        """The lines of both files."""
        with failures():
            contents = [self._client.files.content(file, timeout=UPLOAD_SECONDS).content for file in state.results]
        rows = [row for content in contents for row in json_rows(content)]
        return [(row["custom_id"], _outcome(row)) for row in rows if isinstance(row.get("custom_id"), str)]

    def remove(self, files: Sequence[str]) -> None:
        """Questions and answers should not lie at the vendor longer than needed."""
        for file in files:
            with suppress(CallFailed), failures():
                self._client.files.delete(file)


def _outcome(row: dict[str, Any]) -> Outcome:
    response = row.get("response")
    if not isinstance(response, dict):
        expired = isinstance(row.get("error"), dict) and row["error"].get("code") == "batch_expired"
        return Outcome(failure="batch_expired" if expired else "batch_item_failed", unbilled=True)
    if response.get("status_code") != 200:
        return Outcome(failure="batch_item_failed", unbilled=True)
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
