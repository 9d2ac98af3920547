"""Chat models by the entries of a models file: of a judge's, or of an arena's."""

import importlib

from schemas.asked_model import ArenaModel, AskedModel
from schemas.errors import MissingProvider
from tasks.providers.capabilities import ChatModel, StreamingModel

_CLASSES = {
    "embedded": "tasks.providers.embedded.scenes.bench_models:SceneModel",
    "anthropic": "tasks.providers.production.anthropic.chat_model:AnthropicChatModel",
    "openai": "tasks.providers.production.openai.chat_model:OpenAiChatModel",
    "gemini": "tasks.providers.production.google.gemini_chat_model:GeminiChatModel",
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


def streaming_model(served: ArenaModel) -> StreamingModel:
    """A connection to a model of an arena. Raises MissingProvider without the package or without a key."""
    try:
        module = importlib.import_module("tasks.providers.production.openai.streamed")
    except ImportError as error:
        raise MissingProvider(
            f"the arena's models cannot be asked ({error.name} is not installed); run: "
            '.venv/bin/uv pip install -c constraints.txt -e ".[arena]"'
        ) from None
    made: StreamingModel = module.OpenAiStream(served)
    return made
