"""Models and APIs, chosen by name, behind one Protocol per capability (`capabilities.py`).

In: `--provider CAPABILITY=NAME`, or CAPABILITY=module:Class for a class of another package. Out: an object that
implements the capability's Protocol.
"""

import importlib
import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from typing_extensions import get_protocol_members

from schemas.asked_model import AskedModel
from schemas.errors import BadInput, CurateError, MissingProvider, install_command, known_values
from schemas.run import Use
from tasks.providers.capabilities import CAPABILITY_TYPES, Failed
from tasks.providers.capabilities import MAKERS as MAKERS
from tasks.providers.chat import chat_model
from tasks.providers.cost import Count, estimate_row, expected_use, size_of
from tasks.runtime.budget import ledger
from tasks.runtime.untrusted import read_yaml

_MEASURES = frozenset(
    name
    for capability in CAPABILITY_TYPES.keys() - MAKERS
    for name in get_protocol_members(CAPABILITY_TYPES[capability])
)
"""Methods that take a batch of items, and attributes."""
BatchWork = Callable[[Sequence[Any]], Sequence[Any]]
EMBEDDED = "embedded"
PROVIDERS: dict[str, dict[str, str]] = read_yaml(Path(__file__).with_name("providers.yaml"))
"""Capability -> provider name -> import path of its class."""
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
                provider: Foreign = _once_per_process(name, lambda: foreign(capability, name, token_count))
                if missing := lacks(capability, provider):
                    raise BadInput(
                        f"{capability}: provider {name!r} does not implement {CAPABILITY_TYPES[capability].__name__}: "
                        f"it lacks {', '.join(missing)}; see docs/extending.md"
                    )
                return provider
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


def _own(capability: str, name: str, path: str, *first_arguments: Any) -> Any:
    """A provider of this package: each step of the path is called with the result of the previous one."""
    arguments = list(first_arguments)
    try:
        for step in path.split(" -> "):
            module, _, attribute = step.partition(":")
            arguments = [getattr(importlib.import_module(f"{__name__}.{module}"), attribute)(*arguments)]
    except ImportError as error:
        raise MissingProvider(
            f"{capability}: provider {name!r} cannot be loaded ({error.name}); it needs the production extra; run: "
            + install_command("production")
        ) from None
    return arguments[0]


def by_model(capability: str, model: AskedModel) -> Providers:
    """The embedded providers, but the model of a models file for this capability.

    Raises BadInput when no provider of the capability asks models of its vendor, and as `chat_model` does.
    """
    providers = Providers({capability: model.vendor})
    path = PROVIDERS[capability][model.vendor]
    asking = path.partition(" -> ")[2]
    if not asking:
        raise BadInput(f"model {model.name!r}: {capability} is not asked of vendor {model.vendor}; give another entry")
    providers._loaded[path] = _own(capability, model.vendor, asking, chat_model(model))
    return providers


def token_count(text: str) -> int:
    """Tokens of a text, by the shipped tokenizer."""
    return int(Providers()["tokens"].count_tokens([text])[0])


class Foreign:
    """A provider of another package. Its version starts with its name, so that signals of two are never mixed."""

    def __init__(self, name: str, provider: Any, count: Count) -> None:
        self._provider, self._count = provider, count
        self._says_its_cost = hasattr(provider, "service") and hasattr(provider, "expected_use")
        self.version = f"{name}-{version}" if (version := getattr(provider, "version", "")) else ""

    def __getattr__(self, name: str) -> Any:
        member = getattr(self._provider, name)
        return self._billed(member) if self._says_its_cost and name in _MEASURES and callable(member) else member

    def _billed(self, measure: BatchWork) -> BatchWork:
        """A method whose calls are reserved at their highest price, which stays unconfirmed: no service counts it."""

        def work(items: Sequence[Any]) -> Sequence[Any]:
            use = expected_use(self, [size_of(item) for item in items], self._count)
            cost = estimate_row(self.service, "", len(items), use, ledger().prices)
            bill = ledger().reserve(self.service, cost.usd_most)
            if bill is None:
                return [Failed("budget_reached")] * len(items)
            with bill:
                bill.settle(Use(calls=use.calls, units=use.units, usd_unconfirmed=cost.usd_most or 0.0))
                return measure(items)

        return work


def foreign(capability: str, name: str, count: Count) -> Foreign:
    """A provider of another package. Exceptions of its code become MissingProvider or BadInput."""
    which = f"{capability}: provider {name!r}"
    module, _, attribute = name.partition(":")
    try:
        make = getattr(importlib.import_module(module), attribute, None)
        if make is None:
            raise BadInput(f"{which}: module {module!r} has no {attribute!r}; give my_package.module:Class")
        return Foreign(name, make(), count)
    except CurateError:
        raise
    except ImportError as error:
        raise MissingProvider(
            f"{which}: no module {error.name!r} here; install its package in this environment, or add its folder to "
            "PYTHONPATH"
        ) from None
    except Exception as error:  # only the type is shown, because the text may quote a key
        raise BadInput(
            f"{which} cannot be created ({type(error).__name__}); check that {module} imports and {attribute}() works"
        ) from None


def lacks(capability: str, provider: object) -> list[str]:
    """Members of the capability's Protocol that the provider lacks or has empty."""
    members = get_protocol_members(CAPABILITY_TYPES[capability])
    return sorted(name for name in members if getattr(provider, name, None) in (None, ""))


KEY_VARIABLES = {"openai": "OPENAI_API_KEY", "gemini": "GEMINI_API_KEY"}
"""Vendor among several -> the variable of the environment with its key."""


def model_set(models: str, makers: bool = False) -> dict[str, str]:
    """Capability -> provider. With `makers`, also of those that only make benchmarks."""
    sets: dict[str, dict[str, str | list[str]]] = read_yaml(Path(__file__).with_name("model_sets.yaml"))
    return {
        capability: among
        if isinstance(among, str)
        else next((n for n in among if os.environ.get(KEY_VARIABLES[n])), among[0])
        for capability, among in sets.get(models, {}).items()
        if makers or capability not in MAKERS
    }
