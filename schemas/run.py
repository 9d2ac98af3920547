"""Run records: one report per stage, in the store's `runs` folder; prices of services; planted problems caught."""

import math
from collections.abc import Iterable, Iterator

from pydantic import Field, computed_field

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

PAUSED = "service_paused"
"""Failure of a call that is not made, because the calls to its service before it failed."""
LATER_CAUSES = {PAUSED: 1, "budget_reached": 2, "waiting_for_batch": 3, "batch_unfinished": 4}
"""Failures that follow from others, or only wait for a later run, in the order in which they are named."""
SETUP_FAILURES = {
    "http_401": "the key is refused",
    "http_402": "the account is out of money",
    "http_403": "the key may not do this",
    "http_404": "no such model or address",
    "key_refused": "the key is refused",
    "not_signed_in": "the credentials are refused",
    "permission_denied": "the credentials may not do this",
    "quota_used_up": "the quota is used up",
    "temperature_refused": "change `temperature` in the models file, or give null",
    "unauthenticated": "the credentials are refused",
}
"""Failures that are the same for every item, whatever it holds -> what they mean."""


def in_words(reason: str) -> str:
    """The reason of a failure, after what it means if it is one of `SETUP_FAILURES`."""
    return f"{SETUP_FAILURES[reason]} ({reason})" if reason in SETUP_FAILURES else reason


class Use(Row):
    """Requests to one service, and their price by the price file."""

    calls: int = 0
    """Requests that were sent."""
    calls_unpriced: int = 0
    """Of these, requests whose price the price file does not have; they count as nothing in US dollars."""
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
    usd_settled: float = 0.0
    """Part of `usd_unconfirmed` of an earlier run of the same month whose price is known now, in US dollars."""

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


class ExpectedCost(Row):
    """Calls that a run is expected to make to one paid service, their cost, and that of the month's runs before it."""

    service: str
    """Name in the price file."""
    calls: int
    """Requests, without retries."""
    usd: float | None
    """Expected cost in US dollars; null when the price file has no price."""
    usd_most: float | None
    """Cost if every answer had the maximum length; null when the price file has no price."""
    month_usd: float
    """Cost of this month's earlier runs, with what is unconfirmed, in US dollars."""


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
    expected: list[ExpectedCost] = []
    """What the rest of the run is expected to cost at paid services; only of the stage `costs`."""
    drops: DropCounts | None = None
    """Drop counts so far; only of the drift stage."""
    result: str = ""
    """Path of the stage's output relative to the store; empty when it only wrote tables."""
    made_from: str = ""
    """Digest of all that a release was made from; empty for other stages."""
    changed: list[str] = []
    """What a new release has anew since the one before it, one line each."""
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
    held_conversations: int = 0
    """Conversations of these lines, as the queue of reviews counts them; a battle's line has two."""

    def reasons(self) -> Iterator[tuple[str, str, int]]:
        """(dropped or rejected, reason, lines)."""
        for outcome, counts in (("dropped", self.dropped_by), ("rejected", self.rejected_by)):
            yield from ((outcome, reason, lines) for reason, lines in counts.items())


class Removable(Row):
    """Parts of a store that `retention` of the settings no longer keeps."""

    releases: list[str] = []
    """Versions whose data goes; their manifests stay."""
    runs: list[str] = []
    """Paths of run records in the store."""
    probes: bool = False
    """Whether the probes' own store goes; the next run makes it again."""

    @property
    def counts(self) -> dict[str, int]:
        """How many of each, where there are any."""
        every = {"releases": len(self.releases), "run records": len(self.runs), "probes": int(self.probes)}
        return {name: count for name, count in every.items() if count}


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


class Scale(Row):
    """Time and room that a first run over a folder of logs takes."""

    lines: int
    """Lines of the log files."""
    conversations: int
    """Conversations that the lines show."""
    messages: int
    """Messages of these; a text that several have is measured once."""
    images: int
    """Image names that the lines show."""
    workers: int
    """Cores that work at the same time."""
    hours: float
    """Expected hours with the embedded models; near-duplicates, topics and ratings are included."""
    peak_mb: int
    """Expected peak memory."""
    disk_mb: int
    """Expected size of the store with one release."""


class ImagePrice(Row):
    """How a vendor counts the tokens of an image."""

    tile_pixels: int = Field(gt=0)
    """Side of one tile."""
    tiles_max: int = Field(gt=0)
    """Maximum tiles of one image."""
    tokens_a_tile: float = Field(ge=0, allow_inf_nan=False)
    """Tokens billed for each tile."""


class Price(Row):
    """The source of a price."""

    source: str = ""
    """Page that states the price."""
    date: str = ""
    """Day it was read, YYYY-MM-DD."""
    confirmed: bool = False
    """Whether it was read from the vendor's page."""


class TokenRate(Row):
    """Price of the tokens of a language model."""

    input_usd_per_million: float = Field(ge=0, allow_inf_nan=False)
    """US dollars per million input tokens."""
    output_usd_per_million: float = Field(ge=0, allow_inf_nan=False)
    """US dollars per million output tokens."""

    def usd(self, input_tokens: float, output_tokens: float) -> float:
        """US dollars of one call."""
        return (input_tokens * self.input_usd_per_million + output_tokens * self.output_usd_per_million) / 1e6


class TokenPrice(TokenRate, Price):
    """Price of a language model."""

    batch_share: float = Field(default=1.0, ge=0, le=1)
    """Price of the vendor's batch API as a fraction of this price."""
    image: ImagePrice
    """Tokens of images."""

    def batch_usd(self, input_tokens: float, output_tokens: float) -> float:
        """US dollars of one question in a batch."""
        return self.batch_share * self.usd(input_tokens, output_tokens)

    def image_tokens(self, width: int, height: int) -> int:
        """Tokens of an image of this size in pixels, as sent."""
        side = self.image.tile_pixels
        tiles = min(self.image.tiles_max, math.ceil(width / side) * math.ceil(height / side))
        return math.ceil(tiles * self.image.tokens_a_tile)


class UnitPrice(Price):
    """Price of a service that bills units."""

    usd_per_thousand: float = Field(ge=0, allow_inf_nan=False)
    """US dollars per thousand units."""


class Prices(Row):
    """A price file."""

    token_prices: dict[str, TokenPrice] = Field(default={}, alias="tokens")
    """By vendor and model."""
    unit_prices: dict[str, UnitPrice] = Field(default={}, alias="units")
    """By service."""

    def tokens(self, service: str) -> TokenPrice | None:
        """Price of a model; None when the file has none."""
        return self.token_prices.get(service)

    def unit_usd(self, service: str) -> float | None:
        """US dollars of one unit; None when the file has no price."""
        price = self.unit_prices.get(service)
        return None if price is None else price.usd_per_thousand / 1000

    def is_free(self, service: str) -> bool:
        """Whether the file says that a service costs nothing."""
        tokens, unit_usd = self.tokens(service), self.unit_usd(service)
        has_price = tokens is not None or unit_usd is not None
        return has_price and not unit_usd and (tokens is None or tokens.usd(1, 1) == 0)

    def doubts(self, services: Iterable[str]) -> list[str]:
        """A line for each of these services whose price was not read from the vendor's page."""
        prices_by_name = {**self.token_prices, **self.unit_prices}
        named_prices = ((name, prices_by_name[name]) for name in sorted(set(services)) if name in prices_by_name)
        return [
            f"the price of {name} is not confirmed: {price.source or 'no source'}, {price.date or 'no date'}; check it "
            "against the vendor's page, and give a corrected copy as --prices FILE"
            for name, price in named_prices
            if not price.confirmed
        ]


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
