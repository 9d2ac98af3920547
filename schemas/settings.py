"""The settings of a run: folders, policy, providers, budget, sizes. They are also the keys of `curate.yaml`."""

import os
from datetime import date
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, model_validator

from schemas.errors import BadInput
from schemas.rating import BothBad, Cluster, Interval, StylePreset
from schemas.row import Row

THREADS: Literal["threads"] = "threads"
"""The task runner that runs in this process."""
PLACE, NAME_OR_PLACE = "place", "name or place"
"""Marks of settings that are paths, or names that may be: in `curate.yaml`, relative to the folder of that file."""
StorePlace = Annotated[str | None, PLACE]
Variable = Literal[
    "CURATE_CALLS_AT_ONCE", "CURATE_CLIP_COMPILE", "CURATE_CLIP_DEVICES", "CURATE_CLIP_MODEL", "CURATE_CLIP_PRECISION",
    "CURATE_CLIP_PRETRAINED", "CURATE_DIFFUSERS_CALL", "CURATE_DIFFUSERS_WEIGHTS", "CURATE_GEMINI_BASE_URL",
    "CURATE_GEMINI_IMAGE_MODEL", "CURATE_GEMINI_MODEL", "CURATE_LOG_FORMAT", "CURATE_OCR_WEIGHTS",
    "CURATE_OPENAI_IMAGE_MODEL", "CURATE_OPENAI_MODEL",
    "CURATE_OPENAI_MODERATION_MODEL", "CURATE_OPENNSFW2_WEIGHTS", "CURATE_TIMEOUT_SECONDS",
    "CURATE_VISION_ENDPOINT", "CURATE_YUNET_WEIGHTS", "OPENAI_BASE_URL",
]  # fmt: skip
"""Variables of the environment that are no secret: providers read them, and CURATE_LOG_FORMAT=json is for log lines."""


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class TopicSettings(Row):
    """How topics are found (VisionArena sec. 4.2: UMAP and HDBSCAN)."""

    engine: Literal["umap", "evoc", "bertopic", "cuml"] = "umap"
    """Topic engine: umap (umap-learn and hdbscan), evoc (fast on a CPU), bertopic (production extra), cuml (GPU,
    untested)."""
    members_min: int | None = Field(default=None, ge=2)
    """Size of the smallest topic; by default 0.5 % of the documents, between 5 and 100."""
    neighbours: int = Field(default=15, ge=2)
    """Number of neighbours in UMAP."""
    dimensions: int = Field(default=5, ge=2)
    """Dimensions of the UMAP embedding that HDBSCAN clusters."""
    image_weight: float = Field(default=0.5, ge=0.0, le=1.0)
    """Weight of the image in a document's embedding, 0 to 1; the prompt has the rest."""
    document: Literal["auto", "mean", "concatenated", "text", "image"] = "auto"
    """How prompt and image embeddings are combined: mean (weighted, VisionArena sec. 6), concatenated, text only, or
    image only. auto: mean when one model embeds both, else concatenated."""
    single_turn: bool = True
    """Only prompts of conversations with one user message are fitted, as in VisionArena; the others are assigned."""
    needs_image: bool = True
    """Only prompts with an image are fitted; the others are assigned."""
    language: str | None = Field(default="en", pattern=r"^[A-Za-z-]{2,16}$")
    """Only prompts in this language (ISO 639) are fitted, the others are assigned; null for any."""
    refit_growth: float = Field(default=1.25, gt=1.0, le=10.0, allow_inf_nan=False)
    """Topics are fitted again when the documents have grown by this factor; until then new documents are assigned."""
    fit_max: int = Field(default=100_000, ge=100)
    """Maximum number of fitted documents; of more, a sample by content id is fitted and the others are assigned."""
    drift_max: float = Field(default=0.1, ge=0.0, le=1.0)
    """Topics are fitted again, at most four times while the documents grow by `refit_growth`, when a larger share of
    the new documents lies far from all fitted ones."""


class BenchSettings(Row):
    """Choice of the kept prompts that may be in the benchmark, how many are drawn, and the size of the hidden split."""

    size: int | None = Field(default=None, ge=0)
    """Size of the public split; by default 500, but at most a fifth of the eligible prompts, because benchmark prompts
    are left out of chat."""
    seats: Literal["even", "proportional"] = "even"
    """Prompts per topic in the public split: even (every topic counts the same) or proportional to the topic's size in
    the pool (models rank as on all prompts). Every topic has at least one prompt if the split is large enough."""
    single_turn: bool = True
    """Only prompts of conversations with one user message."""
    needs_image: bool = True
    """Only prompts with an image."""
    presets: bool = False
    """Whether prompts about the arena's own example images may be drawn."""
    language: str | None = Field(default="en", pattern=r"^[A-Za-z-]{2,16}$")
    """Only prompts in this language (ISO 639); null for any."""
    repeats: bool = False
    """Whether prompts that repeat an earlier one may be drawn."""
    per_user_max: int | None = Field(default=10, ge=1)
    """Maximum number of prompts of one user; null for no limit."""
    quality_weight: float = Field(default=0.0, ge=0.0, le=10.0)
    """How much harder prompts are preferred within a topic: a prompt that meets c of BenchBuilder's seven criteria has
    the weight (1 + c) ** quality_weight; 0 weighs all the same."""
    hidden_size: int = Field(default=50, ge=0)
    """Maximum size of the hidden split; 0 for none. WildVision's has 50."""
    hidden_fraction: float = Field(default=0.02, gt=0.0, le=0.5)
    """Share of all prompts that is reserved for the hidden split and never released while reserved."""
    hidden_months: int = Field(default=3, ge=1)
    """Months for which a prompt is reserved, counting the month it was first asked in."""
    hidden_epoch: str | None = Field(default=None, pattern=r"^\d{4}-(?:0[1-9]|1[0-2])$")
    """Month of the hidden split, YYYY-MM; by default the month of the last day of the data."""
    failure_judges_min: int = Field(default=2, ge=1)
    """People who must have voted both answers bad before a prompt counts as a failure."""
    failure_size: int = Field(default=100, ge=0)
    """Maximum size of the set of failures in a release, drawn evenly over their types."""


class EvaluateSettings(Row):
    """Models that answer the benchmark, and the judge that compares their answers (docs/judging.md)."""

    models: StorePlace = None
    """Models file (YAML), or answers made elsewhere: a file (docs/judging.md) or a folder of them."""
    judge: Annotated[str | None, NAME_OR_PLACE] = None
    """Models file (YAML) with the judge as its only entry, or embedded: a stand-in that needs no network."""
    protocol: Literal["visionarena", "wildvision", "visit"] = "visionarena"
    """Prompts and orders of the judge: visionarena (both orders), wildvision (baseline first, once) or visit (captions
    instead of images, both orders)."""
    with_reference: bool = False
    """Under visit: show the judge the verified reference, too."""
    captions: Literal["instruction", "generic"] = "instruction"
    """Under visit, and for answers from captions: captions written for the instruction, or generic ones that came with
    the items."""
    answer_from: Literal["images", "captions"] = "images"
    """What models see that answer a written benchmark: its images, or only the captions that `captions` names."""
    bench: str | None = None
    """Written benchmark that is used instead of the drawn one (docs/benchmarks.md)."""
    baseline: str | None = None
    """Model that every other one is compared with; under visit also reference, and by default every two models."""
    submission: StorePlace = None
    """File of a model's answers to a written benchmark, which are judged against others' (docs/judging.md)."""
    submitted_as: str | None = None
    """Name on the board of the model whose answers these are."""
    reference_battles: int = Field(default=150, ge=0)
    """Number of battles of a submission with the reference."""
    elo_order: Literal["given", "shuffled"] = "shuffled"
    """Order of the battles in sequential Elo on a board of submissions: by item, or shuffled by the seed."""
    bench_release: StorePlace = None
    """Folder of a release whose benchmark is used; by default the store's."""
    hidden: bool = False
    """Use the hidden split; only for models with `own: true` in their file."""
    sample: int | None = Field(default=None, ge=1)
    """Number of kept battles that the judge votes on."""
    generated: str | None = None
    """Name of a benchmark made by `curate bench generate`, which is used in place of the drawn one."""
    audit_modes: list[Literal["blind", "described", "all_a", "all_d"]] = ["blind", "described", "all_a", "all_d"]
    """How `curate bench audit` asks: without the image, with the description, with every key at A, or at the end."""


class GenerateSettings(Row):
    """A benchmark made on demand (docs/benchmarks.md)."""

    capability: Annotated[str, NAME_OR_PLACE] = "basic"
    """A shipped capability, or a YAML file."""
    name: str = Field(default="generated", pattern=r"^[a-z][a-z0-9_-]{0,40}$")
    """Name of the benchmark."""
    general: int = Field(default=4, ge=1, le=50)
    """General aspects."""
    fine: int = Field(default=6, ge=1, le=50)
    """Fine aspects of each general one."""
    per_aspect: int = Field(default=10, ge=1, le=1000)
    """Descriptions of each fine aspect and level."""
    levels: list[str] = Field(default=["easy", "medium", "hard"], min_length=1)
    """Difficulties."""
    graph: bool = True
    """Whether words that many descriptions share are kept out of later ones."""


class WrittenSettings(Row):
    """Settings of `curate bench write` (docs/benchmarks.md)."""

    name: str = ""
    """Name of the benchmark; sampled is the drawn one."""
    writer: Annotated[str, NAME_OR_PLACE] = "embedded"
    """Models file (YAML) with the writer as its only entry, or embedded: a stand-in."""
    hidden: bool = False
    """Write for hidden items, too; only a writer with `own: true` in its file."""


class RetentionSettings(Row):
    """How long what runs leave is kept; applied at the end of a whole run. `curate status` lists what would go."""

    keep_releases: int | None = Field(default=None, ge=1)
    """Newest releases whose data is kept; null for all. Never removed: the newest, those that are or were on the Hub,
    those whose benchmark is in use, manifests."""
    thin_releases: bool = False
    """Keep the last release of each day for a month, and the last of each month for ever, beside the newest that
    `keep_releases` says (one without it). `curate init` writes yes."""
    runs_days: int | None = Field(default=None, ge=1)
    """Days for which run records are kept; null for ever. Beside these stay the newest 30, with which the drift check
    compares, those of this month, whose cost its limits count, and the last of each kept release and of each series of
    `curate status --out`."""
    probes_days: int | None = Field(default=None, ge=1)
    """Days after which the planted probes are measured anew in an empty store; null for never."""
    prefect_days: int | None = Field(default=None, ge=1)
    """Days for which Prefect keeps the history of our flow runs: in the store, or on the server; null for ever."""


class Settings(Row):
    """Settings of one run; every key can be given in curate.yaml, on the command line, in prefect.yaml or in the UI."""

    config: str | None = None
    """Settings file (YAML), whose values hold where none is given; by default curate.yaml beside the store or here."""
    store: Annotated[str, PLACE] = ""
    """Folder of all tables and releases, local or s3://."""
    logs: StorePlace = None
    """Folder of raw arena logs, or of a published dataset."""
    source: str | None = None
    """Address of a PostgreSQL database that is read in place of logs, postgresql://USER@HOST/NAME. Its password is in
    PGPASSWORD or ~/.pgpass, never here."""
    format: str | None = None
    """Format of the logs, such as arena-logs or lmsys-chat; by default found from names and columns. `--format list`
    prints all of them."""
    images: StorePlace = None
    """Folder of the server's images; by default LOGS/serve_images."""
    presets: StorePlace = None
    """Folder of the arena's own example images, with presets.json; by default presets in or beside LOGS."""
    known_hashes: Annotated[list[str], PLACE] = []
    """File with hashes of known images, which are quarantined and never opened."""
    known_benchmarks: Annotated[list[str], NAME_OR_PLACE] = []
    """Benchmarks of others, each a folder of pictures and tables, a table, or a data set of the Hub: chats that
    show their pictures or ask their questions are tagged (docs/benchmarks.md)."""
    since: date | None = None
    """First day, YYYY-MM-DD in UTC: log files are read by the day in their names, and what is in a store is chosen by
    the day on which it was logged."""
    until: date | None = None
    """Last day, YYYY-MM-DD; it is included."""
    policy: Annotated[str, NAME_OR_PLACE] = "public_release"
    """Name of a shipped policy, or a YAML file (docs/policies.md)."""
    accept_drift: bool = False
    """Release although a rule drops a different share than in earlier runs; after a review."""
    accept_shrunk: bool = False
    """Let go of the rows of lines that log files have lost; after a look. Without it they stay, and the run is held."""
    failed_share_max: float = Field(default=0.02, ge=0.0, le=1.0)
    """Largest share of items for which a chosen provider may fail; above it the release is held, as it is when most
    items lack a signal that a rule needs. 1 releases anyway."""
    release: str | None = None
    """Version of the release, such as 1.2.0; by default the last day of its data, such as 2024.9.18."""
    models: Literal["embedded", "self_hosted", "vendors"] = "embedded"
    """All models in one word: embedded, self_hosted or vendors (docs/models.md); `curate doctor` says what it needs."""
    providers: dict[str, str] = {}
    """Provider of one capability, such as nsfw=opennsfw2 or nsfw=package.module:Class; others are those of `models`."""
    environment: dict[Variable, str] = {}
    """Variables that providers read, such as CURATE_OPENAI_MODEL, CURATE_YUNET_WEIGHTS or CURATE_CLIP_DEVICES
    (docs/models.md); those of the process win. Secrets are not among them: keys are exported, never written."""
    accept_embedded: list[str] = []
    """Publish although this capability was measured by an embedded stand-in, such as faces. Each is in the store's
    record and in the commit, and what it was measured to find is in the card."""
    prompts: Annotated[str | None, NAME_OR_PLACE] = None
    """Folder of prompts that take the place of ours, file by file (docs/models.md); `ours` names the shipped ones."""
    budget_usd: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """Budget for paid services in US dollars; items over budget are left for a later run."""
    month_usd_max: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """Cost of a month's runs of this store at paid services, in US dollars (UTC months); a run may spend what is left
    of it. `curate status` shows the month's sum by service, and against each limit."""
    month_usd_max_by: dict[str, Annotated[float, Field(ge=0, allow_inf_nan=False)]] = {}
    """The same by provider: a name of the price file, or the beginning of several. `openai` is all of OpenAI."""
    over_budget: Literal["hold", "part"] = "hold"
    """What `curate run` does when its estimate is above what budget and month leave: hold, before anything is sent to a
    paid service; or part, measure what they pay for and leave the rest for later runs."""
    prices: StorePlace = None
    """Price file (YAML); by default the shipped one, which you should check."""
    batch: bool = False
    """Call language models through their vendor's batch API: slow, at half the price."""
    batch_hours: float = Field(default=24.0, ge=0, allow_inf_nan=False)
    """Hours to wait for batches; the next run collects the rest."""
    seed: int = 0
    """Seed of all random draws."""
    redraw: bool = False
    """Find topics and draw the benchmark as a new store would. By default a change of policy, signal versions or
    reviews alone keeps the topics, and a change of policy the benchmark (docs/concepts.md)."""
    workers: int = Field(default_factory=_cores, ge=1)
    """Threads, and processes that read logs; with Dask or Ray, processes that measure. By default one per core."""
    memory_gb: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Memory of a join in GB; what exceeds it is written to `TMPDIR`. By default 0.25."""
    spill_gb: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Largest amount that a join may write to `TMPDIR`, in GB; null for what is free there."""
    task_runner: Literal["threads", "dask", "ray"] = THREADS
    """Where images and texts are measured: threads of this process, or processes of Dask or Ray (docs/operating.md)."""
    task_runner_address: str | None = None
    """A running Dask scheduler or Ray cluster; by default a local one is started for the run."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where local models of images run: auto (an NVIDIA card where one is), cpu, or cuda, which every process without a
    card refuses."""
    gpus_a_worker: float | None = Field(default=None, gt=0, le=1)
    """Share of a card that each process of Dask or Ray has. By default Ray on this machine shares all cards evenly;
    workers of a Dask scheduler must have been started with `--resources GPU=1`."""
    topics: TopicSettings = TopicSettings()
    """How topics are found."""
    bench: BenchSettings = BenchSettings()
    """Filters and sizes of the benchmark."""
    evaluate: EvaluateSettings = EvaluateSettings()
    """Models, judge and protocol of `curate judge`."""
    written: WrittenSettings = WrittenSettings()
    """Benchmark and model of `curate bench write`."""
    generate: GenerateSettings = GenerateSettings()
    """What `curate bench generate` makes."""
    retention: RetentionSettings = RetentionSettings()
    """How long releases, run records, probes and Prefect's rows are kept."""
    with_answers: bool = False
    """Also release the texts of answers to the benchmark and of verdicts on them, screened and redacted by the
    policy."""
    judge_version: str | None = None
    """Judge version whose board is printed or released; a release by default has the one with most verdicts on the
    benchmark."""
    bootstraps: int = Field(default=100, ge=2)
    """Bootstrap rounds of intervals."""
    anchor_model: str | None = None
    """Model whose rating is fixed, and the rating; by default the mean of those with 100 battles is 1000."""
    anchor_rating: float = 1000.0
    """Rating of the anchor."""
    interval: Interval = Interval.SANDWICH
    """Method of the 95 % intervals of leaderboards."""
    cluster: Cluster | None = None
    """Intervals from a bootstrap of whole questions, judges or users, whose votes are dependent."""
    both_bad: BothBad = BothBad.TIE
    """What both-bad votes count as on leaderboards."""
    elo_k: float = Field(default=4.0, gt=0, allow_inf_nan=False)
    """Rating points that one vote can move a model in sequential Elo."""
    style_preset: StylePreset = StylePreset.FASTCHAT
    """Normalisation and penalty of style control."""
    exclude_outlier_judges: bool = False
    """Leave out voters whose votes contradict those of others."""

    @property
    def has_budget(self) -> bool:
        """Whether costs are limited, so that each paid service needs a price."""
        return self.budget_usd is not None or self.has_month_limit

    @property
    def has_month_limit(self) -> bool:
        """Whether the cost of a month's runs is limited."""
        return self.month_usd_max is not None or bool(self.month_usd_max_by)

    @model_validator(mode="after")
    def _database(self) -> Self:
        if self.source is None:
            return self
        if self.logs is not None:
            raise BadInput("--logs and --source are both given, and a store is of one of them; leave one out")
        try:
            address = urlsplit(self.source)
            has_password = address.password is not None
        except ValueError:
            raise BadInput("--source is no address; write postgresql://USER@HOST/NAME") from None
        if has_password or "password" in address.query.lower():
            raise BadInput(
                "--source has a password in it, which others could read in lists of processes and in records; take it "
                "out, and export PGPASSWORD, or write it to ~/.pgpass"
            )
        if address.scheme not in ("postgresql", "postgres"):
            raise BadInput("--source is no address of a PostgreSQL database; write postgresql://USER@HOST/NAME")
        return self

    @model_validator(mode="after")
    def _places_and_window(self) -> Self:
        if "store" not in self.model_fields_set and self.config is None:
            raise BadInput("--store is not given: name the folder of all tables and releases")
        if self.since and self.until and self.until < self.since:
            raise BadInput(f"--until {self.until} is before --since {self.since}; give the earlier day as --since")
        return self
