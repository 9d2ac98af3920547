"""What ingest is given to look at the pictures it decodes. It is measuring, of which ingest knows nothing."""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Protocol

from tasks.pixels.pictures import Picture

Written = tuple[list[tuple[str, str]], Any]
"""(parts, what the looker counts): parts are (table, part), no list names them yet, and their rows have the picture's
id as `content_id`."""


class Looker(Protocol):
    """Sees freshly decoded pictures. Travels to other processes, which load their own models."""

    def look(self, pictures: Sequence[Picture]) -> Any:
        """What there is to see; safe on any thread."""
        ...

    def write(self, seen: Sequence[Any], image_ids: AbstractSet[str]) -> Written:
        """Write what `look` saw in these pictures as parts."""
        ...

    def count(self, done: Any) -> None:
        """Count what was done, in this process or another."""
        ...


class NoLook:
    """Sees nothing: pictures are taken in and not measured."""

    def look(self, pictures: Sequence[Picture]) -> None:
        """Nothing."""

    def write(self, seen: Sequence[None], image_ids: AbstractSet[str]) -> Written:
        """No part."""
        return [], None

    def count(self, done: None) -> None:
        """Nothing."""
