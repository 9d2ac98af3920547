"""Answers of models while they come: read from their servers, shown piece by piece, logged when they end."""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from tasks.arena.conversations import ArenaConversation, Side, StreamedAnswer, chat_record
from tasks.arena.logs import LogFolder, LogsUnwritable
from tasks.arena.pool import Pool
from tasks.providers.capabilities import ChatMessage, StreamingModel

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


@dataclass
class _Round:
    """Answers that are coming."""

    readers: list[asyncio.Task[None]] = field(default_factory=list)
    writers: list[asyncio.Task[None]] = field(default_factory=list)
    changed: asyncio.Event = field(default_factory=asyncio.Event)


class Answers:
    """All answers that are coming."""

    def __init__(
        self,
        asked: Mapping[str, StreamingModel],
        pool: Pool,
        logs: LogFolder,
        counts: Counts,
        about: dict[str, Any],
    ) -> None:
        self._asked, self._pool, self._logs, self._counts, self._about = asked, pool, logs, counts, about
        self._rounds: dict[str, _Round] = {}

    def coming(self) -> int:
        """How many answers have not ended."""
        return sum(not writer.done() for each in self._rounds.values() for writer in each.writers)

    def start(self, conversation: ArenaConversation, answers: Sequence[StreamedAnswer], user: str) -> None:
        """Ask every side; each answer takes the place of the last one to the same prompt. `user` is for the log."""
        current = self._rounds[conversation.sides[0].conv_id] = _Round()
        for side, answer in zip(conversation.sides, answers, strict=True):
            side.answers = [*side.answers[: len(conversation.prompts) - 1], answer]
            reader = asyncio.create_task(self._read(conversation.messages(side), side, answer, current.changed))
            current.readers.append(reader)
            writer = asyncio.create_task(self._finish(conversation, side, reader, user, current.changed))
            current.writers.append(writer)

    async def _read(
        self, messages: Sequence[ChatMessage], side: Side, answer: StreamedAnswer, changed: asyncio.Event
    ) -> None:
        answer.started = time.time()
        async with asyncio.timeout(ANSWER_SECONDS_MAX):
            async for piece in self._asked[side.model.name].stream(messages):
                answer.text += SURROGATES.sub("\ufffd", piece)
                changed.set()
                if len(answer.text) >= ANSWER_CHARACTERS_MAX:
                    answer.text, answer.stopped = answer.text[:ANSWER_CHARACTERS_MAX], True
                    return

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

            def write() -> None:
                for picture in pictures:  # again: another conversation may have dropped it
                    self._logs.keep_image(picture.name, picture.png)
                self._logs.append(record, utc(answer.finished))

            try:
                await asyncio.to_thread(write)
                side.logged = True
                self._counts.answers += 1
            except LogsUnwritable:
                answer.failed = True

    async def updates(self, conversation: ArenaConversation) -> AsyncIterator[None]:
        """Yields when answers have changed, at most four times a second, and a last time when all have ended."""
        current = self._rounds[conversation.sides[0].conv_id]
        while not all(writer.done() for writer in current.writers):
            current.changed.clear()
            yield
            since = time.monotonic()
            await current.changed.wait()
            await asyncio.wait(current.writers, timeout=max(0.0, since + UPDATE_SECONDS - time.monotonic()))
        yield

    async def stop(self, conversation: ArenaConversation) -> None:
        """End the answers that are coming; what has come is logged."""
        current = self._rounds.get(conversation.sides[0].conv_id, _Round())
        for reader in current.readers:
            reader.cancel()
        if current.writers:
            await asyncio.wait(current.writers)

    def close(self, conversation: ArenaConversation) -> None:
        """Forget a conversation that its visitor has left; what has come of its answers is logged."""
        current = self._rounds.pop(conversation.sides[0].conv_id, None)
        for reader in current.readers if current else ():
            reader.get_loop().call_soon_threadsafe(reader.cancel)


def utc(seconds: float) -> datetime:
    """The time of epoch seconds."""
    return datetime.fromtimestamp(seconds, UTC)
