"""Example images, and uploads between the moment a browser sends them and the message that they belong to.

Only the new file that the admission made is stored, under a random name; of a refused one, an empty picture.
"""

import base64
import fcntl
import os
import secrets
import shutil
import tempfile
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from random import Random

from tasks.arena.conversations import Picture
from tasks.arena.entrance import UNREADABLE, Admission, KnownImage, Refused

KEPT_SECONDS = 3600.0
"""How long an upload waits for its message."""
_WAITING_MAX = 1_000
_WAITING_OF_ONE_MAX = 40
UPLOADS_A_MINUTE_MAX = 40
"""Uploads of one visitor."""
_WINDOW_SECONDS = 60.0
_PURGE_SECONDS = 30.0
_FOLDER = "arena-"
_HELD = "held"
"""File of a folder of uploads that its process has locked."""
_EMPTY = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGP4DwABAQEAsTj2FAAAAABJRU5ErkJggg=="
)
"""A PNG of one pixel."""


@dataclass(frozen=True)
class _Upload:
    owner: str
    visitor: str
    at: float
    found: Picture | Refused | KnownImage


class Uploads:
    """Uploads that wait for their message. Thread-safe."""

    def __init__(self, admission: Admission, folder: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._door, self._folder, self._clock = admission, folder, clock
        self._waiting: OrderedDict[str, _Upload] = OrderedDict()
        self._taken: dict[str, deque[float]] = {}
        self._lock = threading.Lock()

    def wait_seconds(self, visitor: str) -> float:
        """0 when a visitor may upload something now; otherwise how long to wait."""
        with self._lock:
            times = [at for at in self._taken.get(visitor, ()) if self._clock() - at < _WINDOW_SECONDS]
            return 0.0 if len(times) < UPLOADS_A_MINUTE_MAX else _WINDOW_SECONDS - (self._clock() - times[0])

    def take(self, content: bytes, owner: str, visitor: str = "") -> str:
        """Check an upload of a browser (`owner`) at an address (`visitor`).

        Returns the path of a file that stands for it on the page.
        """
        found: Picture | Refused | KnownImage
        try:
            found = self._door.picture(content)
        except (Refused, KnownImage) as refused:
            found = refused
        path = self._folder / secrets.token_hex(16) / "image.png"
        path.parent.mkdir(parents=True)
        path.write_bytes(found.png if isinstance(found, Picture) else _EMPTY)
        with self._lock:
            self._waiting[str(path)] = _Upload(owner, visitor, self._clock(), found)
            self._taken.setdefault(visitor, deque(maxlen=UPLOADS_A_MINUTE_MAX)).append(self._clock())
            self._forget_of(visitor)
            self._forget_old()
        return str(path)

    def collect(self, paths: Sequence[str], owner: str) -> list[Picture]:
        """The images of uploads. Raises KnownImage, else Refused, for the first such one."""
        with self._lock:
            taken = [self._waiting.get(path) for path in paths]
        found = [each.found if each and each.owner == owner else Refused(UNREADABLE) for each in taken]
        for kind in (KnownImage, Refused):
            if bad := next((each for each in found if isinstance(each, kind)), None):
                raise bad
        return [each for each in found if isinstance(each, Picture)]

    def content(self, path: str, owner: str) -> bytes | None:
        """The new file of an upload, for the browser that sent it."""
        with self._lock:
            found = self._waiting.get(path)
        if found is None or found.owner != owner:
            return None
        return found.found.png if isinstance(found.found, Picture) else _EMPTY

    def discard(self, paths: Sequence[str], owner: str) -> None:
        """Delete uploads whose message was taken; after a refusal they wait for the next try."""
        with self._lock:
            theirs = [path for path in paths if path in self._waiting and self._waiting[path].owner == owner]
            for path in theirs:
                del self._waiting[path]
        for path in theirs:
            self._remove(path)

    def purge(self) -> None:
        """Delete what waits too long."""
        with self._lock:
            self._forget_old()

    @contextmanager
    def purged(self, every_seconds: float = _PURGE_SECONDS) -> Iterator[None]:
        """Meanwhile what waits too long is deleted, also when nobody uploads anything."""
        ended = threading.Event()

        def purge() -> None:
            while not ended.wait(every_seconds):
                self.purge()

        thread = threading.Thread(target=purge, daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def _forget_of(self, visitor: str) -> None:
        """A visitor's own oldest uploads make room for new ones, before those of others do."""
        of_visitor = [path for path, each in self._waiting.items() if each.visitor == visitor]
        for path in of_visitor[:-_WAITING_OF_ONE_MAX]:
            del self._waiting[path]
            self._remove(path)

    def _forget_old(self) -> None:
        now = self._clock()
        self._taken = {each: at for each, at in self._taken.items() if now - at[-1] < _WINDOW_SECONDS}
        while self._waiting:
            path, oldest = next(iter(self._waiting.items()))
            if len(self._waiting) <= _WAITING_MAX and self._clock() - oldest.at < KEPT_SECONDS:
                return
            del self._waiting[path]
            self._remove(path)

    def _remove(self, path: str) -> None:
        folder = Path(path).parent
        if folder.parent == self._folder:  # nothing but what `take` made
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def private_folder() -> Iterator[Path]:
    """A new folder for uploads, which is deleted in the end; before, those that killed arenas have left."""
    _sweep(Path(tempfile.gettempdir()))
    with tempfile.TemporaryDirectory(prefix=_FOLDER) as made, open(Path(made) / _HELD, "wb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield Path(made)


def _sweep(folder: Path) -> None:
    """Delete this user's folders of uploads whose process has ended."""
    for left in folder.glob(f"{_FOLDER}*"):
        with suppress(OSError):  # somebody else's, in use, or gone meanwhile
            if left.is_symlink() or left.stat().st_uid != os.getuid():
                continue
            with open(left / _HELD, "r+b") as held:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(left)


Listed = tuple[str, Path]
"""Path in the collection's index, and the file."""
_IN_MEMORY = 64
_TRIES = 5


def examples(admission: Admission, listed: Sequence[Listed], rng: Random) -> Callable[[], Picture]:
    """A function that gives a random example image; each passes the admission like an upload when it is first drawn.

    It raises Refused when several in a row cannot be used.
    """

    @lru_cache(_IN_MEMORY)
    def taken_in(path: str, file: Path) -> Picture:
        return admission.picture(file.read_bytes(), path)

    def drawn() -> Picture:
        for path, file in rng.sample(listed, min(_TRIES, len(listed))):
            try:
                return taken_in(path, file)
            except (Refused, KnownImage, OSError):
                continue
        raise Refused("No example image can be shown now.")

    return drawn
