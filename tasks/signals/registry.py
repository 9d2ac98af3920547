"""Registry of signals: one line says by which function a signal is measured, and in which version.

The function of a model asks its provider about a batch and makes the values. A provider says of one item that it
`Failed`; one that raises fails the whole batch (`Signal.values`).

`SIGNAL_ENTRIES` says what each is measured on, when, and what its value holds; signals of other packages stand there
with their rule. A new signal of this repository is one line in each (docs/extending.md).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from schemas.errors import CurateError
from schemas.row import Row
from schemas.signals import (
    Embedding,
    Face,
    Faces,
    ImageText,
    Language,
    MeasuredOn,
    Moderation,
    NamedEntities,
    Nsfw,
    Objects,
    PiiSpan,
    Refusal,
    TextBox,
    TextPii,
    Tokens,
)
from schemas.tables import SIGNAL_ENTRIES
from tasks.images.decode import DecodedImage
from tasks.images.measures import (
    IMAGE_COLOUR_VERSION,
    IMAGE_INSIDE_VERSION,
    IMAGE_LAYOUT_VERSION,
    codes_in,
    image_colour,
    image_hashes,
    image_inside,
    image_layout,
)
from tasks.providers import PROVIDERS, Providers
from tasks.providers.capabilities import (
    Document,
    EntityCounter,
    FaceFinder,
    Failed,
    ImageEmbedder,
    ImageModerator,
    LanguageIdentifier,
    Moderator,
    NsfwClassifier,
    ObjectFinder,
    PiiFinder,
    RefusalFinder,
    RemoteModel,
    Tagger,
    TextEmbedder,
    TextReader,
    TokenCounter,
)
from tasks.runtime.arrays import Vectors
from tasks.signals.rules import texts
from tasks.signals.rules.texts import exercise_names

_Item = TypeVar("_Item")
_Answer = TypeVar("_Answer")
_Value = TypeVar("_Value", bound=Row)
_Images = Sequence[DecodedImage]
_Texts = Sequence[str]


def nsfw(model: NsfwClassifier, images: _Images) -> list[Nsfw | Failed]:
    """How likely each image is pornographic."""
    return _each(images, model.nsfw_probabilities(images), lambda _, share: Nsfw(nsfw_probability=share))


def faces_of_images(model: FaceFinder, images: _Images) -> list[Faces | Failed]:
    """Faces of each image, and the most certain and the largest of them."""
    return _each(images, model.find_faces(images), _faces)


def _faces(image: DecodedImage, faces: list[Face]) -> Faces:
    pixels = image.width * image.height
    return Faces(
        faces=faces,
        confidence_max=max((face.confidence for face in faces), default=0.0),
        area_fraction_max=max((face.box[2] * face.box[3] / pixels for face in faces), default=0.0),
    )


def image_text(model: TextReader, images: _Images) -> list[ImageText | Failed]:
    """Text read in each image, and below it what its QR and bar codes hold."""
    return _each(images, model.read(images), _with_codes)


def _with_codes(image: DecodedImage, read: ImageText) -> ImageText:
    text, boxes = read.text, list(read.boxes)
    for code in codes_in(image):
        text = f"{text}\n{code.text}" if text else code.text
        boxes.append(TextBox(box=code.box, start=len(text) - len(code.text), end=len(text)))
    return read.model_copy(update={"text": text, "boxes": boxes})


def objects(model: ObjectFinder, images: _Images) -> list[Objects | Failed]:
    """Names of the objects in each image, each once."""
    return _each(images, model.find_objects(images), lambda _, names: Objects(names=list(dict.fromkeys(names))))


def image_embedding(model: ImageEmbedder, images: _Images) -> list[Embedding | Failed]:
    """Unit vector of each image."""
    return _each(images, list(model.embed_images(images)), _embedding)


def image_moderation(model: ImageModerator, images: _Images) -> Sequence[Moderation | Failed]:
    """How harmful each image is."""
    return model.moderate_images(images)


def text_pii(model: PiiFinder, texts: _Texts) -> list[TextPii | Failed]:
    """Personal data in each text; names that an exercise makes up are told from names of people."""

    def spans(text: str, pii_spans: list[PiiSpan]) -> TextPii:
        named = exercise_names(text, pii_spans)
        return TextPii(spans=named, types=sorted({span.type for span in named}))

    return _each(texts, model.find_pii(texts), spans)


def moderation(model: Moderator, texts: _Texts) -> Sequence[Moderation | Failed]:
    """How harmful each text is."""
    return model.moderate(texts)


def language(model: LanguageIdentifier, texts: _Texts) -> Sequence[Language | Failed]:
    """Language of each text."""
    return model.identify(texts)


def refusal(model: RefusalFinder, texts: _Texts) -> list[Refusal | Failed]:
    """Whether each answer refuses."""
    return _each(texts, model.refuses(texts), lambda _, is_refusal: Refusal(refusal=is_refusal))


def named_entities(model: EntityCounter, texts: _Texts) -> list[NamedEntities | Failed]:
    """Number of named entities of each text."""
    return _each(texts, model.count_entities(texts), lambda _, count: NamedEntities(entities=count))


def text_embedding(model: TextEmbedder, texts: _Texts) -> list[Embedding | Failed]:
    """Unit vector of each text."""
    return _each(texts, list(model.embed_texts(texts)), _embedding)


def _embedding(_: object, vector: Vectors) -> Embedding | Failed:
    return Embedding(vector=vector.tolist()) if vector.any() else Failed("zero_vector")


def tokens(model: TokenCounter, texts: _Texts) -> list[Tokens | Failed]:
    """Number of tokens of each text."""
    return _each(texts, model.count_tokens(texts), lambda _, count: Tokens(tokens=count))


def labels(model: Tagger, documents: Sequence[Document]) -> Sequence[Row | Failed]:
    """Labels of each document."""
    return model.tag(documents)


def _each(
    items: Sequence[_Item], answers: Sequence[_Answer | Failed], value: Callable[[_Item, _Answer], _Value | Failed]
) -> list[_Value | Failed]:
    """Values of the items from the provider's answers, in order; a failed answer stays `Failed`."""
    return [a if isinstance(a, Failed) else value(item, a) for item, a in zip(items, answers, strict=True)]


Item = TypeVar("Item")

RULES_PROVIDER = "rules"
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
    "nsfw": ByModel(nsfw),
    "faces": ByModel(faces_of_images),
    "image_hash": ByRule(image_hashes, "3"),
    "image_colour": ByRule(image_colour, IMAGE_COLOUR_VERSION),
    "image_inside": ByRule(image_inside, IMAGE_INSIDE_VERSION),
    "image_layout": ByRule(image_layout, IMAGE_LAYOUT_VERSION),
    "image_text": ByModel(image_text, "3"),
    "image_embedding": ByModel(image_embedding),
    "image_moderation": ByModel(image_moderation),
    "objects": ByModel(objects),
    "text_pii": ByModel(text_pii, "3"),
    "moderation": ByModel(moderation),
    "service_text": ByRule(texts.service_text, texts.SERVICE_TEXT_VERSION),
    "model_names": ByRule(texts.model_names, texts.MODEL_NAMES_VERSION),
    "upstream_words": ByRule(texts.upstream_words, texts.UPSTREAM_WORDS_VERSION),
    "language": ByModel(language),
    "text_embedding": ByModel(text_embedding),
    "tokens": ByModel(tokens),
    "markdown": ByRule(texts.markdown, texts.MARKDOWN_VERSION),
    "named_entities": ByModel(named_entities),
    "code": ByRule(texts.code, texts.CODE_VERSION),
    "refusal": ByModel(refusal),
    "categories": ByModel(labels),
    "criteria": ByModel(labels),
    "taxonomy": ByModel(labels),
    "failure_types": ByModel(labels),
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
        """Measure a batch. If `measure` raises, every item of the batch is `Failed`; one whose value has NaN is, alone.

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
        return [value if _is_finite(value) else Failed("not_a_number") for value in measured]


def _is_finite(value: Any) -> bool:
    """Whether no number of a value is NaN or infinite, also inside its lists and rows."""
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, list):
        return all(map(_is_finite, value))
    return not isinstance(value, Row) or all(_is_finite(number) for _, number in value)


def signal_of(name: str, providers: Providers) -> Signal[Any]:
    """The signal of this name as the chosen providers measure it. Loads no model."""
    entry = SIGNAL_ENTRIES[name]
    by = ByRule(entry.rule, entry.version) if entry.rule else REGISTRY[name]
    if isinstance(by, ByRule):
        return Signal(
            name, by.version, entry.package or RULES_PROVIDER, lambda items: [by.measure(item) for item in items]
        )
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
