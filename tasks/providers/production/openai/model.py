"""OpenAI's chat completions: text and images in, text or JSON out, whole, piece by piece, or by its Batch API.

Also for any server with chat completions (vLLM, SGLang, llama.cpp, Ollama). CURATE_OPENAI_MODEL and
CURATE_OPENAI_IMAGE_MODEL name other models; images are drawn over the Images API.
"""

import json
import os
import re
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import openai
from openai.types.chat import ChatCompletion

from schemas.asked_model import is_own_server
from tasks.providers.capabilities import ChatMessage, Reply, ReplyShape, Thought, TokensUsed
from tasks.providers.chat import Endpoint
from tasks.providers.production.batches.api import (
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
from tasks.providers.production.calls import CallFailed
from tasks.providers.production.language_model import (
    Chat,
    HostedModel,
    ReplyForm,
    Turn,
    VendorPictures,
    decoded,
    model_of,
    named_by_environment,
)
from tasks.providers.production.openai.client import (
    OPENAI_ADDRESS,
    OPENAI_BASE_URL_VARIABLE,
    OPENAI_KEY_VARIABLE,
    data_url,
    openai_client,
    openai_client_at,
    rate_limit,
    said,
    sdk_failures,
    tokens_used,
)
from tasks.providers.production.replies import message_content
from tasks.providers.upload import UPLOAD_SECONDS, Upload
from tasks.runtime.budget import Bill

CHAT_COMPLETIONS: Final = "/v1/chat/completions"
BATCH_MARK = "curate"
"""Key in a batch's metadata that holds our token."""
_ENDED = {
    "completed": "missing_answer",
    "failed": "batch_failed",
    "expired": "batch_expired",
    "cancelled": "batch_cancelled",
}
"""Status of an ended batch -> failure reason of questions without an answer."""
OPENAI_MODEL_VARIABLE = "CURATE_OPENAI_MODEL"
OPENAI_DEFAULT_MODEL = "gpt-5.4-mini-2026-03-17"
"""A dated snapshot: an alias would change what signals mean without changing their version."""
CONNECT_SECONDS, SILENT_SECONDS = 10.0, 60.0
"""For streams: how long a server may take to be reached, and between two pieces of an answer."""
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
_PHRASE = re.compile(r"(<\|[\w']+(?: [\w']+)+\|>)")
"""A mark of several words, such as <|User Prompt|>: published judge prompts have them, and no chat template does."""


class AnswerCutOff(Exception):
    """The server ended an answer without saying that it is whole."""


def openai_model() -> "OpenAiModel":
    """The model that the environment names. Raises MissingProvider without a key."""
    base_url = os.environ.get(OPENAI_BASE_URL_VARIABLE, "")
    is_self_hosted = is_own_server(base_url)
    return OpenAiModel(
        named_by_environment(
            "openai",
            OPENAI_KEY_VARIABLE,
            (OPENAI_MODEL_VARIABLE, OPENAI_DEFAULT_MODEL),
            base_url,
            self_hosted=is_self_hosted,
        )
    )


class OpenAiModel(HostedModel):
    """One model over one connection."""

    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__(endpoint)
        self._client = openai_client_at(endpoint.key, endpoint.base_url)

    def _forms(self, shape: ReplyShape) -> tuple[ReplyForm, ...]:
        """Forms to ask for: less than a schema only of servers of one's own, where nothing else is of use."""
        if shape.strict and self.endpoint.self_hosted:
            return "json_schema", "json_object", "text"
        return super()._forms(shape)

    def _call(self, chat: Chat, bill: Bill) -> Reply:
        with sdk_failures():
            # As extra_body, because the SDK's own conversion of the request takes half the time of a call.
            create = self._client.chat.completions.with_raw_response.create
            response = create(model=self.endpoint.model, messages=[], extra_body=self._request(chat))
            completion = response.parse()
        used = tokens_used(completion)
        if limit := rate_limit(response.headers, getattr(getattr(completion, "usage", None), "total_tokens", None)):
            self._service.pace.heard(*limit)
        bill.settle_tokens(*used)
        reply = said(completion)
        without_schema = chat.shape is not None and chat.shape.strict and chat.form == "text"
        return replace(reply, text=_inner_json(reply.text)) if without_schema else reply

    def _request(self, chat: Chat) -> Request:
        strict = chat.shape if chat.shape and chat.shape.strict else None
        mend: Callable[[str], str] = str
        if self.endpoint.self_hosted:
            mend = defused if strict else _defused_but_phrases
        messages = [_message(turn, mend, as_parts=strict is not None) for turn in chat.turns]
        if strict and chat.form != "json_schema":
            messages[0]["content"] += f"\n{FORM_INSTRUCTION}{json.dumps(strict.schema)}"
        return {"model": self.endpoint.model, "messages": messages, **self._limits(), **_response_format(chat)}

    def _limits(self) -> dict[str, Any]:
        """Limits of an answer; those that the server is left to are left out."""
        endpoint = self.endpoint
        usual = "max_tokens" if endpoint.self_hosted else "max_completion_tokens"
        limits = {
            endpoint.limit_key or usual: endpoint.answer_tokens_max,
            "temperature": endpoint.temperature,
            "top_p": endpoint.top_p,
        }
        return {name: value for name, value in limits.items() if value is not None}

    async def stream(self, messages: Sequence[ChatMessage]) -> AsyncIterator[str | TokensUsed]:
        """The pieces of the next message, for an arena. Raises the SDK's errors, or AnswerCutOff."""
        counted, sent = {"stream_options": {"include_usage": True}}, list[dict[str, Any]]()
        for message in messages:  # images are sent byte for byte
            images = tuple(Upload(content, f"image/{kind}", 0, 0) for kind, content in message.images)
            sent.append(_message(Turn(message.role, message.text, images), str))
        request = {"messages": sent, **counted, **self._limits(), **self.endpoint.extra_body}
        whole, used = False, TokensUsed()
        create = self._streaming.chat.completions.create
        opening_stream = create(
            model=self.endpoint.model, messages=[], stream=True, extra_body=request, extra_headers=self.endpoint.headers
        )
        async with await opening_stream as pieces:
            async for piece in pieces:
                if piece.usage:  # of all so far
                    used = TokensUsed(*tokens_used(piece))
                for choice in piece.choices[:1]:
                    whole = whole or choice.finish_reason is not None
                    extra_fields = choice.delta.model_extra or {}
                    content = message_content(choice.delta.content)
                    thinking = (
                        extra_fields.get("reasoning_content") or extra_fields.get("reasoning") or content.thinking
                    )
                    if thinking and isinstance(thinking, str):
                        yield Thought(thinking)
                    if text := content.text or content.refusal or choice.delta.refusal:
                        yield text
        if not whole:
            raise AnswerCutOff
        yield used

    @cached_property
    def _streaming(self) -> openai.AsyncOpenAI:
        timeout = openai.Timeout(SILENT_SECONDS, connect=CONNECT_SECONDS)
        key, base_url = self.endpoint.key, self.endpoint.base_url or OPENAI_ADDRESS
        return openai.AsyncOpenAI(api_key=key, base_url=base_url, timeout=timeout, max_retries=0)

    def _batches(self) -> "OpenAiBatches":
        return OpenAiBatches(self._client)


class OpenAiBatches(BatchApi):
    """One connection's batches."""

    requests_max = 50_000
    bytes_max = 200_000_000

    def __init__(self, client: openai.OpenAI) -> None:
        self._client = client
        self.account = account_of(str(client.base_url), client.api_key)

    def line(self, name: str, request: Request) -> bytes:
        """One request."""
        return json_line({"custom_id": name, "method": "POST", "url": CHAT_COMPLETIONS, "body": request})

    def make(self, file: Path, token: str) -> str:
        """The batch's id."""
        with sdk_failures():
            uploaded = self._client.files.create(file=file, purpose="batch", timeout=UPLOAD_SECONDS).id
            batch = self._client.batches.create(
                completion_window="24h", endpoint=CHAT_COMPLETIONS, input_file_id=uploaded, metadata={BATCH_MARK: token}
            )
            return batch.id

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
    response = row.get("response")
    if not isinstance(response, dict) or response.get("status_code") != 200:
        expired = isinstance(row.get("error"), dict) and row["error"].get("code") == "batch_expired"
        return BatchOutcome(failure="batch_expired", unbilled=True) if expired else failed_outcome(row)
    body = response.get("body")
    completion = ChatCompletion.construct(**body) if isinstance(body, dict) else None  # as single calls read it
    return outcome_of(lambda: said(completion), tokens_used(completion))


def _message(turn: Turn, mend: Callable[[str], str], *, as_parts: bool = False) -> dict[str, Any]:
    """A message; text alone is plain unless it is wanted `as_parts`. What is ours, the system's, is not mended."""
    if turn.role == "system":
        return {"role": turn.role, "content": turn.text}
    if not turn.images and not as_parts:
        return {"role": turn.role, "content": mend(turn.text)}
    content = [
        {"type": "text", "text": mend(part)}
        if isinstance(part, str)
        else {"type": "image_url", "image_url": {"url": data_url(part)}}
        for part in turn.parts
    ]
    return {"role": turn.role, "content": content}


def _response_format(chat: Chat) -> dict[str, Any]:
    if chat.shape and chat.schema is not None:
        json_schema = {"name": chat.shape.name, "strict": True, "schema": chat.schema}
        return {"response_format": {"type": "json_schema", "json_schema": json_schema}}
    return {"response_format": {"type": "json_object"}} if chat.shape and chat.form == "json_object" else {}


def _inner_json(text: str) -> str:
    """The JSON in a free-text answer, without a code fence."""
    return text.strip().removeprefix("```json").removeprefix("```").removesuffix("```").strip()


def defused(text: str) -> str:
    """The text with a space inside every control token of a chat template, so that it is plain text.

    OpenAI and Google separate text from control tokens. Self-hosted servers may join all turns into one string and obey
    control tokens anywhere in it, so that a user's text could end its turn and speak as the system.
    """
    return _CONTROL.sub(lambda control_token: f"{control_token[0]} ", text)


def _defused_but_phrases(text: str) -> str:
    """The text with its control tokens broken, and marks of several words as they are."""
    return "".join(part if place % 2 else defused(part) for place, part in enumerate(_PHRASE.split(text)))


OPENAI_IMAGE_MODEL_VARIABLE, OPENAI_DEFAULT_IMAGE_MODEL = "CURATE_OPENAI_IMAGE_MODEL", "gpt-image-1"
DRAWN_SIZE, QUALITY = "1024x1024", "medium"
"""Size and quality that the price file's price is for."""


class OpenAiPictures(VendorPictures):
    """One image a call, in the answer itself: addresses are not fetched."""

    def __init__(self) -> None:
        self._client = openai_client()
        super().__init__("openai", model_of(OPENAI_IMAGE_MODEL_VARIABLE, OPENAI_DEFAULT_IMAGE_MODEL))

    def _image(self, image_prompt: str, bill: Bill) -> bytes:
        body = {"model": self.model_name, "prompt": image_prompt, "n": 1, "size": DRAWN_SIZE, "quality": QUALITY}
        with sdk_failures():
            reply = self._client.images.with_raw_response.generate(prompt=image_prompt, extra_body=body)
            response = reply.parse()
        if limit := rate_limit(reply.headers, None):
            self._service.pace.heard(*limit)
        images = getattr(response, "data", None)
        if not images:
            raise CallFailed("malformed_answer")
        if images[0].b64_json is None:
            raise CallFailed("address_in_place_of_image")
        return decoded(images[0].b64_json)
