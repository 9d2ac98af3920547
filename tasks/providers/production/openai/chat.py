"""OpenAI's chat completions, and any server that speaks them (vLLM, llama.cpp, Ollama): images in, JSON out.

CURATE_OPENAI_MODEL names another model.
"""

import json
import os
import re
from typing import Any

from openai.types.chat import ChatCompletionContentPartParam

from tasks.providers.production.batches import Request
from tasks.providers.production.calls import CallFailed
from tasks.providers.production.language_model import ANSWER_TOKENS_MAX, LanguageModel, Question
from tasks.providers.production.openai.batches import OpenAiBatches
from tasks.providers.production.openai.client import FORMAT_REFUSED, answer_text, connect, data_url, failures, room
from tasks.runtime.budget import Bill

MODEL = "CURATE_OPENAI_MODEL"
DEFAULT_MODEL = "gpt-5.4-mini-2026-03-17"
"""A dated snapshot: an alias would change what signals mean without changing their version."""
VENDOR = "openai.com"
"""Every other host is a server of one's own."""
FORMS = ("json_schema", "json_object", "text")
"""How an answer is held to its schema, best first; servers of one's own may refuse the better ones."""
ASKED_FORM = "Answer with one JSON object that fits this JSON schema, and with nothing else:\n"
_NAMES = (
    "s|bos|eos|pad|unk|think|tool_call|tool_response|image|img|im_start|im_end|im_patch|video|audio|image_soft_token"
)
_CONTROL = re.compile(
    rf"<(?=[|｜])|<(?=/?(?:{_NAMES})>)|<(?=(?:start|end)_of_\w+>)|<(?=/?[a-z]*_?vision_?[a-z]*>)|<(?=<?/?<?SYS>)"
    r"|\[(?=/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS|IMG|IMG_END|IMG_BREAK)\])|(?<=[|｜])(?=>)",
    re.I,
)
"""Openings, and closings with a bar, of Llama's, ChatML's, Gemma's, Mistral's, DeepSeek's and LLaVA's tokens."""


class OpenAiChat(LanguageModel):
    """One connection for all questions."""

    def __init__(self) -> None:
        self._client = connect()
        self._model = os.environ.get(MODEL) or DEFAULT_MODEL
        self._own_server = not self._client.base_url.host.endswith(VENDOR)
        self._form = FORMS[0]
        super().__init__(f"openai-{self._model}")

    def _complete(self, question: Question, name: str, schema: dict[str, Any], bill: Bill) -> str:
        form = self._form
        try:
            return self._say(self._request(question, name, schema), bill)
        except CallFailed as failure:
            if failure.reason != FORMAT_REFUSED or not self._own_server or form == FORMS[-1]:
                raise
        if self._form == form:  # no other call has gone on already
            self._form = FORMS[FORMS.index(form) + 1]
        return self._complete(question, name, schema, bill)

    def _say(self, body: Request, bill: Bill) -> str:
        with failures():
            # As extra body: the SDK otherwise walks through the whole request, which takes half the time of a call.
            create = self._client.chat.completions.with_raw_response.create
            said = create(model=self._model, messages=[], extra_body=body)
            completion = said.parse()
        usage = getattr(completion, "usage", None)
        if left := room(said.headers, getattr(usage, "total_tokens", None)):
            self._service.pace.heard(*left)
        self._count(bill, getattr(usage, "prompt_tokens", None), getattr(usage, "completion_tokens", None))
        text = answer_text(completion)
        return text if "response_format" in body else _inner_json(text)

    def _request(self, question: Question, name: str, schema: dict[str, Any]) -> Request:
        material = defused(question.material) if self._own_server else question.material
        shown: list[ChatCompletionContentPartParam] = [{"type": "text", "text": material}]
        shown += [{"type": "image_url", "image_url": {"url": data_url(upload)}} for upload in question.images]
        told = question.instructions
        if self._form != "json_schema":
            told = f"{told}\n{ASKED_FORM}{json.dumps(schema)}"
        forms = {
            "json_schema": {"type": "json_schema", "json_schema": {"name": name, "strict": True, "schema": schema}},
            "json_object": {"type": "json_object"},
        }
        return {
            "model": self._model,
            "messages": [{"role": "system", "content": told}, {"role": "user", "content": shown}],
            "max_tokens" if self._own_server else "max_completion_tokens": ANSWER_TOKENS_MAX,
            **({"response_format": forms[self._form]} if self._form in forms else {}),
        }

    def _batches(self) -> OpenAiBatches:
        return OpenAiBatches(self._client)


def _inner_json(text: str) -> str:
    """The answer of a model that nothing held to JSON: without what it thought aloud and without a code fence."""
    said = text.rpartition("</think>")[2].strip()
    return said.removeprefix("```json").removeprefix("```").removesuffix("```").strip()


def defused(text: str) -> str:
    """The text with a space inside every control token of a chat template, which is then only text.

    OpenAI and Google keep text and control apart. Servers of one's own may build one string of all turns and read
    control tokens wherever they stand in it, so that a text could close its own turn and speak as the system.
    """
    return _CONTROL.sub(lambda found: f"{found[0]} ", text)
