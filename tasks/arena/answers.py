"""Answers of models while they come: read from their servers, shown piece by piece, logged when they end."""

import asyncio
import re
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from schemas.asked_model import ArenaModel
from tasks.arena.conversations import ArenaConversation, Side, StreamedAnswer, chat_record
from tasks.arena.logs import Line, LogFolder, LogsUnwritable
from tasks.arena.pool import Pool
from tasks.providers.capabilities import ChatMessage, StreamingModel, TokensUsed

UPDATE_SECONDS = 0.25
"""Least time between two updates of a page."""
ANSWER_SECONDS_MAX = 600.0
ANSWER_CHARACTERS_MAX = 100_000
SURROGATES = re.compile("[\ud800-\udfff]")
"""Halves of characters, which no log line can hold."""


@dataclass
class Counts:
    """Events since the start, without persons."""

    messages: int = 0
    answers: int = 0
    failed_answers: int = 0
    refused: int = 0
    votes: int = 0


@dataclass(eq=False)
class _Round:
    """Answers that are coming."""

    admitted: asyncio.Event = field(default_factory=asyncio.Event)
    """Whether its models are asked; before, it waits for others to end."""
    readers: list[asyncio.Task[None]] = field(default_factory=list)
    writers: list[asyncio.Task[None]] = field(default_factory=list)
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    ending: asyncio.Task[None] | None = None


class AnswerTooLong(Exception):
    """A model thought for longer than anybody reads."""


class Answers:
    """All answers that are coming."""

    def __init__(
        self, connect: Callable[[ArenaModel], StreamingModel], pool: Pool, logs: LogFolder, counts: Counts,
        about: dict[str, Any], at_once: int,
    ) -> None:  # fmt: skip
        self._connect, self._pool, self._logs, self._counts, self._about = connect, pool, logs, counts, about
        self._rounds: dict[str, _Round] = {}
        self._asked = [(model, connect(model)) for model in pool.models]
        self._places, self._waiting = at_once, deque[_Round]()
        self.noted: Callable[[dict[str, Any], Line], None] = lambda record, line: None
        """Called with each line of the log and its place."""

    def coming(self) -> int:
        """How many answers have not ended."""
        return sum(not writer.done() for current in self._rounds.values() for writer in current.writers)

    def waiting(self) -> int:
        """How many rounds wait for others to end."""
        return len(self._waiting)

    def before(self, conversation: ArenaConversation) -> int | None:
        """How many rounds wait before a conversation's; None when its models are being asked, or nothing comes."""
        current = self._rounds.get(conversation.id)
        return self._waiting.index(current) if current is not None and current in self._waiting else None

    def _admit(self) -> None:
        """Ask the models of those who wait, as far as there are places; the others are told that they moved up."""
        while self._places > 0 and self._waiting:
            self._places -= 1
            self._waiting.popleft().admitted.set()
        for waiting_round in self._waiting:
            waiting_round.changed.set()

    async def _ended(self, number: str, current: _Round) -> None:
        """Give the place of a round back once its answers have ended, and let it go once they are logged."""
        await asyncio.wait(current.readers)
        if current.admitted.is_set():
            self._places += 1
        else:
            self._waiting.remove(current)
        self._admit()
        await asyncio.wait(current.writers)
        if self._rounds.get(number) is current:
            del self._rounds[number]

    def start(self, conversation: ArenaConversation, answers: Mapping[int, StreamedAnswer], user: str) -> None:
        """Ask sides, by their place; each answer takes the place of the last one to the same prompt.

        `user` is for the log.
        """
        current = self._rounds[conversation.id] = _Round()
        for place, answer in answers.items():
            side = conversation.sides[place]
            side.answers = [*side.answers[: len(conversation.prompts) - 1], answer]
            reader = asyncio.create_task(self._read(conversation.messages(side), side, answer, current))
            current.readers.append(reader)
            writer = asyncio.create_task(self._finish(conversation, side, reader, user, current.changed))
            current.writers.append(writer)
        current.ending = asyncio.create_task(self._ended(conversation.id, current))
        self._waiting.append(current)
        self._admit()

    def _connected(self, model: ArenaModel) -> StreamingModel:
        """The connection to a model; kept for served ones, and made anew for one with a visitor's settings."""
        connection = next((kept_connection for served, kept_connection in self._asked if served == model), None)
        if connection is None:
            connection = self._connect(model)
            if model in self._pool.models:
                self._asked.append((model, connection))
        return connection

    async def _read(self, messages: Sequence[ChatMessage], side: Side, answer: StreamedAnswer, current: _Round) -> None:
        await current.admitted.wait()
        answer.started = time.time()
        connection = self._connected(side.model)
        async with asyncio.timeout(ANSWER_SECONDS_MAX):
            async for piece in connection.stream(messages):
                if isinstance(piece, TokensUsed):
                    answer.used = piece
                    continue
                answer.add(type(piece)(SURROGATES.sub("\ufffd", piece)))
                current.changed.set()
                if len(answer.text) >= ANSWER_CHARACTERS_MAX:
                    answer.text, answer.stopped = answer.text[:ANSWER_CHARACTERS_MAX], True
                    return
                if len(answer.thinking) >= ANSWER_CHARACTERS_MAX:
                    raise AnswerTooLong

    async def _finish(
        self, conversation: ArenaConversation, side: Side, reader: asyncio.Task[None], user: str, changed: asyncio.Event
    ) -> None:
        """Wait until an answer has come or was stopped, and log it."""
        await asyncio.wait([reader])
        answer = side.answers[-1]
        try:
            await self._log(conversation, side, reader, user)
        finally:
            answer.done = True
            changed.set()

    async def _log(self, conversation: ArenaConversation, side: Side, reader: asyncio.Task[None], user: str) -> None:
        answer = side.answers[-1]
        answer.end()
        answer.finished = time.time()
        answer.stopped = answer.stopped or reader.cancelled()
        broken = not reader.cancelled() and reader.exception() is not None
        answer.failed = broken or not answer.text.strip()
        if not reader.cancelled():
            (self._pool.failed if answer.failed else self._pool.answered)(side.model.name)
        if answer.failed:
            self._counts.failed_answers += 1
        else:
            record = chat_record(conversation, side, user, self._about)
            pictures = [picture for prompt in conversation.prompts for picture in prompt.pictures]

            def keep_pictures() -> None:
                for picture in pictures:
                    self._logs.keep_image(picture.name, picture.png)

            def write() -> None:
                keep_pictures()  # another conversation may have dropped them
                line = self._logs.append(record, utc(answer.finished))
                keep_pictures()  # or before the line named them
                self.noted(record, line)

            try:
                await asyncio.to_thread(write)
                side.logged = True
                self._counts.answers += 1
                if all(other.logged for other in conversation.sides):
                    conversation.drawn = {}  # with many models the largest part of a talk, and in no later line
            except LogsUnwritable:
                answer.failed = True

    async def updates(self, conversation: ArenaConversation) -> AsyncIterator[None]:
        """Yields when answers have changed, at most four times a second, and a last time when all have ended.

        Between two updates is at least twenty times what the reader takes for one, however long answers grow.
        """
        current = self._rounds.get(conversation.id, _Round())
        while not all(writer.done() for writer in current.writers):
            current.changed.clear()
            began = time.monotonic()
            yield
            since = time.monotonic()
            await current.changed.wait()
            pause = max(UPDATE_SECONDS, 20 * (since - began))
            await asyncio.wait(current.writers, timeout=max(0.0, since + pause - time.monotonic()))
        yield

    async def stop(self, conversation: ArenaConversation) -> None:
        """End the answers that are coming; what has come is logged."""
        current = self._rounds.get(conversation.id, _Round())
        for reader in current.readers:
            reader.cancel()
        if current.writers:
            await asyncio.wait(current.writers)


def utc(seconds: float) -> datetime:
    """The time of epoch seconds."""
    return datetime.fromtimestamp(seconds, UTC)
