"""Hosted language models by their entries in a models file: of a judge's, or of an arena's."""

import importlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from schemas.asked_model import ANSWER_TOKENS_MAX, ArenaModel, AskedModel, is_own_server
from schemas.errors import MissingProvider, install_command
from tasks.providers.capabilities import ChatModel, StreamingModel

_OPENAI = "tasks.providers.production.openai.model:OpenAiModel"
_CLASSES = {
    "embedded": "tasks.providers.embedded.scenes.viewer:SceneModel",
    "anthropic": "tasks.providers.production.anthropic.model:AnthropicModel",
    "openai": _OPENAI,
    "gemini": "tasks.providers.production.google.gemini:GeminiModel",
}


@dataclass(frozen=True)
class Endpoint:
    """Where a hosted model is, and how it is asked."""

    model: str
    """The server's own name of the model."""
    version: str
    """Changes with anything that may change the model's answers."""
    service: str
    """Name in the price file, and in the record of use."""
    key: str = field(repr=False)
    """The key itself."""
    base_url: str = ""
    """Address of the server; empty for the vendor's."""
    self_hosted: bool = False
    """Whether the server is not the vendor's."""
    system: str = ""
    """System prompt of chats that have none; empty for none."""
    temperature: float | None = None
    """None leaves it to the server."""
    top_p: float | None = None
    """None leaves it to the server."""
    answer_tokens_max: int = ANSWER_TOKENS_MAX
    """Limit of an answer in tokens, thinking included."""
    limit_key: str = ""
    """Name under which the server takes that limit; by default what such servers take."""
    extra_body: Mapping[str, Any] = field(default_factory=dict)
    """Further keys of a request."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Further headers of a request."""


def chat_model(model: AskedModel) -> ChatModel:
    """A connection to the model. Raises MissingProvider without the vendor's package or without a key."""
    make = _imported(
        _CLASSES[model.vendor], f"model {model.name!r}: vendor {model.vendor} cannot be loaded", "production"
    )
    connection: ChatModel = make(model if model.vendor == "embedded" else _endpoint(model))
    return connection


def streaming_model(served: ArenaModel) -> StreamingModel:
    """A connection to a model of an arena. Raises MissingProvider without the package or without a key."""
    connection: StreamingModel = _imported(_OPENAI, "the arena's models cannot be asked", "arena")(_served_at(served))
    return connection


def _imported(path: str, failed: str, extra: str) -> Callable[[Any], Any]:
    module, _, name = path.partition(":")
    try:
        model_class: Callable[[Any], Any] = getattr(importlib.import_module(module), name)
    except ImportError as error:
        raise MissingProvider(
            f"{failed} ({error.name} is not installed); it needs the {extra} extra; run: {install_command(extra)}"
        ) from None
    return model_class


def _endpoint(asked_model: AskedModel) -> Endpoint:
    key_source = asked_model.key_told if asked_model.key_variable else ""
    return Endpoint(
        model=asked_model.model,
        version=asked_model.version,
        service=asked_model.service,
        key=_key(asked_model.name, asked_model.key_variable, key_source),
        base_url=asked_model.base_url or "",
        self_hosted=asked_model.self_hosted,
        system=asked_model.system,
        temperature=asked_model.temperature,
        answer_tokens_max=asked_model.answer_tokens_max,
    )


def _served_at(served: ArenaModel) -> Endpoint:
    service = f"openai-{served.asked_as}"
    return Endpoint(
        model=served.asked_as,
        version=service,
        service=service,
        key=_key(served.name, served.key, "the variable that its `key` names"),
        base_url=served.base_url,
        self_hosted=is_own_server(served.base_url),
        temperature=served.temperature,
        top_p=served.top_p,
        answer_tokens_max=served.answer_tokens_max,
        limit_key=served.limit_key or "",
        extra_body=served.extra_body,
        headers={
            name: _key(served.name, variable, f"the variable of its header {name!r}")
            for name, variable in served.headers.items()
        },
    )


def _key(name: str, variable: str | None, key_source: str) -> str:
    """The key; `none` for a server that needs none. Raises MissingProvider when the variable is not set."""
    key = os.environ.get(variable, "") if variable else "none"
    if not key:
        raise MissingProvider(f"model {name!r}: {key_source} is not set; export the model's key in it")
    return key
