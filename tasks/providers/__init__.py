"""Models and APIs, chosen by name, behind one Protocol per capability (`capabilities.py`).

In: `--provider CAPABILITY=NAME`, or CAPABILITY=module:Class for a class of another package. Out: an object that
implements the capability's Protocol.
"""

import importlib
import os
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from schemas.asked_model import AskedModel
from schemas.errors import BadInput, MissingProvider, known_values
from tasks.providers.capabilities import MAKERS as MAKERS
from tasks.providers.capabilities import PROTOCOLS
from tasks.providers.chat import chat_model
from tasks.providers.foreign import Foreign, foreign, lacks
from tasks.runtime.yaml_files import read_yaml

EMBEDDED = "embedded"
PROVIDERS: dict[str, dict[str, str]] = read_yaml(Path(__file__).with_name("providers.yaml"))
"""Capability -> provider name -> import path of its class."""
EMBEDDED_RECALL: dict[str, str] = read_yaml(Path(__file__).with_name("embedded_recall.yaml"))
"""Capability with a stand-in -> what its embedded model was measured to find, one line."""
OPTIONAL = frozenset({"criteria", "objects"})
"""Capabilities whose embedded model has no released column: it is in the manifest but does not block publishing."""

_LOCAL = ("embedded.", "production.local.")
"""Models that run on this machine. They are loaded once per process and shared by all runs in it."""
_SETTINGS = ("CURATE_", "OPENNSFW2_")
_MODELS: dict[tuple[str, frozenset[tuple[str, str]]], Any] = {}
"""Loaded models by import path and the environment variables they were loaded with."""
_LOCK = threading.Lock()


class Providers:
    """The providers chosen for a run, each loaded when first used and shared by all threads.

    Each instance has its own connections to services. Local models and providers of other packages are shared by the
    process.
    """

    def __init__(self, chosen: Mapping[str, str] | None = None) -> None:
        chosen = dict(chosen or {})
        for capability, name in chosen.items():
            if capability not in PROVIDERS:
                raise BadInput(f"unknown capability {known_values(capability, PROVIDERS)}")
            if name not in PROVIDERS[capability] and ":" not in name:
                raise BadInput(
                    f"{capability}: unknown provider {known_values(name, PROVIDERS[capability])} Name one of another "
                    "package as my_package.module:Class."
                )
        self.names = {c: chosen.get(c, EMBEDDED) for c, among in PROVIDERS.items() if c in chosen or EMBEDDED in among}
        self._loaded: dict[str, Any] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles the names only; another process loads its own providers."""
        return Providers, (self.names,)

    def __getitem__(self, capability: str) -> Any:
        """The provider of a capability. Raises MissingProvider or BadInput."""
        name = self.names[capability]
        path = PROVIDERS[capability].get(name)
        with _LOCK:
            if path is None:
                return _foreign_for(capability, name)
            if path.startswith(_LOCAL):
                return _once_per_process(path, lambda: _own(capability, name, path))
            if path not in self._loaded:
                self._loaded[path] = _own(capability, name, path)
            return self._loaded[path]

    def paid(self, capabilities: Iterable[str]) -> set[str]:
        """Capabilities whose provider is a paid service, with a budget and rate limits."""
        return {c for c in capabilities if c in self.names and getattr(self[c], "service", None)}

    @property
    def stand_ins(self) -> list[str]:
        """Capabilities with an embedded provider although production ones exist."""
        return sorted(
            c
            for c, name in self.names.items()
            if name == EMBEDDED and len(PROVIDERS[c]) > 1 and c not in OPTIONAL | MAKERS
        )


def _once_per_process(path: str, load: Callable[[], Any]) -> Any:
    """The result of `load`, cached by path and current settings."""
    key = path, frozenset((name, value) for name, value in os.environ.items() if name.startswith(_SETTINGS))
    if key not in _MODELS:
        _MODELS[key] = load()
    return _MODELS[key]


def _own(capability: str, name: str, path: str, *asked: Any) -> Any:
    """A provider of this package: each step of the path is called with the result of the previous one."""
    made = list(asked)
    try:
        for step in path.split(" -> "):
            module, _, attribute = step.partition(":")
            made = [getattr(importlib.import_module(f"{__name__}.{module}"), attribute)(*made)]
    except ImportError as error:
        raise MissingProvider(
            f"{capability}: provider {name!r} cannot be loaded ({error.name}); it needs the production extra; run: "
            '.venv/bin/uv pip install -c constraints.txt -e ".[production]"'
        ) from None
    return made[0]


def _foreign_for(capability: str, name: str) -> Foreign:
    """A provider of another package, loaded once per process. Raises BadInput when it lacks a method."""
    provider: Foreign = _once_per_process(name, lambda: foreign(capability, name, token_count))
    if missing := lacks(capability, provider):
        protocol = PROTOCOLS[capability].__name__
        raise BadInput(
            f"{capability}: provider {name!r} does not implement {protocol}: it lacks {', '.join(missing)}; see "
            "docs/extending.md"
        )
    return provider


def by_model(capability: str, asked: AskedModel) -> Providers:
    """The embedded providers, but the model of a models file for this capability.

    Raises BadInput when no provider of the capability asks models of its vendor, and as `chat_model` does.
    """
    providers = Providers({capability: asked.vendor})
    path = PROVIDERS[capability][asked.vendor]
    asking = path.partition(" -> ")[2]
    if not asking:
        raise BadInput(f"model {asked.name!r}: {capability} is not asked of vendor {asked.vendor}; give another entry")
    providers._loaded[path] = _own(capability, asked.vendor, asking, chat_model(asked))
    return providers


def token_count(text: str) -> int:
    """Tokens of a text, by the shipped tokenizer."""
    return int(Providers()["tokens"].count_tokens([text])[0])
