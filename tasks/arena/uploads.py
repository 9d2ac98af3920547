"""Example images, and uploads between the moment a browser sends them and the message that they belong to.

In memory is only the new file that the admission made, under a random name; of an upload on a list of known images, the
file as it came, for the operator.
"""

import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from random import Random

from tasks.arena.conversations import Picture
from tasks.arena.entrance import Admission, KnownImage, Refused
from tasks.arena.guards.requests import PerMinute

UPLOAD_KEPT_SECONDS = 3600.0
"""How long an upload waits for its message."""
WAITING_BYTES_MAX = 256 * 1024 * 1024
_WAITING_OF_ONE_MAX = 40
UPLOADS_A_MINUTE_MAX = 40
"""Uploads of one visitor."""


@dataclass(frozen=True)
class _Upload:
    owner: str
    visitor: str
    at: float
    found: Picture | KnownImage

    @property
    def size(self) -> int:
        return len(self.found.png if isinstance(self.found, Picture) else self.found.content)


class Uploads:
    """Uploads that wait for their message. Thread-safe."""

    def __init__(self, admission: Admission, clock: Callable[[], float] = time.monotonic) -> None:
        self._door, self._clock = admission, clock
        self._waiting: OrderedDict[str, _Upload] = OrderedDict()
        self._bytes = 0
        self._sent = PerMinute(clock)
        self._lock = threading.Lock()

    def wait_seconds(self, visitor: str) -> float:
        """0 when a visitor may upload something now, which then counts; otherwise how long to wait."""
        return self._sent.wait_seconds({visitor: UPLOADS_A_MINUTE_MAX})

    def take(self, content: bytes, owner: str, visitor: str = "") -> str:
        """Check an upload of a browser (`owner`) at an address (`visitor`), and return its name. Raises Refused.

        Nobody is told of a known image before its message is sent.
        """
        try:
            return self.keep(self._door.picture(content), owner, visitor)
        except KnownImage as known_image:
            return self.keep(known_image, owner, visitor)

    def keep(self, found: Picture | KnownImage, owner: str, visitor: str = "") -> str:
        """Keep an image for the next message of a browser, and return its name; the oldest ones make room."""
        name = secrets.token_urlsafe(18)
        with self._lock:
            self._waiting[name] = _Upload(owner, visitor, self._clock(), found)
            self._bytes += self._waiting[name].size
            of_visitor = [upload_name for upload_name, upload in self._waiting.items() if upload.visitor == visitor]
            for upload_name in of_visitor[:-_WAITING_OF_ONE_MAX]:
                self._remove(upload_name)
            while self._bytes > WAITING_BYTES_MAX:
                self._remove(next(iter(self._waiting)))
        return name

    def collect(self, names: Sequence[str], owner: str) -> list[Picture]:
        """The images of uploads. Raises KnownImage for the first such one, or Refused for one that is not there."""
        with self._lock:
            taken = [self._waiting.get(name) for name in names]
        images = [upload.found for upload in taken if upload and upload.owner == owner]
        if known_image := next((image for image in images if isinstance(image, KnownImage)), None):
            raise known_image
        if len(images) < len(names):
            raise Refused("unreadable")
        return [image for image in images if isinstance(image, Picture)]

    def content(self, name: str, owner: str) -> bytes | None:
        """The new file of an upload, for the browser that sent it."""
        with self._lock:
            upload = self._waiting.get(name)
        if upload is None or upload.owner != owner or not isinstance(upload.found, Picture):
            return None
        return upload.found.png

    def discard(self, names: Sequence[str], owner: str) -> None:
        """Let uploads go whose message was taken, or that were removed; after a refusal they wait for the next try."""
        with self._lock:
            for name in names:
                if name in self._waiting and self._waiting[name].owner == owner:
                    self._remove(name)

    def purge(self) -> None:
        """Let go what waits too long."""
        with self._lock:
            now = self._clock()
            for name in [name for name, upload in self._waiting.items() if now - upload.at >= UPLOAD_KEPT_SECONDS]:
                self._remove(name)

    def _remove(self, name: str) -> None:
        self._bytes -= self._waiting.pop(name).size


CollectionFile = tuple[str, Path]
"""Path in the collection's index, and the file."""
_IN_MEMORY = 64
_TRIES = 5


class Examples:
    """Example images by kind; each passes the admission like an upload when it is first drawn.

    `as_presets`: the log names where each comes from, so that policies can leave battles about them out. The demo's
    are logged as uploads, because its visitors have nothing else to vote on.
    """

    def __init__(
        self, admission: Admission, kinds: Mapping[str, Sequence[CollectionFile]], rng: Random, as_presets: bool = True
    ) -> None:
        self.kinds, self._rng = kinds, rng

        @lru_cache(_IN_MEMORY)
        def taken_in(path: str, file: Path) -> Picture:
            return admission.picture(file.read_bytes(), path if as_presets else None)

        self._taken_in = taken_in
        self._first: dict[str, Picture | None] = {}

    def draw(self, kind: str) -> Picture:
        """A random image of a kind. Raises Refused when several in a row cannot be used."""
        listed = self.kinds.get(kind, [])
        for path, file in self._rng.sample(list(listed), min(_TRIES, len(listed))):
            try:
                return self._taken_in(path, file)
            except (Refused, KnownImage, OSError):
                continue
        raise Refused("no_example")

    def first(self, kind: str) -> Picture | None:
        """The image that stands for a kind on the page; None when none of it can be shown."""
        if kind not in self._first:
            try:
                self._first[kind] = self.draw(kind)
            except Refused:
                self._first[kind] = None
        return self._first[kind]
