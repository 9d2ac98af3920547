"""OpenAI's Batch API: a request file is uploaded and answered in two files within 24 hours."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import openai
from openai.types.chat import ChatCompletion

from tasks.providers.production.batches.api import (
    BatchApi,
    BatchOutcome,
    Ended,
    Request,
    json_line,
    json_rows,
    outcome_of,
)
from tasks.providers.production.batches.records import account_of
from tasks.providers.production.openai.client import said, sdk_failures, tokens_used

ENDPOINT: Final = "/v1/chat/completions"
BATCH_MARK = "curate"
"""Key in a batch's metadata that holds our token."""
UPLOAD_SECONDS = 600.0
_ENDED = {
    "completed": "missing_answer",
    "failed": "batch_failed",
    "expired": "batch_expired",
    "cancelled": "batch_cancelled",
}
"""Status of an ended batch -> failure reason of questions without an answer."""


class OpenAiBatches(BatchApi):
    """One connection's batches."""

    requests_max = 50_000
    bytes_max = 200_000_000

    def __init__(self, client: openai.OpenAI) -> None:
        self._client = client
        self.account = account_of(str(client.base_url), client.api_key)

    def line(self, name: str, request: Request) -> bytes:
        """One request."""
        return json_line({"custom_id": name, "method": "POST", "url": ENDPOINT, "body": request})

    def make(self, file: Path, token: str) -> str:
        """The batch's id."""
        with sdk_failures():
            uploaded = self._client.files.create(file=file, purpose="batch", timeout=UPLOAD_SECONDS).id
            made = self._client.batches.create(
                completion_window="24h", endpoint=ENDPOINT, input_file_id=uploaded, metadata={BATCH_MARK: token}
            )
            return made.id

    def newest_first(self) -> Iterator[tuple[str, str | None, datetime]]:
        """In the order of the API's list."""
        with sdk_failures():
            for batch in self._client.batches.list(limit=100):
                yield batch.id, (batch.metadata or {}).get(BATCH_MARK), datetime.fromtimestamp(batch.created_at, UTC)

    def ended(self, batch_id: str) -> Ended | None:
        """Reads both result files."""
        with sdk_failures():
            batch = self._client.batches.retrieve(batch_id)
            if batch.status not in _ENDED:
                return None
            files = [file for file in (batch.output_file_id, batch.error_file_id) if file]
            contents = [self._client.files.content(file, timeout=UPLOAD_SECONDS).content for file in files]
        rows = [row for content in contents for row in json_rows(content)]
        outcomes = [(row["custom_id"], _row_outcome(row)) for row in rows if isinstance(row.get("custom_id"), str)]
        return Ended(outcomes, _ENDED[batch.status], batch.status == "completed", [batch.input_file_id, *files])

    def delete(self, file: str) -> None:
        """For questions and answers."""
        with sdk_failures():
            self._client.files.delete(file)


def _row_outcome(row: dict[str, Any]) -> BatchOutcome:
    """The outcome of one line of a result file."""
    response = row.get("response")
    if not isinstance(response, dict) or response.get("status_code") != 200:
        expired = isinstance(row.get("error"), dict) and row["error"].get("code") == "batch_expired"
        return BatchOutcome(failure="batch_expired" if expired else "batch_item_failed", unbilled=True)
    try:
        completion = ChatCompletion.model_validate(response.get("body"))
    except ValueError:
        return BatchOutcome(failure="malformed_answer")
    return outcome_of(lambda: said(completion), tokens_used(completion))
