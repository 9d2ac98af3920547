"""Chat models by the entries of a models file."""

import importlib

from schemas.asked_model import AskedModel
from schemas.errors import MissingProvider
from tasks.providers.capabilities import ChatModel

_CLASSES = {
    "anthropic": "tasks.providers.production.anthropic.chat_model:AnthropicChatModel",
    "openai": "tasks.providers.production.openai.chat_model:OpenAiChatModel",
    "gemini": "tasks.providers.production.gemini_chat_model:GeminiChatModel",
}


def chat_model(asked: AskedModel) -> ChatModel:
    """A connection to the model. Raises MissingProvider without the vendor's package or without a key."""
    module, _, name = _CLASSES[asked.vendor].partition(":")
    try:
        made: ChatModel = getattr(importlib.import_module(module), name)(asked)
    except ImportError as error:
        raise MissingProvider(
            f"model {asked.name!r}: vendor {asked.vendor} cannot be loaded ({error.name}); it needs the production "
            'extra; run: pip install -c constraints.txt -e ".[production]"'
        ) from None
    return made
