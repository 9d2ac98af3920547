"""An arena without a user interface, its scripted models and visitors, and what ingest reads of its logs."""

import asyncio
import io
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import PIL.Image

from tasks.arena.conversations import ArenaConversation, Mode
from tasks.arena.rounds import Arena, Visit
from tasks.ingest.log_line import Place as LogPlace
from tasks.ingest.log_line import Seen, parse_json, sightings, states_of
from tasks.ingest.quarantine import line_is_flagged
from tasks.storage.keyed_ids import Pseudonyms

KEY = b"k" * 32
VISIT = Visit("browser", "203.0.113.7")


@dataclass
class Scripted:
    """A model that says its words, with a pause after each; None breaks off, an asyncio.Event is waited for."""

    words: tuple = ("Hello", " there.")
    asked: list = field(default_factory=list)

    async def stream(self, messages):
        self.asked.append(messages)
        for word in self.words:
            if word is None:
                raise ConnectionError("secret of the server")
            if isinstance(word, asyncio.Event):
                await word.wait()
            else:
                yield word
                await asyncio.sleep(0)


@dataclass
class Built:
    """An arena and what it is made of."""

    arena: Arena
    folder: Path
    models: dict[str, Scripted]

    async def say(self, text="What is this?", pictures=(), conversation=None, mode=Mode.BATTLE, chosen=(), visit=VISIT):
        return await self.arena.say(conversation, mode, chosen, text, lambda: list(pictures), visit)

    async def finished(self, conversation: ArenaConversation) -> int:
        """Waits for the answers; returns the number of updates."""
        return len([None async for _ in self.arena.updates(conversation)])

    def seen(self) -> list[Seen]:
        """What `curate ingest` makes of the logged lines; raises for a line that it would reject."""
        people, found = Pseudonyms(KEY), []
        for file in sorted(self.folder.glob("vision-tmp-*.json")):
            for number, raw in enumerate(file.read_bytes().splitlines(), 1):
                assert not line_is_flagged(raw)
                record = parse_json(raw)
                found.append((record, sightings(record, states_of(record), LogPlace(file.name, number), people)))
        return found


def image_file(kind: str = "PNG", seed: int = 0, **options) -> bytes:
    """An image of random pixels as a file."""
    pixels = np.random.default_rng(seed).integers(0, 255, (40, 60, 3), dtype=np.uint8)
    sink = io.BytesIO()
    PIL.Image.fromarray(pixels).save(sink, kind, **options)
    return sink.getvalue()
