"""Registry of signals: one line says by which function a signal is measured, and in which version.

`SIGNAL_ENTRIES` says what each is measured on, when, and what its value holds; signals of other packages stand there
with their rule. A new signal of this repository is one line in each (docs/extending.md).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from schemas.errors import CurateError
from schemas.row import Row
from schemas.signals import MeasuredOn
from schemas.tables import SIGNAL_ENTRIES
from tasks.images.decode import DecodedImage
from tasks.images.hashes import image_hashes
from tasks.providers import PROVIDERS, Providers
from tasks.providers.capabilities import Failed, RemoteModel
from tasks.signals import models
from tasks.signals.rules import (
    code,
    image_layout,
    markdown,
    model_names,
    service_text,
    upstream_words,
)

Item = TypeVar("Item")

RULES = "rules"
"""Provider name of signals that need no model."""


class ByRule(NamedTuple):
    """A signal that a function measures, one item at a time."""

    measure: Callable[[Any], Row]
    version: str


class ByModel(NamedTuple):
    """A signal that the provider of its name measures; its stored version ends in the provider's."""

    measure: Callable[[Any, Sequence[Any]], Sequence[Row | Failed]]
    version: str = "1"


REGISTRY: dict[str, ByRule | ByModel] = {
    "nsfw": ByModel(models.nsfw),
    "faces": ByModel(models.faces_of_images),
    "image_hash": ByRule(image_hashes, "3"),
    "image_layout": ByRule(image_layout.image_layout, image_layout.VERSION),
    "image_text": ByModel(models.image_text, "3"),
    "image_embedding": ByModel(models.image_embedding),
    "image_moderation": ByModel(models.image_moderation),
    "objects": ByModel(models.objects),
    "text_pii": ByModel(models.text_pii, "3"),
    "moderation": ByModel(models.moderation),
    "service_text": ByRule(service_text.service_text, service_text.VERSION),
    "model_names": ByRule(model_names.model_names, model_names.VERSION),
    "upstream_words": ByRule(upstream_words.upstream_words, upstream_words.VERSION),
    "language": ByModel(models.language),
    "text_embedding": ByModel(models.text_embedding),
    "tokens": ByModel(models.tokens),
    "markdown": ByRule(markdown.markdown, markdown.VERSION),
    "named_entities": ByModel(models.named_entities),
    "code": ByRule(code.code, code.VERSION),
    "refusal": ByModel(models.refusal),
    "categories": ByModel(models.labels),
    "criteria": ByModel(models.labels),
    "taxonomy": ByModel(models.labels),
    "failure_types": ByModel(models.labels),
}
"""Signal -> what measures it. A changed function needs another version, so that stored values are measured again."""

_TAGGED = (MeasuredOn.DOCUMENTS, MeasuredOn.FAILURES)
_TEXTS = (MeasuredOn.MESSAGES, MeasuredOn.ASSISTANT_MESSAGES, MeasuredOn.PROMPT)


@dataclass(frozen=True)
class Signal(Generic[Item]):
    """A measured property: the function that measures it, and the name and version under which values are stored."""

    name: str
    """Name of the stored table and of the entry in `schemas/signals.py`."""
    version: str
    """Changes with code, model, preprocessing or prompt. Values of another version are measured again."""
    provider: str
    """Name of the chosen provider, `rules`, or the package that brings the signal."""
    measure: Callable[[Sequence[Item]], Sequence[Row | Failed]]
    """Takes a batch of items; returns one value or `Failed` per item, in order."""
    model: RemoteModel | None = None
    """The paid remote model, or None for signals measured locally."""

    def values(self, items: Sequence[Item]) -> list[Row | Failed]:
        """Measure a batch. If `measure` raises, every item of the batch is `Failed`.

        Raises CurateError where the model itself cannot be used, such as on a worker without the card it needs.
        """
        try:
            measured = list(self.measure(items))
        except CurateError:
            raise
        except Exception as error:  # providers fail in their own ways; the type is safe to report, the text is not
            return [Failed(type(error).__name__)] * len(items)
        if len(measured) != len(items):
            return [Failed("wrong_number_of_values")] * len(items)
        return measured


def signal_of(name: str, providers: Providers) -> Signal[Any]:
    """The signal of this name as the chosen providers measure it. Loads no model."""
    entry = SIGNAL_ENTRIES[name]
    by = ByRule(entry.rule, entry.version) if entry.rule else REGISTRY[name]
    if isinstance(by, ByRule):
        return Signal(name, by.version, entry.package or RULES, lambda items: [by.measure(item) for item in items])
    provider = providers[name]
    remote = getattr(provider, "model", None) if entry.on in _TAGGED else None
    version = f"{by.version}+{provider.version}"
    return Signal(name, version, providers.names[name], lambda items: by.measure(provider, items), remote)


def chosen_signals(providers: Providers, *on: MeasuredOn, screens: bool) -> dict[str, Signal[Any]]:
    """Signals of one pass measured on these parts, by name; none whose capability has no chosen provider.

    `screens`: those measured on everything, because policies and duplicate search use them; otherwise those measured
    only on what the policy keeps.
    """
    return {
        name: signal_of(name, providers)
        for name, entry in SIGNAL_ENTRIES.items()
        if entry.on in on and entry.screens == screens and (name in providers.names or name not in PROVIDERS)
    }


def image_signals(providers: Providers) -> dict[str, Signal[DecodedImage]]:
    """Every image signal that the chosen providers measure, by name. Each image is decoded once for all of them."""
    return chosen_signals(providers, MeasuredOn.IMAGES, screens=True)


def text_signals(providers: Providers) -> dict[str, Signal[str]]:
    """Every text signal, by name; first those that screen."""
    return chosen_signals(providers, *_TEXTS, screens=True) | chosen_signals(providers, *_TEXTS, screens=False)
