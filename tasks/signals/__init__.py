"""Signals: measured properties of images, texts and documents. Each value is measured once and stored.

In: decoded images, texts of conversations, documents (prompts with their images). Out: tables `signals/<name>`, one row
per item and version. The registry is `SIGNAL_ENTRIES` of `schemas/tables.py`. A signal without a provider is a rule: a
module of this folder with the same name, which has `VERSION` and a function of that name. Other folders use the lists
below.
"""

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar

from schemas.row import Row
from schemas.signals import Embedding, Face, Faces, MeasuredOn, Nsfw, Objects, PiiSpan, TextPii, Tokens
from schemas.tables import SIGNAL_ENTRIES
from tasks.images.decode import DecodedImage
from tasks.providers import EMBEDDED, PROVIDERS, Providers
from tasks.providers.capabilities import Document, Failed, RemoteModel, Vectors
from tasks.signals.exercise_names import exercise_names

Item = TypeVar("Item")

RULES = "rules"
"""Provider name of signals that need no model."""


@dataclass(frozen=True)
class Signal(Generic[Item]):
    """A measured property: the function that measures it, and the name and version under which values are stored."""

    name: str
    """Name of the stored table and of the entry in `schemas/tables.py`."""
    version: str
    """Changes with code, model, preprocessing or prompt. Values of another version are measured again."""
    provider: str
    """Name of the chosen provider, `rules`, or the package that brings the signal."""
    measure: Callable[[Sequence[Item]], Sequence[Row | Failed]]
    """Takes a batch of items; returns one value or `Failed` per item, in order."""
    model: RemoteModel | None = None
    """The paid remote model, or None for signals measured locally."""

    def values(self, items: Sequence[Item]) -> list[Row | Failed]:
        """Measure a batch. If `measure` raises, every item of the batch is `Failed`."""
        try:
            measured = list(self.measure(items))
        except Exception as error:  # providers fail in their own ways; the type is safe to report, the text is not
            return [Failed(type(error).__name__)] * len(items)
        if len(measured) != len(items):
            return [Failed("wrong_number_of_values")] * len(items)
        return measured


Make = Callable[[Providers], Signal[Item]]
"""Builds a signal for the chosen providers. Loads no model."""


class _Call(NamedTuple):
    """The provider method to call (see `capabilities.py`) and the function that turns (item, answer) into a row."""

    method: str
    version: str = "1"
    value: Callable[[Any, Any], Row] = lambda item, answer: answer


def _faces(image: DecodedImage, found: list[Face]) -> Faces:
    return Faces(
        faces=found,
        confidence_max=max((face.confidence for face in found), default=0.0),
        area_fraction_max=max(
            (face.box[2] * face.box[3] / (image.width * image.height) for face in found), default=0.0
        ),
    )


def _text_pii(text: str, found: list[PiiSpan]) -> TextPii:
    spans = exercise_names(text, found)
    return TextPii(spans=spans, types=sorted({span.type for span in spans}))


def _embedding(_: object, vector: Vectors) -> Embedding:
    return Embedding(vector=vector.tolist())


_PROVIDED = {
    "nsfw": _Call("nsfw_probabilities", value=lambda _, probability: Nsfw(nsfw_probability=probability)),
    "faces": _Call("find_faces", value=_faces),
    "image_text": _Call("read", version="2"),
    "objects": _Call("find_objects", value=lambda _, names: Objects(names=list(dict.fromkeys(names)))),
    "image_embedding": _Call("embed_images", value=_embedding),
    "image_moderation": _Call("moderate_images"),
    "text_pii": _Call("find_pii", version="3", value=_text_pii),
    "moderation": _Call("moderate"),
    "language": _Call("identify"),
    "text_embedding": _Call("embed_texts", value=_embedding),
    "tokens": _Call("count_tokens", value=lambda _, count: Tokens(tokens=count)),
    "categories": _Call("tag"),
    "criteria": _Call("tag"),
    "taxonomy": _Call("tag"),
    "failure_types": _Call("tag"),
}
"""Signals measured by the provider of the same name."""


def _by_provider(name: str, providers: Providers) -> Signal[Any]:
    call, provider = _PROVIDED[name], providers[name]

    def measure(items: Sequence[Any]) -> list[Row | Failed]:
        answers = getattr(provider, call.method)(items)
        return [a if isinstance(a, Failed) else call.value(item, a) for item, a in zip(items, answers, strict=True)]

    model = getattr(provider, "model", None) if call.method == "tag" else None
    return Signal(name, f"{call.version}+{provider.version}", providers.names[name], measure, model)


def by_rule(name: str) -> Signal[Any]:
    """A signal measured by a function of one item: from the module of that name, or from another package."""
    entry = SIGNAL_ENTRIES[name]
    rule, version = (entry.rule, entry.version) if entry.rule else _own_rule(name)
    return Signal(name, version, entry.package or RULES, lambda items: [rule(item) for item in items])


def _own_rule(name: str) -> tuple[Callable[[Any], Row], str]:
    module = importlib.import_module(f"{__name__}.{name}")
    return getattr(module, name), module.VERSION


def signal_of(name: str, providers: Providers) -> Signal[Any]:
    """Build the signal of this name, from its provider or its rule."""
    return _by_provider(name, providers) if name in _PROVIDED else by_rule(name)


def _on(*parts: MeasuredOn, screens: bool) -> dict[str, Make[Any]]:
    return {
        name: partial(signal_of, name) for name, e in SIGNAL_ENTRIES.items() if e.on in parts and e.screens == screens
    }


def _texts(screens: bool) -> dict[str, tuple[MeasuredOn, Make[str]]]:
    made = _on(MeasuredOn.MESSAGES, MeasuredOn.ASSISTANT_MESSAGES, MeasuredOn.PROMPT, screens=screens)
    return {name: (SIGNAL_ENTRIES[name].on, make) for name, make in made.items()}


_OF_IMAGES: dict[str, Make[DecodedImage]] = _on(MeasuredOn.IMAGES, screens=True)
CHOSEN_IMAGE_SIGNALS = {n: make for n, make in _OF_IMAGES.items() if EMBEDDED not in PROVIDERS.get(n, (EMBEDDED,))}
"""Measured on every image, but only if a provider is chosen: no model for these ships with the install."""
IMAGE_SIGNALS = {name: make for name, make in _OF_IMAGES.items() if name not in CHOSEN_IMAGE_SIGNALS}
"""Measured on every image. Each image is decoded once for all of them."""
ITEM_IMAGE_SIGNALS: dict[str, Make[DecodedImage]] = _on(MeasuredOn.ITEM_IMAGES, screens=False)
"""Measured only on images of kept items of written benchmarks."""
SCREENING_TEXT_SIGNALS = _texts(screens=True)
"""Measured on every text, because policies and duplicate search use them."""
DESCRIPTIVE_TEXT_SIGNALS = _texts(screens=False)
"""Measured only on texts of conversations that the policy keeps."""
DOCUMENT_SIGNALS: dict[str, Make[Document]] = _on(MeasuredOn.DOCUMENTS, screens=False)
"""Measured only on prompts (with their images) of conversations that the policy keeps."""

FAILURE_SIGNALS: dict[str, Make[Document]] = _on(MeasuredOn.FAILURES, screens=False)
"""Measured only if a provider is chosen, on prompts that several people saw models fail."""


def failure_signals(providers: Providers) -> dict[str, Make[Document]]:
    """Those that the chosen providers measure, by name."""
    return {name: make for name, make in FAILURE_SIGNALS.items() if name in providers.names}


def image_signals(providers: Providers) -> dict[str, Signal[DecodedImage]]:
    """Every image signal that the chosen providers measure, by name."""
    chosen = {name: make for name, make in CHOSEN_IMAGE_SIGNALS.items() if name in providers.names}
    return {name: make(providers) for name, make in (IMAGE_SIGNALS | chosen).items()}


def text_signals(providers: Providers) -> dict[str, Signal[str]]:
    """Every text signal, by name."""
    return {name: make(providers) for name, (_, make) in (SCREENING_TEXT_SIGNALS | DESCRIPTIVE_TEXT_SIGNALS).items()}
