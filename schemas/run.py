"""What a run did: one report a stage, kept in the store's `runs` folder."""

from pydantic import computed_field

from schemas.row import Row

WORKED_ON = {
    "canaries": "probes",
    "read_logs": "lines",
    "take_in_pictures": "files",
    "assemble": "conversations",
    "near_pictures": "searched",
    "decide": "items",
    "topics": "documents",
    "bench": "pool",
    "rate": "battles",
    "report": "sections",
    "release": "chat",
}
"""Which count of a stage says how much it worked on; measuring stages count what they measured."""


class Use(Row):
    """What one service was asked and what it costs by the price file."""

    calls: int = 0
    """Requests that were sent."""
    units: int = 0
    """Billed units: one feature of one picture."""
    input_tokens: int = 0
    """Tokens sent, as the service counted them."""
    output_tokens: int = 0
    """Tokens answered, as the service counted them, thinking included."""
    usd: float = 0.0
    """Price of what the service counted, in US dollars."""
    usd_unconfirmed: float = 0.0
    """The most that calls without any bill (timed out, cut off, garbage) may have cost, in US dollars."""

    def plus(self, other: "Use") -> "Use":
        """Both together."""
        return Use(**{name: getattr(self, name) + getattr(other, name) for name in Use.model_fields})

    def minus(self, other: "Use") -> "Use":
        """What came after `other`."""
        return Use(**{name: getattr(self, name) - getattr(other, name) for name in Use.model_fields})


class DropCounts(Row):
    """How many of a store's conversations each reason drops or holds: what the next run is compared with."""

    policy_hash: str
    """The policy that was applied."""
    conversations: int
    """Conversations that were decided about."""
    by_reason: dict[str, int]
    """Conversations by reason; one that several reasons drop counts for each."""


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
    use: dict[str, Use] = {}
    """What paid services were asked, by service."""
    drops: DropCounts | None = None
    """What was dropped so far, when the stage looked for drift."""
    result: str = ""
    """What the stage made, relative to the store; empty when it only filled tables."""
    notes: list[str] = []
    """What a reader should know that no count says, a sentence each."""

    @computed_field  # type: ignore[prop-decorator]  # mypy does not know decorated properties
    @property
    def rows_per_second(self) -> float | None:
        """What the stage worked on, in a second; null when that was nothing."""
        rows = sum(self.model_calls.values()) or self.counts.get(WORKED_ON.get(self.stage, ""), 0)
        return round(rows / self.seconds, 1) if rows and self.seconds else None


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


class Estimate(Row):
    """What one service would be asked, before anything is spent."""

    service: str
    """Name in the price file."""
    mode: str
    """`one by one`, or `batch` (the vendor's overnight interface)."""
    signals: str
    """Signals that would be measured."""
    items: int
    """Pictures or prompts without a fact."""
    calls: int
    """Requests, without repeats after failures."""
    units: int = 0
    """Billed units: one feature of one picture."""
    input_tokens: int = 0
    """Tokens sent, by the shipped counter and the price file's rule for pictures."""
    output_tokens: int = 0
    """Tokens answered, without thinking."""
    usd: float | None
    """Expected price in US dollars; null when the price file has none."""
    usd_most: float | None
    """Price if every answer were as long as allowed; null when the price file has none."""
