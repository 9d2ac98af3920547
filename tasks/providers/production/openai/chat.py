"""OpenAI's chat completions and Batch API: text and images in, JSON out.

Also for any server with chat completions (vLLM, llama.cpp, Ollama). CURATE_OPENAI_MODEL names another model.
"""

import json
import os
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import openai
from openai.types.chat import ChatCompletion, ChatCompletionContentPartParam

from tasks.providers.capabilities import Reply
from tasks.providers.production.batches.api import BatchApi, Ended, Outcome, Request, json_line, json_rows, outcome_of
from tasks.providers.production.batches.records import account_of
from tasks.providers.production.calls import FORMAT_REFUSED, CallFailed
from tasks.providers.production.chat_model import reply
from tasks.providers.production.language_model import ANSWER_TOKENS_MAX, LanguageModel, Question, finished_text
from tasks.providers.production.openai.client import connect, data_url, failures, rate_limit
from tasks.runtime.budget import Bill

MODEL = "CURATE_OPENAI_MODEL"
DEFAULT_MODEL = "gpt-5.4-mini-2026-03-17"
"""A dated snapshot: an alias would change what signals mean without changing their version."""
VENDOR = "openai.com"
"""Any other host is a self-hosted server."""
FORMS = ("json_schema", "json_object", "text")
"""Response formats, best first; self-hosted servers may refuse the better ones."""
FORM_INSTRUCTION = "Answer with one JSON object that fits this JSON schema, and with nothing else:\n"
_NAMES = (
    "s|bos|eos|pad|unk|think|tool_call|tool_response|image|img|im_start|im_end|im_patch|video|audio|image_soft_token"
)
_CONTROL = re.compile(
    rf"<(?=[|｜])|<(?=/?(?:{_NAMES})>)|<(?=(?:start|end)_of_\w+>)|<(?=/?[a-z]*_?vision_?[a-z]*>)|<(?=<?/?<?SYS>)"
    r"|\[(?=/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS|IMG|IMG_END|IMG_BREAK)\])|(?<=[|｜])(?=>)",
    re.I,
)
"""Openings, and closings with a bar, of Llama's, ChatML's, Gemma's, Mistral's, DeepSeek's and LLaVA's tokens."""
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


class OpenAiChat(LanguageModel):
    """Single calls over one connection."""

    def __init__(self) -> None:
        self._client = connect()
        self._model = os.environ.get(MODEL) or DEFAULT_MODEL
        self._self_hosted = not self._client.base_url.host.endswith(VENDOR)
        self._form = FORMS[0]
        super().__init__(f"openai-{self._model}")

    def _complete(self, question: Question, name: str, schema: dict[str, Any], bill: Bill) -> str:
        form = self._form
        try:
            return self._send(self._request(question, name, schema), bill)
        except CallFailed as failure:
            if failure.reason != FORMAT_REFUSED or not self._self_hosted or form == FORMS[-1]:
                raise
        if self._form == form:  # unless another thread has done so
            self._form = FORMS[FORMS.index(form) + 1]
        return self._complete(question, name, schema, bill)

    def _send(self, body: Request, bill: Bill) -> str:
        with failures():
            # As extra_body, because the SDK's own conversion of the request takes half the time of a call.
            create = self._client.chat.completions.with_raw_response.create
            response = create(model=self._model, messages=[], extra_body=body)
            completion = response.parse()
        usage = getattr(completion, "usage", None)
        if limit := rate_limit(response.headers, getattr(usage, "total_tokens", None)):
            self._service.pace.heard(*limit)
        self._count(bill, getattr(usage, "prompt_tokens", None), getattr(usage, "completion_tokens", None))
        text = finished_text(said(completion))
        return text if "response_format" in body else _inner_json(text)

    def _request(self, question: Question, name: str, schema: dict[str, Any]) -> Request:
        material = defused(question.material) if self._self_hosted else question.material
        content: list[ChatCompletionContentPartParam] = [{"type": "text", "text": material}]
        content += [{"type": "image_url", "image_url": {"url": data_url(upload)}} for upload in question.images]
        instructions = question.instructions
        if self._form != "json_schema":
            instructions = f"{instructions}\n{FORM_INSTRUCTION}{json.dumps(schema)}"
        forms = {
            "json_schema": {"type": "json_schema", "json_schema": {"name": name, "strict": True, "schema": schema}},
            "json_object": {"type": "json_object"},
        }
        return {
            "model": self._model,
            "messages": [{"role": "system", "content": instructions}, {"role": "user", "content": content}],
            "max_tokens" if self._self_hosted else "max_completion_tokens": ANSWER_TOKENS_MAX,
            **({"response_format": forms[self._form]} if self._form in forms else {}),
        }

    def _batches(self) -> "OpenAiBatches":
        return OpenAiBatches(self._client)


class OpenAiBatches(BatchApi):
    """OpenAI's Batch API: a request file is uploaded and answered in two files within 24 hours."""

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
        with failures():
            uploaded = self._client.files.create(file=file, purpose="batch", timeout=UPLOAD_SECONDS).id
            made = self._client.batches.create(
                completion_window="24h", endpoint=ENDPOINT, input_file_id=uploaded, metadata={BATCH_MARK: token}
            )
            return made.id

    def newest_first(self) -> Iterator[tuple[str, str | None, datetime]]:
        """In the order of the API's list."""
        with failures():
            for batch in self._client.batches.list(limit=100):
                yield batch.id, (batch.metadata or {}).get(BATCH_MARK), datetime.fromtimestamp(batch.created_at, UTC)

    def ended(self, batch_id: str) -> Ended | None:
        """Reads both result files."""
        with failures():
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
        with failures():
            self._client.files.delete(file)


def said(completion: object) -> Reply:
    """The reply in a completion. Raises CallFailed for one that is not usable."""
    if not isinstance(completion, ChatCompletion) or not completion.choices:
        raise CallFailed("malformed_answer")  # the SDK returns any body that a proxy sends with status 200
    if len(completion.choices) > 1:
        raise CallFailed("contradictory_answer")
    choice = completion.choices[0]
    text, tokens = choice.message.content or "", getattr(completion.usage, "completion_tokens", None)
    if choice.message.refusal or choice.finish_reason == "content_filter":
        return reply(choice.message.refusal or text, "refused", tokens)
    if choice.finish_reason not in ("stop", "length"):
        raise CallFailed("unfinished_answer")
    return reply(text, "complete" if choice.finish_reason == "stop" else "truncated", tokens)


def _inner_json(text: str) -> str:
    """The JSON in a free-text answer, without the model's thinking and without a code fence."""
    answer = text.rpartition("</think>")[2].strip()
    return answer.removeprefix("```json").removeprefix("```").removesuffix("```").strip()


def _row_outcome(row: dict[str, Any]) -> Outcome:
    """The outcome of one line of a result file."""
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
    return outcome_of(lambda: said(completion), tokens)


def defused(text: str) -> str:
    """The text with a space inside every control token of a chat template, so that it is plain text.

    OpenAI and Google separate text from control tokens. Self-hosted servers may join all turns into one string and obey
    control tokens anywhere in it, so that a user's text could end its turn and speak as the system.
    """
    return _CONTROL.sub(lambda found: f"{found[0]} ", text)
