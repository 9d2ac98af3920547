"""Google's Gemini: text and images in, text or JSON out, by single calls or by its Batch API; and its models that draw.

GEMINI_API_KEY; CURATE_GEMINI_BASE_URL for another server; CURATE_GEMINI_MODEL and CURATE_GEMINI_IMAGE_MODEL for other
models.
"""

import json
import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx2  # the SDK raises its transport's errors
from google import genai
from google.genai import errors, types

from tasks.providers.capabilities import Reply
from tasks.providers.chat import Endpoint
from tasks.providers.production.batches.api import (
    BatchApi,
    BatchOutcome,
    Ended,
    Request,
    json_line,
    json_rows,
    outcome_of,
)
from tasks.providers.production.batches.queue import account_of
from tasks.providers.production.calls import REFUSED_CALL, CallFailed, waiting_seconds
from tasks.providers.production.language_model import (
    Chat,
    HostedModel,
    Turn,
    VendorPictures,
    key_in,
    model_of,
    named_by_environment,
    timeout_seconds,
)
from tasks.providers.production.replies import failure_in, failure_of, is_declined, reply, state_of
from tasks.runtime.budget import Bill

warnings.filterwarnings("ignore", r".* is not a valid (Finish|Blocked)Reason")  # a failure names it
GEMINI_KEY_VARIABLE, GEMINI_BASE_URL_VARIABLE, GEMINI_MODEL_VARIABLE = (
    "GEMINI_API_KEY",
    "CURATE_GEMINI_BASE_URL",
    "CURATE_GEMINI_MODEL",
)
GEMINI_DEFAULT_MODEL = "gemini-3.8-flash"
GEMINI_ADDRESS = "https://generativelanguage.googleapis.com/"
"""Given explicitly, so that no variable of the SDK's own can redirect prompts."""
_ENDED = {
    types.JobState.JOB_STATE_SUCCEEDED: "missing_answer",
    types.JobState.JOB_STATE_PARTIALLY_SUCCEEDED: "missing_answer",
    types.JobState.JOB_STATE_FAILED: "batch_failed",
    types.JobState.JOB_STATE_EXPIRED: "batch_expired",
    types.JobState.JOB_STATE_CANCELLED: "batch_cancelled",
}
"""State of an ended batch -> failure reason of questions without an answer."""


def gemini_client_at(key: str, base_url: str) -> genai.Client:
    """A client, without retries by default; without a `base_url`, of Google itself."""
    options = types.HttpOptions(base_url=base_url or GEMINI_ADDRESS, timeout=int(timeout_seconds() * 1000))
    return genai.Client(api_key=key, vertexai=False, http_options=options)


def gemini_client() -> genai.Client:
    """A client of the server that the environment names. Raises MissingProvider without a key."""
    return gemini_client_at(key_in(GEMINI_KEY_VARIABLE), os.environ.get(GEMINI_BASE_URL_VARIABLE, ""))


def gemini_model() -> "GeminiModel":
    """The model that the environment names. Raises MissingProvider without a key."""
    base_url = os.environ.get(GEMINI_BASE_URL_VARIABLE, "")
    return GeminiModel(
        named_by_environment("google", GEMINI_KEY_VARIABLE, (GEMINI_MODEL_VARIABLE, GEMINI_DEFAULT_MODEL), base_url),
        base_url,
    )


class GeminiModel(HostedModel):
    """One model over one connection."""

    def __init__(self, endpoint: Endpoint, address: str | None = None) -> None:
        """`address` is what the account of batches is known by, if not the server's own."""
        super().__init__(endpoint)
        self._client = gemini_client_at(endpoint.key, endpoint.base_url)
        self._account = account_of(endpoint.base_url or GEMINI_ADDRESS if address is None else address, endpoint.key)

    def _call(self, chat: Chat, bill: Bill) -> Reply:
        config = self._config(chat)
        config.system_instruction, config.should_return_http_response = chat.system or None, True
        with gemini_failures():
            whole = self._client.models.generate_content(
                model=self.endpoint.model, contents=_contents(chat.turns), config=config
            )
            body = json.loads((whole.sdk_http_response and whole.sdk_http_response.body) or "")
            if isinstance(body, dict) and "error" in body:  # with status 200; the SDK would drop it
                raise failure_in(body)
            response = _read(body)
            bill.settle_tokens(*_tokens_used(response))
            return _said(response)

    def _request(self, chat: Chat) -> Request:
        contents = [
            content.model_dump(mode="json", by_alias=True, exclude_none=True) for content in _contents(chat.turns)
        ]
        return {
            "contents": contents,
            **({"systemInstruction": {"parts": [{"text": chat.system}], "role": "user"}} if chat.system else {}),
            "generationConfig": self._config(chat).model_dump(mode="json", by_alias=True, exclude_none=True),
        }

    def _config(self, chat: Chat) -> types.GenerateContentConfig:
        return types.GenerateContentConfig(
            temperature=self.endpoint.temperature,
            top_p=self.endpoint.top_p,
            max_output_tokens=self.endpoint.answer_tokens_max,
            response_mime_type=None if chat.schema is None else "application/json",
            response_json_schema=chat.schema,
        )

    def _batches(self) -> "GeminiBatches":
        return GeminiBatches(self._client, self.endpoint.model, self._account)


class GeminiBatches(BatchApi):
    """Gemini's Batch API: a request file is uploaded and answered within 24 hours, as a rule.

    Answers come as a file or, for small batches, within the batch's state, and not in the order of the requests
    (googleapis/python-genai#1909). They are matched by key.
    """

    requests_max = 50_000
    """Ours, to bound what is lost with a batch; Google states no limit."""
    bytes_max = 2_000_000_000

    def __init__(self, client: genai.Client, model: str, account: str) -> None:
        self._client, self._model, self.account = client, model, account

    def line(self, name: str, request: Request) -> bytes:
        """One request."""
        return json_line({"key": name, "request": request})

    def make(self, file: Path, token: str) -> str:
        """The batch's resource name."""
        with gemini_failures():
            uploaded = self._client.files.upload(file=file, config=types.UploadFileConfig(mime_type="jsonl"))
            config = types.CreateBatchJobConfig(display_name=token)
            return _named(self._client.batches.create(model=self._model, src=_named(uploaded.name), config=config).name)

    def newest_first(self) -> Iterator[tuple[str | None, str | None, datetime | None]]:
        """In the order of the API's list."""
        with gemini_failures():
            for batch in self._client.batches.list(config=types.ListBatchJobsConfig(page_size=100)):
                yield batch.name, batch.display_name, batch.create_time

    def ended(self, batch_id: str) -> Ended | None:
        """Reads the result file and the answers within the state."""
        with gemini_failures():
            batch = self._client.batches.get(name=batch_id)
            reason = _ENDED.get(batch.state) if batch.state else None
            if reason is None:
                return None
            dest = batch.dest or types.BatchJobDestination()
            files = [dest.file_name] if dest.file_name else []
            rows = [row for file in files for row in json_rows(self._client.files.download(file=file))]
        outcomes = [(row["key"], _row_outcome(row)) for row in rows if isinstance(row.get("key"), str)]
        outcomes += [
            (str((response.metadata or {}).get("key", "")), _outcome(response.response))
            for response in dest.inlined_responses or ()
        ]
        return Ended(outcomes, reason, reason == "missing_answer", files)

    def delete(self, file: str) -> None:
        """For answers; Google drops uploaded files after two days."""
        with gemini_failures():
            self._client.files.delete(name=file)


@contextmanager
def gemini_failures() -> Iterator[None]:
    """Raises the exceptions of the SDK and its transport as CallFailed."""
    try:
        yield
    except httpx2.TimeoutException:
        raise CallFailed("timed_out", may_pass=True) from None
    except httpx2.TransportError as error:
        unsent = isinstance(error, httpx2.ConnectError)  # nothing was sent, so it costs nothing
        raise CallFailed("connection_failed", may_pass=True, unbilled=unsent) from None
    except errors.APIError as error:
        headers = getattr(error.response, "headers", None) or {}
        raise failure_of(error.code, error.details, waiting_seconds(headers.get("retry-after"))) from None
    except (ValueError, KeyError):  # a body that is not JSON, or not shaped like an answer
        raise CallFailed("malformed_answer") from None


def _contents(turns: Sequence[Turn]) -> list[types.Content]:
    return [_content(turn) for turn in turns if turn.role != "system"]


def _content(turn: Turn) -> types.Content:
    parts = [
        types.Part.from_text(text=part)
        if isinstance(part, str)
        else types.Part.from_bytes(data=part.content, mime_type=part.mime_type)
        for part in turn.parts
    ]
    return types.Content(role="model" if turn.role == "assistant" else "user", parts=parts)


def _tokens_used(response: types.GenerateContentResponse) -> tuple[int | None, int | None]:
    """Input and output tokens, thinking included; None where the service did not report them."""
    used = response.usage_metadata
    if used is None:
        return None, None
    return used.prompt_token_count, (used.candidates_token_count or 0) + (used.thoughts_token_count or 0)


def _said(response: types.GenerateContentResponse) -> Reply:
    """The reply in a response. Raises CallFailed for one that is not usable."""
    _, output_tokens = _tokens_used(response)
    if _blocked(response):
        return reply("", "refused", output_tokens)
    if not response.candidates:
        raise CallFailed("malformed_answer")
    if len(response.candidates) > 1:
        raise CallFailed("contradictory_answer")
    text = response.text or ""
    return reply(text, state_of(response.candidates[0].finish_reason, text), output_tokens)


def _blocked(response: types.GenerateContentResponse) -> bool:
    """Whether Google declined the prompt itself."""
    reason = response.prompt_feedback.block_reason if response.prompt_feedback else None
    return reason not in (None, types.BlockedReason.BLOCKED_REASON_UNSPECIFIED)


def _named(name: str | None) -> str:
    if not name:
        raise CallFailed("malformed_answer")
    return name


def _row_outcome(row: dict[str, Any]) -> BatchOutcome:
    if not isinstance(row.get("response"), dict):
        return _outcome(None)
    try:
        return _outcome(_read(row["response"]))
    except ValueError:
        return BatchOutcome(failure="malformed_answer")


def _read(body: Any) -> types.GenerateContentResponse:
    """A response as its JSON says; the public constructor refuses fields that are newer than the SDK.

    Raises ValueError for anything else.
    """
    if not isinstance(body, dict):
        raise ValueError
    return types.GenerateContentResponse._from_response(response=body, kwargs={})


def _outcome(response: types.GenerateContentResponse | None) -> BatchOutcome:
    if response is None:
        return BatchOutcome(failure="batch_item_failed", unbilled=True)
    return outcome_of(lambda: _said(response), _tokens_used(response))


GEMINI_IMAGE_MODEL_VARIABLE, GEMINI_DEFAULT_IMAGE_MODEL = "CURATE_GEMINI_IMAGE_MODEL", "gemini-2.5-flash-image"


class GeminiPictures(VendorPictures):
    """One image a call, among the parts of the answer."""

    def __init__(self) -> None:
        self._client = gemini_client()
        super().__init__("google", model_of(GEMINI_IMAGE_MODEL_VARIABLE, GEMINI_DEFAULT_IMAGE_MODEL))

    def _image(self, image_prompt: str, bill: Bill) -> bytes:
        config = types.GenerateContentConfig(response_modalities=["IMAGE"])
        with gemini_failures():
            response = self._client.models.generate_content(model=self.model_name, contents=image_prompt, config=config)
        if _blocked(response):
            raise CallFailed(REFUSED_CALL)
        candidates = response.candidates or []
        if len(candidates) != 1:
            raise CallFailed("malformed_answer")
        if is_declined(candidates[0].finish_reason):
            raise CallFailed(REFUSED_CALL)
        content = candidates[0].content
        images = [part.inline_data.data for part in (content.parts if content else None) or () if part.inline_data]
        if len(images) != 1 or not images[0]:
            raise CallFailed("no_image_in_answer")
        return bytes(images[0])
