"""Hosted models: chats with a state, answers that fit a schema exactly, and images; within the budget, with retries.

One class a vendor (`openai/model.py`, `google/gemini.py`, `anthropic/model.py`) says how a call is sent and read. A
model is named by variables of the environment, for a capability, or by an entry of a models file (`Endpoint`).
"""

import base64
import binascii
import json
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, TypeVar

from schemas.asked_model import ANSWER_TOKENS_MAX as ANSWER_TOKENS_MAX
from schemas.errors import BadInput, MissingProvider
from schemas.row import Row
from tasks.images.decode import FILE_BYTES_MAX, ImageRejected, decode_stored
from tasks.prompts import untrusted
from tasks.prompts.replies import ReplyFormat
from tasks.providers.capabilities import ChatMessage, Failed, Reply, ReplyShape
from tasks.providers.chat import Endpoint
from tasks.providers.cost import Count, ExpectedUse, Size
from tasks.providers.production.batches.api import Request
from tasks.providers.production.batches.queue import Batched
from tasks.providers.production.calls import FORMAT_UNSUPPORTED, REFUSED_CALL, CallFailed, Service, waiting_seconds
from tasks.providers.upload import Upload, for_upload
from tasks.runtime.budget import Bill, ledger

TIMEOUT, TIMEOUT_SECONDS = "CURATE_TIMEOUT_SECONDS", 90.0
"""Environment variable and default: seconds of silence after which a call times out."""
CALLS, CALLS_MAX = "CURATE_CALLS_AT_ONCE", 32
"""Environment variable and default of the maximum number of concurrent calls."""

Answer = TypeVar("Answer", bound=Row)
ReplyForm = Literal["json_schema", "json_object", "text"]
"""How a reply is asked for: by a schema; as any JSON object, with the schema in the prompt; or as free text."""


@dataclass(frozen=True)
class Question:
    """One question about untrusted text and images."""

    instructions: str
    """The prompt file, as the system message."""
    material: str
    """Fenced untrusted text (`tasks.prompts.untrusted`), as the user message."""
    images: tuple[tuple[str, bytes], ...] = ()
    """(png or jpeg, encoded image without metadata); sent after the text."""
    reply: ReplyFormat | None = None
    """How the answer is read; None: as JSON of a schema."""


@dataclass(frozen=True)
class Turn:
    """A message as it is sent."""

    role: str
    """system, user or assistant."""
    text: str
    images: tuple[Upload, ...] = ()
    places: tuple[int, ...] = ()
    """Characters of the text before each image; empty: after the text."""

    @property
    def parts(self) -> list[str | Upload]:
        """Text and images in the order in which they are sent; between images, text without words is left out."""
        if not self.places:
            return [self.text, *self.images]
        pieces, start = list[str | Upload](), 0
        for place, number in sorted(zip(self.places, range(len(self.images)), strict=True)):
            pieces += [self.text[start:place], self.images[number]]
            start = place
        return [piece for piece in [*pieces, self.text[start:]] if not isinstance(piece, str) or piece.strip()]


@dataclass(frozen=True)
class Chat:
    """One call."""

    turns: Sequence[Turn]
    shape: ReplyShape | None = None
    form: ReplyForm = "json_schema"
    """The form of a reply with a shape."""

    @property
    def schema(self) -> dict[str, Any] | None:
        """The schema that is sent beside the messages; None when the reply is asked for in another form."""
        return dict(self.shape.schema) if self.shape and self.form == "json_schema" else None

    @property
    def system(self) -> str:
        """All system messages, for vendors that take one text."""
        return "\n\n".join(turn.text for turn in self.turns if turn.role == "system")


class HostedModel(Batched):
    """A language model behind a vendor's SDK, by single calls or by the vendor's batch API."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.version, self.service = endpoint.version, endpoint.service
        self.calls_at_once = calls_at_once()
        self._service = Service(self.service, self.calls_at_once)
        self._form: ReplyForm = "json_schema"
        """The best form that the server has not refused."""

    def chat(self, messages: Sequence[ChatMessage], about: str = "", shape: ReplyShape | None = None) -> Reply | Failed:
        """The model's next message; the endpoint's system prompt goes first unless the messages have one."""
        form = self._form
        try:
            chat = Chat([_turn(message) for message in self._told(messages)], shape, form)
            if self._queue:
                return self._queue.answer(self._request(chat), self._most_usd(chat, batch=True), about)
            return self._service.ask(self._most_usd(chat), lambda bill: self._call(chat, bill))
        except ImageRejected:
            return Failed("image_unreadable")
        except CallFailed as failure:
            if failure.reason == REFUSED_CALL:
                return Reply("", "refused")
            forms = self._forms(shape) if shape else (form,)
            if failure.reason != FORMAT_UNSUPPORTED or form == forms[-1]:
                return Failed(failure.reason)
        if self._form == form:  # unless another thread has done so
            self._form = forms[forms.index(form) + 1]
        return self.chat(messages, about, shape)

    def ask(self, question: Question, answer: type[Answer]) -> Answer | Failed:
        """The model's answer as a row. Refused, truncated, malformed and missing answers are failures."""
        message = ChatMessage("user", question.material, question.images)
        shape = None if question.reply else shape_of(answer)
        reply = self.chat([ChatMessage("system", question.instructions), message], shape=shape)
        if isinstance(reply, Failed):
            return reply
        if reply.state in ("refused", "truncated"):
            return Failed(reply.state)
        if question.reply:
            return question.reply.read(reply.text, answer) or Failed("malformed_answer")
        try:
            json.loads(reply.text, object_pairs_hook=_unique_keys)
            return answer.model_validate_json(reply.text, strict=True)
        except CallFailed as failure:
            return Failed(failure.reason)
        except (ValueError, RecursionError):  # a model in a loop may write nothing but opening brackets
            return Failed("malformed_answer")

    def _forms(self, shape: ReplyShape) -> tuple[ReplyForm, ...]:
        return ("json_schema",) if shape.strict else ("json_schema", "text")

    def _told(self, messages: Sequence[ChatMessage]) -> list[ChatMessage]:
        if messages[0].role == "system" or not self.endpoint.system:
            return list(messages)
        return [ChatMessage("system", self.endpoint.system), *messages]

    def _most_usd(self, chat: Chat, *, batch: bool = False) -> float | None:
        """Upper bound of a call's cost: one token per byte and the longest answer. None without a price."""
        price = ledger().prices.tokens(self.service)
        if price is None:
            return None
        texts = [*(turn.text for turn in chat.turns), str(chat.shape.schema) if chat.shape else ""]
        text_bytes = sum(len(text.encode("utf-8", "surrogatepass")) for text in texts)
        image_tokens = sum(
            price.image_tokens(image.width, image.height) for turn in chat.turns for image in turn.images
        )
        return (price.batch_usd if batch else price.usd)(text_bytes + image_tokens, self.endpoint.answer_tokens_max)

    @abstractmethod
    def _call(self, chat: Chat, bill: Bill) -> Reply:
        """One call; settles the bill. Raises CallFailed for everything that is no reply of the model."""

    @abstractmethod
    def _request(self, chat: Chat) -> Request:
        """The body of the same call, as the vendor's JSON."""


def expected_answers(
    count: Count, instructions: str, answer: type[Row], materials: Sequence[str], image_sizes: Sequence[Size] = ()
) -> ExpectedUse:
    """Use by one question about each material, as it is sent: instructions, fence and the answer's schema with it."""
    shape, calls = shape_of(answer).schema, len(materials)
    input_tokens = calls * (count(instructions) + count(json.dumps(shape))) + sum(
        count(untrusted(material)) for material in materials
    )
    answer_tokens = count(json.dumps({name: _common(kind) for name, kind in shape["properties"].items()}))
    return ExpectedUse(calls, 0, input_tokens, image_sizes, calls * answer_tokens, calls * ANSWER_TOKENS_MAX)


def _common(kind: Mapping[str, Any]) -> Any:
    """An answer of middle length to one field of a schema."""
    kinds = kind.get("anyOf", [kind])
    among = sorted((choice for one in kinds for choice in one.get("enum", ())), key=lambda choice: len(str(choice)))
    if among:
        return among[len(among) // 2]
    return False if any(one.get("type") == "boolean" for one in kinds) else "Some Words"


def named_by_environment(
    vendor: str, key: str, model: tuple[str, str], base_url: str = "", *, self_hosted: bool = False
) -> Endpoint:
    """The model of a capability. `key` is the variable with the key, `model` that with the name, and the default.

    Raises MissingProvider without a key.
    """
    named = os.environ.get(model[0]) or model[1]
    version = f"{vendor}-{named}"
    return Endpoint(named, version, version, key_in(key), base_url, self_hosted)


def key_in(variable: str) -> str:
    """A vendor's key. Raises MissingProvider when the variable is not set."""
    if key := os.environ.get(variable):
        return key
    vendor = variable.removesuffix("_API_KEY").lower()
    raise MissingProvider(f"{vendor}: {variable} is not set; export a key in it, or choose another provider")


def _turn(message: ChatMessage) -> Turn:
    """Raises ImageRejected."""
    uploads = (for_upload(decode_stored(encoded, kind, "")) for kind, encoded in message.images)
    return Turn(message.role, message.text, tuple(uploads), message.places)


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs):
        raise CallFailed("contradictory_answer")
    return dict(pairs)


def timeout_seconds() -> float:
    """Seconds of silence after which a call times out. Raises BadInput."""
    setting = os.environ.get(TIMEOUT) or str(TIMEOUT_SECONDS)
    if (timeout := waiting_seconds(setting)) <= 0:
        raise BadInput(f"{TIMEOUT}={setting!r}: give a request timeout in seconds, more than 0")
    return timeout


def calls_at_once() -> int:
    """Maximum number of concurrent calls. Raises BadInput."""
    setting = os.environ.get(CALLS) or str(CALLS_MAX)
    if not setting.isdecimal() or not int(setting):
        raise BadInput(f"{CALLS}={setting!r}: give the maximum number of concurrent calls, 1 or more")
    return int(setting)


@cache
def shape_of(answer: type[Row]) -> ReplyShape:
    """The shape of an answer that is only of use as this row."""
    return ReplyShape(answer.__name__, bare(answer.model_json_schema()), strict=True)


def bare(schema: Any) -> Any:
    """A JSON schema without descriptions: all instructions are in the prompt file, whose hash is in the version."""
    if isinstance(schema, list):
        return [bare(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    prose = ("description", "title")
    return {key: bare(part) for key, part in schema.items() if not (key in prose and isinstance(part, str))}


class VendorPictures(ABC):
    """A hosted image model. Its price is that of one unit, an image, in the price file."""

    def __init__(self, vendor: str, model: str) -> None:
        self.model_name = model
        self.service = f"{vendor}-{model}"
        self.version = self.service
        self.calls_at_once = calls_at_once()
        self._service = Service(self.service, self.calls_at_once)

    def draw(self, told: str, seed: str) -> bytes | Failed:
        """The image as it came; a model that declines is Failed("refused") and billed as far as it says so."""
        try:
            return self._service.ask_for_units(1, lambda bill: self._image(told, bill))
        except CallFailed as failure:
            return Failed(failure.reason)

    @abstractmethod
    def _image(self, image_prompt: str, bill: Bill) -> bytes:
        """One call. Raises CallFailed(REFUSED) when the model or its vendor declines, and for all that is no image."""


def model_of(variable: str, default: str) -> str:
    """The model's name, from the environment or by default."""
    return os.environ.get(variable) or default


def decoded(encoded: object) -> bytes:
    """The bytes of a base64 text. Raises CallFailed for anything else, and for more than an image file may have."""
    if not isinstance(encoded, str) or len(encoded) > FILE_BYTES_MAX * 4 / 3 + 4:
        raise CallFailed("malformed_answer")
    try:
        return base64.b64decode(encoded, validate=True)
    except binascii.Error:
        raise CallFailed("malformed_answer") from None
