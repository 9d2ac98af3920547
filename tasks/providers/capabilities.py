"""Abilities of a provider: one Protocol per capability.

Every method takes a batch and returns one entry per item, in order: the value, or `Failed` when the item could not be
measured (refused, timed out, over quota). A provider that cannot work at all raises; the caller then counts every item
of the batch as failed. `version` changes with weights, preprocessing or prompt, because stored signals are keyed by it.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

from schemas.benches.generated import Capability, GeneratedAspect, Level
from schemas.benches.generated_results import Solved, WrittenAspects, WrittenChecks, WrittenDescription, WrittenQuestion
from schemas.items.topic import FEW_WORDS
from schemas.row import Row
from schemas.signals import Face, ImageText, Language, Moderation, PiiSpan
from tasks.images.decode import DecodedImage
from tasks.runtime.arrays import Vectors
from tasks.storage.tables import Store


@dataclass(frozen=True)
class Failed:
    """One item was not measured. The reason is one of our own words, never text from the item."""

    reason: str


@dataclass(frozen=True)
class Document:
    """A prompt with its images, as taggers get it."""

    document_id: str
    """Content id."""
    prompt: str
    """All user messages, joined by blank lines."""
    image_count: int
    """Number of images."""
    images: tuple[tuple[str, bytes], ...]
    """(png or jpeg, encoded image without metadata); empty unless the tagger has `looks_at_images`."""
    image_text: str
    """Text read in the images; empty when there is none."""
    flat_fraction: float
    """Largest share of one flat colour among the images (see `ImageLayout`); 0 without images."""
    colour_count: int
    """Fewest colours among the images (see `ImageLayout`); 0 without images."""
    text_area_fraction: float = 0.0
    """Largest share of an image's area that text covers; 0 without images."""
    image_vectors: tuple[Vectors, ...] = field(default=(), compare=False)
    """float32 (dimension,) per image, by the run's image embedder; empty unless the tagger has `looks_at_vectors`."""


@dataclass(frozen=True)
class TopicEvidence:
    """Keywords and examples of a topic, from which it is named."""

    keywords: tuple[str, ...]
    """Class TF-IDF words, strongest first."""
    exemplars: tuple[str, ...]
    """Prompts nearest to the topic's centre."""
    tags: tuple[str, ...] = ()
    """Tags and taxonomy of at least half of its documents, most frequent first."""
    prompt: str = ""
    """A short prompt that several people wrote word for word, such as `What is this?`; empty without one."""

    def name_of(self, words: Sequence[str]) -> str:
        """The words; of fewer than two, them and the tags; without any, the prompt that several wrote."""
        return ", ".join(words if len(words) > 1 else [*words, *self.tags][:3]) or self.prompt or FEW_WORDS


WAITING = "waiting_for_batch"
"""Failure reason of a question that is collected for a batch, or not answered yet."""


class BatchQueue(Protocol):
    """Questions collected for a vendor's batch API."""

    def send(self) -> bool:
        """Send the collected questions. Returns whether there are answers to wait for."""

    def wait(self) -> None:
        """Wait for the answers."""


class RemoteModel(Protocol):
    """A model behind a paid service."""

    calls_at_once: int
    """Maximum number of concurrent calls."""

    def together(self, store: Store, hours: float) -> AbstractContextManager[BatchQueue]:
        """Inside it, questions are collected; after `send` and `wait`, asking again gives the answers.

        `wait` stops after `hours`; the next run then continues with the unfinished batches.
        """


class Provider(Protocol):
    """The base of every capability."""

    version: str
    """Changes with weights, preprocessing or prompt."""


class NsfwClassifier(Provider, Protocol):
    """Scores images for pornography."""

    def nsfw_probabilities(self, images: Sequence[DecodedImage]) -> Sequence[float | Failed]:
        """Probability, 0 to 1, of every image."""


class FaceFinder(Provider, Protocol):
    """Finds human faces."""

    def find_faces(self, images: Sequence[DecodedImage]) -> Sequence[list[Face] | Failed]:
        """Faces of every image in image pixels, highest confidence first."""


class ObjectFinder(Provider, Protocol):
    """Names what is in images."""

    def find_objects(self, images: Sequence[DecodedImage]) -> Sequence[list[str] | Failed]:
        """Names of the objects in every image, each once, the most certain first."""


class TextReader(Provider, Protocol):
    """Reads text in images."""

    def read(self, images: Sequence[DecodedImage]) -> Sequence[ImageText | Failed]:
        """The text of every image."""


class ImageEmbedder(Provider, Protocol):
    """Maps images to unit vectors."""

    def embed_images(self, images: Sequence[DecodedImage]) -> Vectors:
        """float32 (n, dimension), unit length."""


class TextEmbedder(Provider, Protocol):
    """Maps texts to unit vectors."""

    def embed_texts(self, texts: Sequence[str]) -> Vectors:
        """float32 (n, dimension), unit length."""


class PiiFinder(Provider, Protocol):
    """Finds personal data in texts."""

    def find_pii(self, texts: Sequence[str]) -> Sequence[list[PiiSpan] | Failed]:
        """Spans of every text, in order and without overlaps. Long texts are read in full."""


class Moderator(Provider, Protocol):
    """Rates how harmful texts are."""

    def moderate(self, texts: Sequence[str]) -> Sequence[Moderation | Failed]:
        """Moderation of every text. Long texts are read in full."""


class ImageModerator(Provider, Protocol):
    """Rates how harmful images are."""

    def moderate_images(self, images: Sequence[DecodedImage]) -> Sequence[Moderation | Failed]:
        """Moderation of every image."""


class RefusalFinder(Provider, Protocol):
    """Finds answers that refuse."""

    def refuses(self, texts: Sequence[str]) -> Sequence[bool | Failed]:
        """Whether each answer declines what was asked."""


class EntityCounter(Provider, Protocol):
    """Counts named entities."""

    def count_entities(self, texts: Sequence[str]) -> Sequence[int | Failed | None]:
        """Distinct named entities of every text; None where its language is not covered."""


class LanguageIdentifier(Provider, Protocol):
    """Identifies the language of texts."""

    def identify(self, texts: Sequence[str]) -> Sequence[Language | Failed]:
        """Language of every text, or `unknown`."""


class TokenCounter(Provider, Protocol):
    """Counts tokens."""

    def count_tokens(self, texts: Sequence[str]) -> Sequence[int]:
        """Tokens of every text."""


class Tagger(Provider, Protocol):
    """Labels prompts with their images: categories, criteria, a place in the taxonomy, or a type of failure."""

    looks_at_images: bool
    """Whether documents must hold their encoded images. A true `looks_at_vectors` asks for `image_vectors` as well."""

    def tag(self, documents: Sequence[Document]) -> Sequence[Row | Failed]:
        """Labels of every document."""


class TopicNamer(Provider, Protocol):
    """Names topics."""

    def name_topics(self, topics: Sequence[TopicEvidence]) -> Sequence[str | Failed]:
        """A few words for every topic."""


ReplyState = Literal["complete", "refused", "truncated", "empty"]


@dataclass(frozen=True)
class ChatMessage:
    """One message of a chat."""

    role: Literal["system", "user", "assistant"]
    text: str
    images: tuple[tuple[str, bytes], ...] = ()
    """(png or jpeg, encoded image without metadata), in order."""
    places: tuple[int, ...] = ()
    """Characters of the text before each image; empty: all images are sent after the text."""


@dataclass(frozen=True)
class Reply:
    """Answer of a model. A call that failed gives `Failed` instead."""

    text: str
    """Word for word, without unpaired surrogates."""
    state: ReplyState
    """complete; refused (the model or its vendor declined); truncated (the answer limit was reached); empty."""
    output_tokens: int | None = None
    """Tokens as counted by the service, thinking included; None when not reported."""


@dataclass(frozen=True)
class ReplyShape:
    """The JSON object that a reply is asked to be."""

    name: str
    """Name of the reply's shape, for the service."""
    schema: Mapping[str, Any]
    """JSON schema of the reply; a model writes the keys in this order."""
    strict: bool = False
    """Whether nothing else is of use; else a server that knows no shapes is asked for free text."""


class ChatModel(RemoteModel, Protocol):
    """Answers chats in free text. Chosen by a models file (`schemas/asked_model.py`), not by `--provider`."""

    version: str
    """Changes with anything in the models file that may change its answers."""
    service: str
    """Name in the price file."""

    def chat(self, messages: Sequence[ChatMessage], about: str = "", shape: ReplyShape | None = None) -> Reply | Failed:
        """The model's next message. Thread-safe. In a batch, equal messages about different things are both sent.

        With a shape, the reply is such a JSON object where the server can do that; elsewhere it is free text.
        """


class Thought(str):
    """A piece of what a model thinks aloud before its answer."""


class TokensUsed(NamedTuple):
    """Tokens of an answer, as its server counted them; None where it does not say."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    """Thinking included."""


class StreamingModel(Protocol):
    """Answers chats piece by piece, for an arena. Chosen by its models file (`schemas/asked_model.py`)."""

    def stream(self, messages: Sequence[ChatMessage]) -> AsyncIterator[str | TokensUsed]:
        """The pieces of the model's next message as they come. Raises anything when there is no answer, or half of one.

        What it thinks aloud comes as Thought, and the server's count of tokens last. Images must hold no metadata.
        """


@dataclass(frozen=True)
class AspectsWanted:
    """Aspects of a capability, without those that are there already."""

    capability: Capability
    general: int
    """General aspects."""
    fine: int
    """Fine aspects of each general one."""
    known: tuple[tuple[str, str], ...] = ()
    """(general, fine) aspects that are there and must not be repeated."""
    levels: Mapping[str, Level] = field(default_factory=dict)
    """The levels that each of them will be asked at."""


@dataclass(frozen=True)
class DescriptionWanted:
    """One description."""

    capability: Capability
    aspect: GeneratedAspect
    level_name: str
    level: Level
    kept_out: tuple[str, ...]
    """Words not to use, because earlier descriptions share them."""
    seed: str
    """Differs for every description and attempt."""


@dataclass(frozen=True)
class QuestionWanted:
    """One question about a description."""

    capability: Capability
    aspect: GeneratedAspect
    level_name: str
    level: Level
    description: str
    failed: tuple[str, ...]
    """Elements that the image does not show as described, and which it must not ask about."""
    seed: str
    """Differs for every description and attempt."""


class Author(Provider, Protocol):
    """Writes benchmarks from a capability. It never sees an image."""

    calls_at_once: int
    """Maximum number of concurrent calls."""

    def aspects(self, wanted: AspectsWanted) -> WrittenAspects | Failed:
        """Fine aspects; those that are known may be among them, and are then left out."""

    def describe(self, wanted: DescriptionWanted) -> WrittenDescription | Failed:
        """Words for one image to draw."""

    def checks(self, description: str, count: int) -> WrittenChecks | Failed:
        """At most `count` simple questions about a description, with their answers."""

    def question(self, wanted: QuestionWanted) -> WrittenQuestion | Failed:
        """A question with its right and wrong options, from the description alone."""

    def solve(self, description: str, question: str, options: Sequence[str]) -> Solved | Failed:
        """The option that the description makes right; the key is not shown."""


@runtime_checkable
class ChoosyAuthor(Protocol):
    """An author that cannot write about everything."""

    def refusal(self, wanted: AspectsWanted) -> str:
        """Why it cannot write these aspects, in one line; empty if it can. It asks nobody."""


NO_QUESTION = "no_question_left"
"""Failure reason of an author for an image about which its aspect cannot be asked; it ends the image's description."""


class ImageModel(Provider, Protocol):
    """Draws images from words."""

    calls_at_once: int
    """Maximum number of concurrent calls."""

    def draw(self, told: str, seed: str) -> bytes | Failed:
        """One encoded image. Failed("refused") when the model or its vendor declines."""


class Viewer(Provider, Protocol):
    """Answers questions about an image from its pixels alone."""

    calls_at_once: int
    """Maximum number of concurrent calls."""

    def look(self, image: tuple[str, bytes], question: str, choices: Sequence[str]) -> str | Failed:
        """A short answer. `image`: (png or jpeg, encoded image without metadata)."""


CAPABILITY_TYPES: dict[str, type] = {
    "nsfw": NsfwClassifier,
    "faces": FaceFinder,
    "image_text": TextReader,
    "objects": ObjectFinder,
    "image_embedding": ImageEmbedder,
    "text_embedding": TextEmbedder,
    "text_pii": PiiFinder,
    "moderation": Moderator,
    "image_moderation": ImageModerator,
    "refusal": RefusalFinder,
    "named_entities": EntityCounter,
    "language": LanguageIdentifier,
    "tokens": TokenCounter,
    "categories": Tagger,
    "criteria": Tagger,
    "taxonomy": Tagger,
    "failure_types": Tagger,
    "topic_names": TopicNamer,
    "author": Author,
    "pictures": ImageModel,
    "viewer": Viewer,
}
MAKERS = frozenset({"author", "pictures", "viewer"})
"""Capabilities that only `curate bench generate` uses: releases of an arena's logs hold nothing of them."""
