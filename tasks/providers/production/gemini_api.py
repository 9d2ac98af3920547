"""Google's Gemini: pictures in, one JSON object out.

GEMINI_API_KEY; CURATE_GEMINI_BASE_URL for another server; CURATE_GEMINI_MODEL for another model.
"""

import base64
import os
from typing import Any

from google import genai
from google.genai import types

from schemas.errors import MissingProvider
from tasks.providers.production.batch_api import Request
from tasks.providers.production.gemini_answers import answer_text, failures, tokens_used
from tasks.providers.production.gemini_batches import GeminiBatches
from tasks.providers.production.language_model import (
    ANSWER_TOKENS_MAX,
    LanguageModel,
    Question,
    timeout_seconds,
)
from tasks.providers.production.retries import Retries
from tasks.spending.ledger import Bill

KEY, BASE_URL, MODEL = "GEMINI_API_KEY", "CURATE_GEMINI_BASE_URL", "CURATE_GEMINI_MODEL"
DEFAULT_MODEL = "gemini-3.8-flash"


class GeminiApi(LanguageModel):
    """One connection for all questions."""

    def __init__(self, retries: Retries | None = None) -> None:
        key = os.environ.get(KEY)
        if not key:
            raise MissingProvider(f"gemini: {KEY} is not set; export a key in it, or choose another provider")
        self._model = os.environ.get(MODEL) or DEFAULT_MODEL
        options = types.HttpOptions(
            base_url=os.environ.get(BASE_URL) or None,
            timeout=int(timeout_seconds() * 1000),
        )
        self._client = genai.Client(api_key=key, vertexai=False, http_options=options)
        super().__init__(f"google-{self._model}", retries)

    def _complete(self, question: Question, name: str, schema: dict[str, Any], bill: Bill) -> str:
        with failures():
            response = self._generate(question, schema)
            self._count(bill, *tokens_used(response))
            return answer_text(response)

    def _generate(self, question: Question, schema: dict[str, Any]) -> types.GenerateContentResponse:
        pictures = [types.Part.from_bytes(data=p.content, mime_type=p.mime_type) for p in question.pictures]
        return self._client.models.generate_content(
            model=self._model,
            contents=types.Content(role="user", parts=[types.Part.from_text(text=question.material), *pictures]),
            config=types.GenerateContentConfig(
                system_instruction=question.instructions,
                response_mime_type="application/json",
                response_json_schema=schema,
                max_output_tokens=ANSWER_TOKENS_MAX,
            ),
        )

    def _request(self, question: Question, name: str, schema: dict[str, Any]) -> Request:
        pictures = [{"inlineData": {"mimeType": p.mime_type, "data": _base64(p.content)}} for p in question.pictures]
        return {
            "contents": [{"role": "user", "parts": [{"text": question.material}, *pictures]}],
            "systemInstruction": {"parts": [{"text": question.instructions}], "role": "user"},
            "generationConfig": {
                "maxOutputTokens": ANSWER_TOKENS_MAX,
                "responseMimeType": "application/json",
                "responseJsonSchema": schema,
            },
        }

    def _batches(self) -> GeminiBatches:
        return GeminiBatches(self._client, self._model)


def _base64(content: bytes) -> str:
    """URL-safe, as the SDK writes it; Google reads both alphabets."""
    return base64.urlsafe_b64encode(content).decode("ascii")
