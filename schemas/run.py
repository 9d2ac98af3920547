"""Run records: one report per stage, kept in the store's `runs` folder."""

from collections.abc import Iterator

from pydantic import computed_field

from schemas.row import Row

WORKED_ON = {
    "canaries": "probes",
    "read_logs": "lines",
    "take_in_images": "files",
    "assemble": "conversations",
    "near_images": "searched",
    "decide": "items",
    "topics": "documents",
    "bench": "pool",
    "rate": "battles",
    "report": "sections",
    "release": "chat",
}
"""Stage -> the count that rows per second are computed from; measuring stages use the number of measured items."""

LATER_CAUSES = {"service_down": 1, "budget_reached": 2, "waiting_for_batch": 3}
"""Failures that follow from others, or only wait for a later run, in the order in which they are named."""


class Use(Row):
    """Requests to one service, and their price by the price file."""

    calls: int = 0
    """Requests that were sent."""
    units: int = 0
    """Billed units: one feature of one image."""
    input_tokens: int = 0
    """Input tokens, as the service counted them."""
    output_tokens: int = 0
    """Output tokens, as the service counted them, including thinking."""
    usd: float = 0.0
    """Price of the counted usage, in US dollars."""
    usd_unconfirmed: float = 0.0
    """Upper bound of the cost of calls without a usage report (timed out, cut off, malformed), in US dollars."""

    def plus(self, other: "Use") -> "Use":
        """The sum of both."""
        return Use(**{name: getattr(self, name) + getattr(other, name) for name in Use.model_fields})

    def minus(self, other: "Use") -> "Use":
        """The difference to an earlier count."""
        return Use(**{name: getattr(self, name) - getattr(other, name) for name in Use.model_fields})


class DropCounts(Row):
    """How many of a store's conversations each reason drops or holds, for the drift check of later runs."""

    policy_hash: str
    """The policy that was applied."""
    conversations: int
    """Conversations with a decision."""
    by_reason: dict[str, int]
    """Conversations by reason; a conversation with several reasons counts once for each."""


class StageReport(Row):
    """The report of one stage."""

    stage: str
    """Name of the stage."""
    seconds: float = 0.0
    """Wall time."""
    peak_memory_mb: float = 0.0
    """Peak resident memory of the process so far, in MB."""
    counts: dict[str, int] = {}
    """Counts of lines, images, conversations and so on."""
    model_calls: dict[str, int] = {}
    """Items measured, by signal."""
    failures: dict[str, int] = {}
    """Items that could not be measured, by `signal: reason`."""
    use: dict[str, Use] = {}
    """Use of paid services, by service."""
    drops: DropCounts | None = None
    """Drop counts so far; only of the drift stage."""
    result: str = ""
    """Path of the stage's output relative to the store; empty when it only wrote tables."""
    notes: list[str] = []
    """Remarks for the reader, one sentence each."""

    @computed_field  # type: ignore[prop-decorator]  # mypy does not know decorated properties
    @property
    def rows_per_second(self) -> float | None:
        """Items processed per second; null when there were none."""
        rows = sum(self.model_calls.values()) or self.counts.get(WORKED_ON.get(self.stage, ""), 0)
        return round(rows / self.seconds, 1) if rows and self.seconds else None


class Funnel(Row):
    """Input lines by outcome. kept + dropped + rejected = lines."""

    lines: int
    """Input lines."""
    kept: int
    """Lines whose conversation or battle is released."""
    dropped: int
    """Lines whose conversation or battle was dropped or held, or that a later line replaced."""
    rejected: int
    """Rejected lines."""
    dropped_by: dict[str, int]
    """Dropped lines by the first reason in the policy's order; sums to `dropped`."""
    rejected_by: dict[str, int]
    """Rejected lines by reason; sums to `rejected`."""
    held: int = 0
    """Dropped lines that only wait for a review."""

    def reasons(self) -> Iterator[tuple[str, str, int]]:
        """(dropped or rejected, reason, lines)."""
        for outcome, counts in (("dropped", self.dropped_by), ("rejected", self.rejected_by)):
            yield from ((outcome, reason, lines) for reason, lines in counts.items())


class Estimate(Row):
    """Estimated use of one service, before anything is spent."""

    service: str
    """Name in the price file."""
    mode: str
    """`one by one`, or `batch` (the vendor's overnight interface)."""
    signals: str
    """Signals that would be measured."""
    items: int
    """Images or prompts without a signal."""
    calls: int
    """Requests, without retries."""
    units: int = 0
    """Billed units: one feature of one image."""
    input_tokens: int = 0
    """Input tokens, by the shipped tokenizer and the price file's rule for images."""
    output_tokens: int = 0
    """Output tokens, without thinking."""
    usd: float | None
    """Expected cost in US dollars; null when the price file has no price."""
    usd_most: float | None
    """Cost if every answer had the maximum length; null when the price file has no price."""
