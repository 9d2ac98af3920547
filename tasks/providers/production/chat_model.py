"""Chat models behind vendors' SDKs: free text out, with a state; within the budget and with retries."""

import os
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from schemas.asked_model import AskedModel
from schemas.errors import MissingProvider
from tasks.images.decode import ImageRejected, decode_stored
from tasks.providers.capabilities import ChatMessage, Failed, Reply, ReplyShape, ReplyState
from tasks.providers.production.batches.api import Request
from tasks.providers.production.batches.queue import Batched
from tasks.providers.production.calls import FORMAT_REFUSED, CallFailed, Service
from tasks.providers.production.language_model import calls_at_once
from tasks.providers.production.upload import Upload, for_upload
from tasks.runtime.budget import Bill, ledger

CHARACTERS_MAX = 400_000
"""A longer text is cut and counts as truncated, whatever the server says about it."""


@dataclass(frozen=True)
class Turn:
    """A message as it is sent."""

    role: str
    """system, user or assistant."""
    text: str
    images: tuple[Upload, ...]
    places: tuple[int, ...] = ()
    """Characters of the text before each image; empty: after the text."""

    @property
    def parts(self) -> list[str | Upload]:
        """Text and images in the order in which they are sent; between images, text without words is left out."""
        if not self.places:
            return [self.text, *self.images]
        found, start = list[str | Upload](), 0
        for place, number in sorted(zip(self.places, range(len(self.images)), strict=True)):
            found += [self.text[start:place], self.images[number]]
            start = place
        return [each for each in [*found, self.text[start:]] if not isinstance(each, str) or each.strip()]


class VendorChatModel(Batched):
    """A hosted model, asked as an entry of a models file says."""

    def __init__(self, asked: AskedModel) -> None:
        self.asked = asked
        self.version, self.service = asked.version, asked.service
        self.calls_at_once = calls_at_once()
        self._service = Service(self.service, self.calls_at_once)
        self._has_shapes = True
        """Whether the server takes shapes; set to false by the first refusal."""

    def chat(self, messages: Sequence[ChatMessage], about: str = "", shape: ReplyShape | None = None) -> Reply | Failed:
        """The model's next message; the entry's system prompt goes first unless the messages have one."""
        shape = shape if self._has_shapes else None
        try:
            turns = [_turn(message) for message in self._told(messages)]
            if self._queue:
                return self._queue.answer(self._request(turns, shape), self._most_usd(turns, shape, batch=True), about)
            return self._service.ask(self._most_usd(turns, shape), lambda bill: self._reply(turns, bill, shape))
        except ImageRejected:
            return Failed("image_unreadable")
        except CallFailed as failure:
            if shape is None or failure.reason != FORMAT_REFUSED:
                return Failed(failure.reason)
        self._has_shapes = False
        return self.chat(messages, about)

    def _told(self, messages: Sequence[ChatMessage]) -> list[ChatMessage]:
        own = (
            [] if messages[0].role == "system" or not self.asked.system else [ChatMessage("system", self.asked.system)]
        )
        return [*own, *messages]

    def _most_usd(self, turns: Sequence[Turn], shape: ReplyShape | None = None, *, batch: bool = False) -> float | None:
        """Upper bound of a call's cost: one token per byte and the longest answer. None without a price."""
        price = ledger().prices.tokens(self.service)
        if price is None:
            return None
        text_bytes = sum(len(turn.text.encode("utf-8", "surrogatepass")) for turn in turns)
        text_bytes += len(str(shape.schema)) if shape else 0
        shown = sum(price.image_tokens(image.width, image.height) for turn in turns for image in turn.images)
        return (price.batch_usd if batch else price.usd)(text_bytes + shown, self.asked.answer_tokens_max)

    @abstractmethod
    def _reply(self, turns: Sequence[Turn], bill: Bill, shape: ReplyShape | None = None) -> Reply:
        """One call; settles the bill. Raises CallFailed for everything that is no reply of the model."""

    @abstractmethod
    def _request(self, turns: Sequence[Turn], shape: ReplyShape | None = None) -> Request:
        """The body of the same call, as the vendor's JSON."""


def key_of(asked: AskedModel) -> str:
    """The key; `none` for a server that needs none. Raises MissingProvider when the variable is not set."""
    if asked.key_variable is None:
        return "none"
    if key := os.environ.get(asked.key_variable):
        return key
    raise MissingProvider(f"model {asked.name!r}: {asked.key_told} is not set; export the model's key in it")


def reply(text: object, state: ReplyState, output_tokens: int | None) -> Reply:
    """A reply with cleaned text; a complete one without text is empty. Raises CallFailed for text that is none."""
    if not isinstance(text, str):
        raise CallFailed("malformed_answer")
    clean = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if len(clean) > CHARACTERS_MAX:
        return Reply(clean[:CHARACTERS_MAX], "truncated", output_tokens)
    if state == "complete" and not clean.strip():
        state = "empty"
    return Reply(clean, state, output_tokens)


def _turn(message: ChatMessage) -> Turn:
    """Raises ImageRejected."""
    shown = (for_upload(decode_stored(encoded, kind, "")) for kind, encoded in message.images)
    return Turn(message.role, message.text, tuple(shown), message.places)
