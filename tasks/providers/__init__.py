"""Every model and API, behind one Protocol per capability (`capabilities.py`) and chosen by name."""

import importlib
import os
import threading
from collections.abc import Iterable, Mapping
from typing import Any

from schemas.errors import BadInput, MissingProvider, known_values

EMBEDDED = "embedded"
_HERE = "tasks.providers"

PROVIDERS: dict[str, dict[str, str]] = {
    "nsfw": {
        EMBEDDED: "embedded.nsfw:OpenNsfw",
        "google_vision": "production.safe_search:VisionSafeSearch",
        "opennsfw2": "production.opennsfw2:OpenNsfw2",
    },
    "faces": {EMBEDDED: "embedded.faces:CenterFace", "google_vision": "production.faces:VisionFaces"},
    "image_text": {EMBEDDED: "embedded.image_text:RapidOcr", "google_vision": "production.image_text:VisionText"},
    "image_embedding": {
        EMBEDDED: "embedded.image_embedding:EfficientNet",
        "open_clip": "production.openclip:OpenClip",
    },
    "text_embedding": {
        EMBEDDED: "embedded.text_embedding:sentence_encoder",
        "open_clip": "production.openclip:OpenClip",
    },
    "text_pii": {EMBEDDED: "embedded.text_pii:PatternsAndNames"},
    "moderation": {EMBEDDED: "embedded.moderation:OffensiveWords", "openai": "production.moderation:OpenAiModeration"},
    "image_moderation": {"openai": "production.image_moderation:OpenAiImageModeration"},
    "language": {EMBEDDED: "embedded.language:FastText"},
    "tokens": {EMBEDDED: "embedded.tokens:Cl100k"},
    "categories": {
        EMBEDDED: "embedded.categories:WordsAndLayout",
        "gemini": "production.categories:gemini",
        "gemini_each_tag": "production.categories:gemini_each_tag",
        "openai": "production.categories:openai",
        "openai_each_tag": "production.categories:openai_each_tag",
    },
    "criteria": {
        EMBEDDED: "embedded.criteria:Wording",
        "gemini": "production.criteria:gemini",
        "openai": "production.criteria:openai",
    },
    "taxonomy": {
        EMBEDDED: "embedded.taxonomy:NearestPlace",
        "gemini": "production.taxonomy:gemini",
        "openai": "production.taxonomy:openai",
    },
    "topic_names": {
        EMBEDDED: "embedded.topic_names:Keywords",
        "gemini": "production.topic_names:GeminiNamer",
        "openai": "production.topic_names:OpenAiNamer",
    },
}
"""Capability -> provider name -> where its class, or the function that makes it, lives. Without an embedded one it is
there only when chosen."""
OPTIONAL = frozenset({"criteria", "taxonomy"})
"""In no released column: their embedded stand-ins are named in the manifest, and do not make a release a trial."""

_ON_THIS_MACHINE = ("embedded.", "production.openclip:", "production.opennsfw2:")
"""Where models are that take long to load and know nothing of a run."""
_SETTINGS = ("CURATE_", "OPENNSFW2_")
_MODELS: dict[tuple[str, frozenset[tuple[str, str]]], Any] = {}
"""Those loaded in this process, with what is set for them: every flow of a run, the probes' too, uses the same."""
_LOCK = threading.Lock()

_INSTALL = 'it needs the production extra; run: pip install -c constraints.txt -e ".[production]"'


class Providers:
    """The providers chosen for a run, each loaded when first used and shared by all threads.

    A connection to a service is one for each of these; a model on this machine is one for the process.
    """

    def __init__(self, chosen: Mapping[str, str] | None = None) -> None:
        chosen = dict(chosen or {})
        for capability, name in chosen.items():
            if capability not in PROVIDERS:
                raise BadInput(f"unknown capability {known_values(capability, PROVIDERS)}")
            if name not in PROVIDERS[capability]:
                raise BadInput(f"{capability}: unknown provider {known_values(name, PROVIDERS[capability])}")
        self.names = {c: chosen.get(c, EMBEDDED) for c, among in PROVIDERS.items() if c in chosen or EMBEDDED in among}
        self._loaded: dict[str, Any] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        """The same choice in another process, which loads its own."""
        return Providers, (self.names,)

    def __getitem__(self, capability: str) -> Any:
        """The provider of a capability. Raises MissingProvider with the way to get it."""
        path = PROVIDERS[capability][self.names[capability]]
        with _LOCK:
            if path not in self._loaded:
                self._loaded[path] = self._shared(capability, path)
            return self._loaded[path]

    def _shared(self, capability: str, path: str) -> Any:
        if not path.startswith(_ON_THIS_MACHINE):
            return self._load(capability, path)
        key = path, frozenset((name, value) for name, value in os.environ.items() if name.startswith(_SETTINGS))
        if key not in _MODELS:
            _MODELS[key] = self._load(capability, path)
        return _MODELS[key]

    def _load(self, capability: str, path: str) -> Any:
        module, _, name = path.partition(":")
        try:
            return getattr(importlib.import_module(f"{_HERE}.{module}"), name)()
        except ImportError as error:
            chosen = self.names[capability]
            raise MissingProvider(
                f"{capability}: provider {chosen!r} cannot be loaded ({error.name}); {_INSTALL}"
            ) from None

    def paid(self, capabilities: Iterable[str]) -> set[str]:
        """Those whose provider is a service: paid by the call, with a budget and a pace to be kept."""
        return {c for c in capabilities if c in self.names and getattr(self[c], "service", None)}

    @property
    def stand_ins(self) -> list[str]:
        """Capabilities whose embedded provider stands in for a production one that was not chosen."""
        return sorted(
            c for c, name in self.names.items() if name == EMBEDDED and len(PROVIDERS[c]) > 1 and c not in OPTIONAL
        )
