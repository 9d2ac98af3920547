"""How a pipeline dealt with problems that were planted in its input."""

from schemas.row import Row


class PlantedScore(Row):
    """One kind of planted problem in one store."""

    kind: str
    """What was planted, as `expected.jsonl` calls it."""
    good_outcome: str
    """What a good pipeline does with it."""
    planted: int
    """How many there are."""
    caught: int
    """How many the pipeline dealt with as it should."""
    missed: int
    """The others."""
    missed_ids: list[str]
    """Conversation or battle ids, or file and line, of the others."""
