"""What a run is told: where things are, who measures, and how much."""

import os
from datetime import date
from typing import Literal, Self

from pydantic import Field, model_validator

from schemas.errors import BadInput
from schemas.rating import BothBad, Interval, StylePreset
from schemas.row import Row

THREADS: Literal["threads"] = "threads"
"""Task runner that needs no other process."""


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class TopicSettings(Row):
    """How topics are found (VisionArena sec. 4.2: UMAP and HDBSCAN)."""

    engine: Literal["umap", "evoc", "bertopic", "cuml"] = "umap"
    """What finds them: umap (umap-learn and hdbscan), evoc (fast on a CPU), bertopic (production extra), cuml (GPU,
    untested)."""
    members_min: int | None = Field(default=None, ge=2)
    """Smallest topic; by default 0.5 % of the documents, between 5 and 100."""
    neighbours: int = Field(default=15, ge=2)
    """UMAP's neighbourhood."""
    dimensions: int = Field(default=5, ge=2)
    """Dimensions HDBSCAN clusters in."""
    picture_weight: float = Field(default=0.5, ge=0.0, le=1.0)
    """Weight of the picture against the prompt in a document's embedding."""
    document: Literal["auto", "mean", "concatenated", "text", "picture"] = "auto"
    """What a document's embedding is made of: the weighted mean of its prompt and pictures (VisionArena sec. 6), both
    side by side, one of them alone, or by default the mean where one model embeds both, else side by side."""
    refit_growth: float = Field(default=1.25, gt=1.0, le=10.0, allow_inf_nan=False)
    """Topics are fitted anew when the documents have grown by this factor; others are assigned to them till then."""
    fit_max: int = Field(default=100_000, ge=100)
    """Most documents that are fitted; beyond, a sample by content id is, and the others are assigned."""
    drift_max: float = Field(default=0.1, ge=0.0, le=1.0)
    """Share of documents since the fit that may lie far from all fitted ones before all are fitted anew."""


class BenchSettings(Row):
    """Which kept prompts may be in the benchmark, how many are drawn, and what stays hidden."""

    size: int | None = Field(default=None, ge=0)
    """Prompts of the public split, exactly where there are as many; by default 500, or a fifth of the eligible
    prompts when that is less, because what is in the benchmark is not in chat."""
    seats: Literal["even", "proportional"] = "even"
    """Seats of topics in the public split: even, so that every kind of question counts the same, or proportional to the
    prompts they have in the pool, so that models rank as on all prompts. Every topic has one if there are enough."""
    single_turn: bool = True
    """Only prompts of conversations with one user message."""
    needs_picture: bool = True
    """Only prompts that show a picture."""
    presets: bool = False
    """Whether prompts on the arena's own example pictures may be drawn."""
    language: str | None = Field(default="en", pattern=r"^[A-Za-z-]{2,16}$")
    """Only prompts in this language (ISO 639); null for any."""
    repeats: bool = False
    """Whether prompts that say what an earlier one says may be drawn."""
    per_user_max: int | None = Field(default=10, ge=1)
    """Prompts of one user at most; null for any number."""
    quality_weight: float = Field(default=0.0, ge=0.0, le=10.0)
    """How much harder prompts are preferred within a topic: a prompt that meets c of BenchBuilder's seven criteria
    counts (1 + c) to this power; 0 counts all alike."""
    hidden_size: int = Field(default=50, ge=0)
    """Prompts of the hidden split at most; 0 for none. WildVision's has 50."""
    hidden_fraction: float = Field(default=0.02, gt=0.0, le=0.5)
    """Share of all prompts that are reserved for the hidden split and released in nothing."""
    hidden_months: int = Field(default=3, ge=1)
    """Months that a prompt is reserved for, the one it was first asked in included; then it is like any other."""
    hidden_epoch: str | None = Field(default=None, pattern=r"^\d{4}-(?:0[1-9]|1[0-2])$")
    """Month of the hidden split, YYYY-MM; by default that of the last day of the data."""


class Settings(Row):
    """Settings of one run; every key can be given on the command line, in prefect.yaml or in the UI."""

    store: str
    """Folder of all tables and releases, local or on an object store."""
    logs: str | None = None
    """Folder of raw arena logs."""
    format: str | None = None
    """What `logs` holds, as `arena-logs` or `lmsys-chat`; by default known by file names and columns."""
    images: str | None = None
    """Folder of the server's pictures; by default `serve_images` in the log folder."""
    presets: str | None = None
    """Folder of the preset collection (presets.json); by default `presets` in or beside the log folder."""
    known_hashes: list[str] = []
    """Files of hashes of known pictures, which are quarantined and never opened again."""
    since: date | None = None
    """First day of log files to read."""
    until: date | None = None
    """Last day of log files to read."""
    policy: str = "public_release"
    """Name of a shipped policy, or a YAML file."""
    accept_drift: bool = False
    """Whether to release although a rule drops more or less than it used to: somebody has looked."""
    release: str | None = None
    """Version of the release; by default the last day of its data, as 2024.9.18."""
    providers: dict[str, str] = {}
    """Capability -> provider; every other capability uses its embedded default."""
    budget_usd: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """The most that paid services may cost in this run, in US dollars; what is then left is measured by a later run."""
    prices: str | None = None
    """Price file (YAML); by default the shipped one, whose prices must be checked."""
    batch: bool = False
    """Whether language models are asked overnight, in their vendor's batches at a lower price, and not one by one."""
    batch_hours: float = Field(default=24.0, ge=0, allow_inf_nan=False)
    """How long a run waits for batches; what is not answered by then is taken up by the next run."""
    seed: int = 0
    """Seed of topics, sample and bootstrap."""
    workers: int = Field(default_factory=_cores, ge=1)
    """Threads that decode and measure; with Dask or Ray, processes."""
    task_runner: Literal["threads", "dask", "ray"] = THREADS
    """Where shards of pictures and texts are measured: threads of this process, or processes of Dask or Ray."""
    task_runner_address: str | None = None
    """A running Dask scheduler or Ray cluster; by default a local one is started for the run."""
    topics: TopicSettings = TopicSettings()
    """How topics are found."""
    bench: BenchSettings = BenchSettings()
    """What may be in the benchmark, and how much of it."""
    bootstraps: int = Field(default=100, ge=2)
    """Rounds of the leaderboards' bootstrap intervals."""
    anchor_model: str | None = None
    """Model whose rating is fixed; by default the mean of all models is 1000."""
    anchor_rating: float = 1000.0
    """Rating of the anchor."""
    interval: Interval = Interval.SANDWICH
    """How the leaderboards' 95 % intervals are made: sandwich or bootstrap."""
    both_bad: BothBad = BothBad.TIE
    """What a both-bad vote counts as on the leaderboards: tie or exclude."""
    elo_k: float = Field(default=4.0, gt=0, allow_inf_nan=False)
    """Rating points that one vote can move a model in sequential Elo."""
    style_preset: StylePreset = StylePreset.FASTCHAT
    """Normalisation and penalty of style control: fastchat or arena-rank."""
    exclude_outlier_judges: bool = False
    """Whether voters that the outlier test finds are left out of the leaderboards."""

    @model_validator(mode="after")
    def _window(self) -> Self:
        if self.since and self.until and self.until < self.since:
            raise BadInput(f"--until {self.until} is before --since {self.since}; give the earlier day as --since")
        return self
