"""What a run is told: where things are, who measures, and how much."""

import os
from datetime import date
from typing import Literal, Self

from pydantic import Field, model_validator

from schemas.errors import BadInput
from schemas.rating import BothBad, Interval, StylePreset
from schemas.row import Row


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class TopicSettings(Row):
    """How topics are found (VisionArena sec. 4.2: UMAP and HDBSCAN)."""

    engine: Literal["core", "umap", "bertopic", "cuml"] = "core"
    """What finds them: core (our UMAP), umap (umap-learn), bertopic (production extra), cuml (GPU, untested)."""
    members_min: int | None = Field(default=None, ge=2)
    """Smallest topic; by default 1 % of the documents, between 5 and 100."""
    neighbours: int = Field(default=15, ge=2)
    """UMAP's neighbourhood."""
    dimensions: int = Field(default=5, ge=2)
    """Dimensions HDBSCAN clusters in."""
    picture_weight: float = Field(default=0.5, ge=0.0, le=1.0)
    """Weight of the picture against the prompt in a document's embedding."""


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
    """Threads that decode and measure."""
    topics: TopicSettings = TopicSettings()
    """How topics are found."""
    bench_size: int | None = Field(default=None, ge=0)
    """Prompts drawn for the benchmark, exactly where there are as many; by default 500, or a fifth of the
    eligible prompts when that is less, because what is in the benchmark is not in chat."""
    bench_language: str | None = "en"
    """Language of benchmark prompts (ISO 639); null for any."""
    bootstraps: int = Field(default=100, ge=2)
    """Bootstrap rounds of the leaderboards."""
    anchor_model: str | None = None
    """Model whose rating is fixed; by default the mean of all models is 1000."""
    anchor_rating: float = 1000.0
    """Rating of the anchor."""
    interval: Interval = Interval.BOOTSTRAP
    """How the leaderboards' 95 % intervals are made: bootstrap or sandwich."""
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
