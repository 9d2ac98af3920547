"""What a run did: one report a stage, kept in the store's `runs` folder."""

from schemas.row import Row


class StageReport(Row):
    """What one stage of a run did."""

    stage: str
    """Name of the stage."""
    seconds: float = 0.0
    """Wall time."""
    peak_memory_mb: float = 0.0
    """Largest resident size of the process so far, in MB."""
    counts: dict[str, int] = {}
    """What was counted: lines, pictures, conversations and so on."""
    model_calls: dict[str, int] = {}
    """Items measured, by signal."""
    failures: dict[str, int] = {}
    """Items that could not be measured, by `signal: reason`."""
    result: str = ""
    """What the stage made, relative to the store; empty when it only filled tables."""


class Funnel(Row):
    """Where every input line went. kept + dropped + rejected = lines."""

    lines: int
    """Input lines."""
    kept: int
    """Lines whose conversation or battle is released."""
    dropped: int
    """Lines whose conversation or battle a rule dropped or held, or that a later line replaced."""
    rejected: int
    """Lines that could not be used."""
    dropped_by: dict[str, int]
    """Dropped lines by the first reason in the policy's order; sums to `dropped`."""
    rejected_by: dict[str, int]
    """Rejected lines by reason; sums to `rejected`."""
    held: int = 0
    """Those of the dropped lines that only wait for a review."""
