"""Signals that a model measures: each function asks its provider about a batch and makes the values.

A provider says of one item that it `Failed`; one that raises fails the whole batch (`registry.py: Signal.values`).
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

from schemas.row import Row
from schemas.signals import (
    Embedding,
    Face,
    Faces,
    ImageText,
    Language,
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
from tasks.images.codes import codes_in
from tasks.images.decode import DecodedImage
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
    Tagger,
    TextEmbedder,
    TextReader,
    TokenCounter,
)
from tasks.signals.rules.exercise_names import exercise_names

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


def _faces(image: DecodedImage, found: list[Face]) -> Faces:
    pixels = image.width * image.height
    return Faces(
        faces=found,
        confidence_max=max((face.confidence for face in found), default=0.0),
        area_fraction_max=max((face.box[2] * face.box[3] / pixels for face in found), default=0.0),
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
    return _each(images, list(model.embed_images(images)), lambda _, vector: Embedding(vector=vector.tolist()))


def image_moderation(model: ImageModerator, images: _Images) -> Sequence[Moderation | Failed]:
    """How harmful each image is."""
    return model.moderate_images(images)


def text_pii(model: PiiFinder, texts: _Texts) -> list[TextPii | Failed]:
    """Personal data in each text; names that an exercise makes up are told from names of people."""

    def spans(text: str, found: list[PiiSpan]) -> TextPii:
        named = exercise_names(text, found)
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
    return _each(texts, model.refuses(texts), lambda _, said: Refusal(refusal=said))


def named_entities(model: EntityCounter, texts: _Texts) -> list[NamedEntities | Failed]:
    """Number of named entities of each text."""
    return _each(texts, model.count_entities(texts), lambda _, count: NamedEntities(entities=count))


def text_embedding(model: TextEmbedder, texts: _Texts) -> list[Embedding | Failed]:
    """Unit vector of each text."""
    return _each(texts, list(model.embed_texts(texts)), lambda _, vector: Embedding(vector=vector.tolist()))


def tokens(model: TokenCounter, texts: _Texts) -> list[Tokens | Failed]:
    """Number of tokens of each text."""
    return _each(texts, model.count_tokens(texts), lambda _, count: Tokens(tokens=count))


def labels(model: Tagger, documents: Sequence[Document]) -> Sequence[Row | Failed]:
    """Labels of each document."""
    return model.tag(documents)


def _each(
    items: Sequence[_Item], answers: Sequence[_Answer | Failed], value: Callable[[_Item, _Answer], _Value]
) -> list[_Value | Failed]:
    """Values of the items from the provider's answers, in order; a failed answer stays `Failed`."""
    return [a if isinstance(a, Failed) else value(item, a) for item, a in zip(items, answers, strict=True)]
