"""Options shared by several commands, and the settings made from them."""

import math
from collections.abc import Iterable
from datetime import date, datetime
from typing import Annotated, Any, get_args

import typer
from pydantic import ValidationError

from schemas.errors import BadInput, known_values
from schemas.publication import Compat
from schemas.rating import BothBad, Cluster, Interval, StylePreset
from schemas.row import Row
from schemas.settings import BenchSettings, Settings, TopicSettings
from tasks.policy import SHIPPED

CompatOption = Annotated[
    Compat | None, typer.Option("--compat", help="Also write the release with the columns of this published dataset.")
]
StoreOption = Annotated[str, typer.Option("--store", help="Folder of all tables and releases, local or s3://.")]
LogsOption = Annotated[str, typer.Option("--logs", help="Folder of raw arena logs, or of a published dataset.")]
FormatOption = Annotated[
    str | None,
    typer.Option(
        "--format",
        help="Format of the logs: arena-logs, a dataset format, or one of another package.",
        show_default="detected",
    ),
]
ImagesOption = Annotated[
    str | None, typer.Option("--images", help="Folder of the server's images.", show_default="LOGS/serve_images")
]
PresetsOption = Annotated[
    str | None,
    typer.Option(
        "--presets",
        help="Folder of the arena's own example images, with presets.json.",
        show_default="LOGS/presets or beside LOGS",
    ),
]
KnownHashesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--known-hashes", help="File with hashes of known images, which are quarantined and never opened; repeatable."
    ),
]
SinceOption = Annotated[str | None, typer.Option("--since", help="First day of log files, YYYY-MM-DD.")]
UntilOption = Annotated[str | None, typer.Option("--until", help="Last day of log files, YYYY-MM-DD.")]
PolicyOption = Annotated[
    str, typer.Option("--policy", help=f"Policy: {', '.join(SHIPPED)}, or a YAML file (docs/policies.md).")
]
DecideDryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Only print what the policy would keep and drop, by reason; write nothing.")
]
AcceptDriftOption = Annotated[
    bool, typer.Option("--accept-drift", help="Release although a rule drops a different share than in earlier runs.")
]
FailedShareOption = Annotated[
    float,
    typer.Option(
        "--failed-share-max", min=0, max=1, help="Hold the release when a chosen provider fails for a larger share."
    ),
]
ReleaseOption = Annotated[
    str | None,
    typer.Option("--release", help="Version of the release, such as 1.2.0.", show_default="last day of its data"),
]
WithAnswersOption = Annotated[
    bool,
    typer.Option(
        "--with-answers",
        help="Also release the texts of answers to the benchmark and of verdicts on them, screened by the policy.",
    ),
]
JudgeVersionOption = Annotated[
    str | None,
    typer.Option(
        "--judge-version",
        help="Judge version whose board is released; by default the one with most verdicts on the benchmark.",
    ),
]
ProviderOption = Annotated[
    list[str] | None,
    typer.Option(
        "--provider",
        help="CAPABILITY=NAME, for example nsfw=opennsfw2, or CAPABILITY=my_package.module:Class; repeatable. "
        "See `curate doctor`.",
    ),
]
BudgetOption = Annotated[
    float | None,
    typer.Option(
        "--budget", min=0, help="Budget for paid services in US dollars; items over budget are left for a later run."
    ),
]
PricesOption = Annotated[
    str | None, typer.Option("--prices", help="Price file (YAML).", show_default="the shipped one: check it")
]
BatchOption = Annotated[
    bool,
    typer.Option("--batch", help="Call language models through their vendor's batch API: slow, at half the price."),
]
BatchHoursOption = Annotated[
    float | None,
    typer.Option(
        "--batch-hours", min=0, help="Hours to wait for batches; the next run collects the rest.", show_default="24"
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON object per line.")]
SeedOption = Annotated[int, typer.Option("--seed", help="Seed of all random draws.")]
WorkersOption = Annotated[
    int | None,
    typer.Option("--workers", min=1, help="Threads, and processes that read logs.", show_default="one per core"),
]
TaskRunnerOption = Annotated[
    str | None,
    typer.Option("--task-runner", help="threads, dask or ray (docs/scale.md).", show_default="threads"),
]
TaskRunnerAddressOption = Annotated[
    str | None,
    typer.Option("--task-runner-address", help="A running Dask scheduler or Ray cluster.", show_default="a local one"),
]
TopicEngineOption = Annotated[
    str | None,
    typer.Option("--topic-engine", help="umap, evoc, bertopic or cuml (docs/topics.md).", show_default="umap"),
]
BenchSizeOption = Annotated[
    int | None,
    typer.Option(
        "--bench-size", min=0, help="Prompts in the benchmark.", show_default="500, at most a fifth of the eligible"
    ),
]
BenchOption = Annotated[
    list[str] | None,
    typer.Option(
        "--bench",
        help="Benchmark setting KEY=VALUE, such as language=de or presets=yes; repeatable. See docs/bench.md.",
    ),
]
BootstrapsOption = Annotated[int, typer.Option("--bootstraps", min=2, help="Bootstrap rounds.")]
AnchorOption = Annotated[
    str | None,
    typer.Option(
        "--anchor", help="Fix the rating of one model: MODEL=RATING.", show_default="the mean of all models is 1000"
    ),
]

IntervalOption = Annotated[Interval, typer.Option("--interval", help="Method of the 95 % intervals.")]
ClusterOption = Annotated[
    Cluster | None,
    typer.Option(
        "--cluster", help="Intervals from a bootstrap of whole questions, judges or users, whose votes are dependent."
    ),
]
BothBadOption = Annotated[BothBad, typer.Option("--both-bad", help="What both-bad votes count as.")]
StyleOption = Annotated[StylePreset, typer.Option("--style", help="Normalisation and penalty of style control.")]
OutliersOption = Annotated[
    bool, typer.Option("--exclude-outliers", help="Leave out voters whose votes contradict those of others.")
]


def settings_of(**given: Any) -> Settings:
    """Settings from option values; None means not given. Raises BadInput for the first invalid value."""
    values = {name: value for name, value in given.items() if value is not None}
    for name in ("since", "until"):
        if name in values:
            values[name] = day_of(name, values[name])
    if "provider" in values:
        values["providers"] = _pairs("--provider", values.pop("provider"), "nsfw=opennsfw2")
    if "budget" in values:
        values["budget_usd"] = values.pop("budget")
    if "topic_engine" in values:
        values["topics"] = {"engine": _one_of("--topic-engine", values.pop("topic_engine"), TopicSettings, "engine")}
    if "task_runner" in values:
        values["task_runner"] = _one_of("--task-runner", values.pop("task_runner"), Settings, "task_runner")
    if "bench" in values or "bench_size" in values:
        values["bench"] = _bench(values.pop("bench", []), values.pop("bench_size", None))
    if "anchor" in values:
        values["anchor_model"], values["anchor_rating"] = anchor_of(values.pop("anchor"))
    for option, name in (("style", "style_preset"), ("exclude_outliers", "exclude_outlier_judges")):
        if option in values:
            values[name] = values.pop(option)
    try:
        return Settings(**values)
    except ValidationError as error:
        problem = error.errors()[0]
        name = "--" + str(problem["loc"][0]).replace("_", "-") if problem["loc"] else "settings"
        name += "".join(f" {inner}" for inner in problem["loc"][1:])
        raise BadInput(f"{name}: {problem['msg']}, not {problem['input']!r}") from None


def _one_of(option: str, name: str, row: type[Row], field: str) -> str:
    allowed = get_args(row.model_fields[field].annotation)
    if name not in allowed:
        raise BadInput(f"{option}: unknown {field.replace('_', ' ')} {known_values(name, allowed)}")
    return name


def _bench(texts: Iterable[str], size: int | None) -> dict[str, Any]:
    """Values of `BenchSettings`; `none` is null."""
    given = {
        key: None if value == "none" else value for key, value in _pairs("--bench", texts, "per_user_max=5").items()
    }
    unknown = [key for key in given if key not in BenchSettings.model_fields]
    if unknown:
        raise BadInput(f"--bench {known_values(unknown[0], BenchSettings.model_fields)}")
    return given if size is None else given | {"size": size}


def anchor_of(text: str) -> tuple[str, float]:
    """(model, rating) of MODEL=RATING; the model's name may hold equals signs."""
    model, _, rating = text.rpartition("=")
    try:
        points = float(rating)
    except ValueError:
        points = math.nan
    if not model or not math.isfinite(points):
        raise BadInput(f"--anchor {text!r}: give MODEL=RATING, for example gpt-4=1150")
    return model, points


def day_of(name: str, text: str | date | None) -> date | None:
    """The day of an option `--name`, if it is given."""
    if text is None:
        return None
    try:
        return datetime.strptime(str(text), "%Y-%m-%d").date()  # noqa: DTZ007 - a calendar day of the server's
    except ValueError:
        raise BadInput(f"--{name} {text!r} is not a day; write YYYY-MM-DD") from None


def _pairs(option: str, texts: Iterable[str], example: str) -> dict[str, str]:
    pairs = {}
    for text in texts:
        name, separator, value = text.partition("=")
        if not separator or not name or not value:
            raise BadInput(f"{option} {text!r}: give NAME=VALUE, for example {example}")
        pairs[name] = value
    return pairs
