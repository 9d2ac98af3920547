"""How many planted problems a pipeline handled correctly."""

from schemas.row import Row


class PlantedScore(Row):
    """One kind of planted problem in one store."""

    kind: str
    """What was planted, as `expected.jsonl` calls it."""
    planted: int
    """How many there are."""
    caught: int
    """How many were handled correctly."""
    missed: int
    """How many were not."""
    missed_ids: list[str]
    """Conversation or battle ids, or file and line, of the others."""
