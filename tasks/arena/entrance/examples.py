"""The arena's own example images: the collection that `curate ingest` recognizes in the logs."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from random import Random

from tasks.arena.conversations import Picture
from tasks.arena.entrance.admission import Admission, KnownImage, Refused

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
