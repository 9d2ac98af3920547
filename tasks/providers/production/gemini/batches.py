"""Gemini's Batch API: a file of requests is uploaded, made a batch of, and answered within 24 hours, as a rule.

Requests go as a file, whose lines carry our key. Answers may come as a file or, of small batches, with the state, and
not in the order of the requests (googleapis/python-genai#1909): an answer without its key is no answer.
"""

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from google import genai
from google.genai import types

from tasks.providers.production.batches import CLOCK_SKEW, BatchApi, Ended, Outcome, Request, json_line, json_rows
from tasks.providers.production.calls import CallFailed
from tasks.providers.production.gemini.client import answer_text, failures, tokens_used

_ENDED = {
    types.JobState.JOB_STATE_SUCCEEDED: "missing_answer",
    types.JobState.JOB_STATE_PARTIALLY_SUCCEEDED: "missing_answer",
    types.JobState.JOB_STATE_FAILED: "batch_failed",
    types.JobState.JOB_STATE_EXPIRED: "batch_expired",
    types.JobState.JOB_STATE_CANCELLED: "batch_cancelled",
}
"""State -> what is wrong with a question without an answer."""


class GeminiBatches(BatchApi):
    """Batches of generated content."""

    requests_max = 50_000
    """Ours: Google states none, and what is lost with a batch should have a bound."""
    bytes_max = 2_000_000_000

    def __init__(self, client: genai.Client, model: str) -> None:
        self._client, self._model = client, model

    def line(self, name: str, request: Request) -> bytes:
        """One request."""
        return json_line({"key": name, "request": request})

    def make(self, file: Path, token: str) -> str:
        """The batch's resource name."""
        with failures():
            uploaded = self._client.files.upload(file=file, config=types.UploadFileConfig(mime_type="jsonl"))
            config = types.CreateBatchJobConfig(display_name=token)
            return _named(self._client.batches.create(model=self._model, src=_named(uploaded.name), config=config).name)

    def find(self, token: str, since: datetime) -> str | None:
        """The newest batches come first."""
        with failures():
            for batch in self._client.batches.list(config=types.ListBatchJobsConfig(page_size=100)):
                if batch.display_name == token:
                    return batch.name
                if batch.create_time and batch.create_time < since - CLOCK_SKEW:
                    break
        return None

    def ended(self, batch_id: str) -> Ended | None:
        """Outcomes are the lines of the result file, and what came with the state."""
        with failures():
            batch = self._client.batches.get(name=batch_id)
            reason = _ENDED.get(batch.state) if batch.state else None
            if reason is None:
                return None
            dest = batch.dest or types.BatchJobDestination()
            files = [dest.file_name] if dest.file_name else []
            contents = [self._client.files.download(file=file) for file in files]
        rows = [row for content in contents for row in json_rows(content)]
        outcomes = [(row["key"], _outcome(row)) for row in rows if isinstance(row.get("key"), str)]
        outcomes += [
            (str((each.metadata or {}).get("key", "")), _said(each.response)) for each in dest.inlined_responses or ()
        ]
        return Ended(outcomes, reason, reason == "missing_answer", files)

    def remove(self, files: Sequence[str]) -> None:
        """Answers should not lie at the vendor longer than needed; uploaded files expire after two days."""
        for file in files:
            with suppress(CallFailed), failures():
                self._client.files.delete(name=file)


def _named(name: str | None) -> str:
    if not name:
        raise CallFailed("malformed_answer")
    return name


def _outcome(row: dict[str, Any]) -> Outcome:
    if not isinstance(row.get("response"), dict):
        return _said(None)
    try:
        # The public constructor refuses fields that are newer than the SDK.
        response = types.GenerateContentResponse._from_response(response=row["response"], kwargs={})
    except ValueError:
        return Outcome(failure="malformed_answer")
    return _said(response)


def _said(response: types.GenerateContentResponse | None) -> Outcome:
    if response is None:
        return Outcome(failure="batch_item_failed", unbilled=True)
    try:
        return Outcome(answer_text(response), "", False, *tokens_used(response))
    except CallFailed as failed:
        return Outcome("", failed.reason, False, *tokens_used(response))
