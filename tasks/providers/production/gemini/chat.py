"""Google's Gemini: images in, one JSON object out. CURATE_GEMINI_MODEL names another model."""

import os
from typing import Any

from google.genai import types

from tasks.providers.production.batches import Request
from tasks.providers.production.gemini.batches import GeminiBatches
from tasks.providers.production.gemini.client import answer_text, connect, failures, tokens_used
from tasks.providers.production.language_model import ANSWER_TOKENS_MAX, LanguageModel, Question
from tasks.runtime.budget import Bill

MODEL = "CURATE_GEMINI_MODEL"
DEFAULT_MODEL = "gemini-3.8-flash"


class GeminiChat(LanguageModel):
    """One connection for all questions."""

    def __init__(self) -> None:
        self._client = connect()
        self._model = os.environ.get(MODEL) or DEFAULT_MODEL
        super().__init__(f"google-{self._model}")

    def _complete(self, question: Question, name: str, schema: dict[str, Any], bill: Bill) -> str:
        config = _config(schema)
        config.system_instruction = question.instructions
        with failures():
            response = self._client.models.generate_content(
                model=self._model, contents=_content(question), config=config
            )
            self._count(bill, *tokens_used(response))
            return answer_text(response)

    def _request(self, question: Question, name: str, schema: dict[str, Any]) -> Request:
        return {
            "contents": [_content(question).model_dump(mode="json", by_alias=True, exclude_none=True)],
            "systemInstruction": {"parts": [{"text": question.instructions}], "role": "user"},
            "generationConfig": _config(schema).model_dump(mode="json", by_alias=True, exclude_none=True),
        }

    def _batches(self) -> GeminiBatches:
        return GeminiBatches(self._client, self._model)


def _content(question: Question) -> types.Content:
    images = [types.Part.from_bytes(data=image.content, mime_type=image.mime_type) for image in question.images]
    return types.Content(role="user", parts=[types.Part.from_text(text=question.material), *images])


def _config(schema: dict[str, Any]) -> types.GenerateContentConfig:
    return types.GenerateContentConfig(
        response_mime_type="application/json", response_json_schema=schema, max_output_tokens=ANSWER_TOKENS_MAX
    )
