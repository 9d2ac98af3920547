"""Free-text chats with Google's Gemini."""

from collections.abc import Sequence

from google import genai
from google.genai import types

from schemas.asked_model import AskedModel
from tasks.providers.capabilities import Reply
from tasks.providers.production.calls import CallFailed
from tasks.providers.production.chat_model import Turn, VendorChatModel, key_of, reply
from tasks.providers.production.gemini import UNFINISHED, failures, tokens_used
from tasks.providers.production.language_model import settle, timeout_seconds
from tasks.runtime.budget import Bill

ADDRESS = "https://generativelanguage.googleapis.com/"
"""Given explicitly, so that no variable of the SDK's own can redirect prompts."""


class GeminiChatModel(VendorChatModel):
    """Single calls over one connection."""

    def __init__(self, asked: AskedModel) -> None:
        super().__init__(asked)
        options = types.HttpOptions(base_url=asked.base_url or ADDRESS, timeout=int(timeout_seconds() * 1000))
        self._client = genai.Client(api_key=key_of(asked), vertexai=False, http_options=options)

    def _reply(self, turns: Sequence[Turn], bill: Bill) -> Reply:
        contents: list[types.Content] = [_content(turn) for turn in turns if turn.role != "system"]
        config = types.GenerateContentConfig(
            system_instruction="\n\n".join(turn.text for turn in turns if turn.role == "system") or None,
            temperature=self.asked.temperature,
            max_output_tokens=self.asked.answer_tokens_max,
        )
        with failures():
            response = self._client.models.generate_content(model=self.asked.model, contents=contents, config=config)
            input_tokens, output_tokens = tokens_used(response)
            settle(bill, self.service, input_tokens, output_tokens)
            return _said(response, output_tokens)


def _content(turn: Turn) -> types.Content:
    images = [types.Part.from_bytes(data=image.content, mime_type=image.mime_type) for image in turn.images]
    role = "model" if turn.role == "assistant" else "user"
    return types.Content(role=role, parts=[types.Part.from_text(text=turn.text), *images])


def _said(response: types.GenerateContentResponse, output_tokens: int | None) -> Reply:
    """The reply in a response. Raises CallFailed for one that is not usable."""
    if response.prompt_feedback and response.prompt_feedback.block_reason:
        return reply("", "refused", output_tokens)
    if not response.candidates:
        raise CallFailed("malformed_answer")
    if len(response.candidates) > 1:
        raise CallFailed("contradictory_answer")
    reason = response.candidates[0].finish_reason
    text = response.text or ""
    if reason in (types.FinishReason.STOP, types.FinishReason.MAX_TOKENS):
        return reply(text, "complete" if reason == types.FinishReason.STOP else "truncated", output_tokens)
    if reason is None or reason in UNFINISHED:
        raise CallFailed(UNFINISHED[reason] if reason else "unfinished_answer")
    return reply(text, "refused", output_tokens)
