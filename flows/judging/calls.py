"""`curate judge answer` and `curate judge compare`: ask models, and ask a judge about their answers."""

from typing import Any

from flows.commands.options import existing, takes
from flows.commands.pipeline import PAID, run_stages
from schemas.errors import BadInput
from schemas.settings import EvaluateSettings, Settings

VISIT_PROTOCOL = "visit"
DEFAULT_JUDGE: dict[str, Any] = {"evaluate.judge": "embedded"}
"""The default of commands that ask a judge."""
ASKED_BENCH = ("evaluate.bench", "evaluate.bench_release", "evaluate.hidden")


@takes("store", "evaluate.models", *ASKED_BENCH, *PAID, required=["evaluate.models"])
def answer(settings: Settings) -> None:
    """Ask models every prompt of the benchmark, with its images. What is answered already is not asked again.

    --bench is a written benchmark of the store, one made on demand, or `failures`: prompts that people saw models fail.
    """
    from tasks.storage.tables import Store

    if settings.evaluate.bench_release is not None:
        Store.open(settings.store)  # it may be new, because its logs are not needed
    settings = with_bench(settings)
    if settings.evaluate.answer_from == "captions":
        from tasks.judging.sources import bench_of

        bench_of(existing(settings.store), settings.evaluate)  # refuses before Prefect starts
    run_stages(settings, ("flows.judging.evaluate", "answer"))


@takes(
    "store", "evaluate.baseline", "evaluate.judge", "evaluate.protocol", "evaluate.models", *ASKED_BENCH,
    "prompts", *PAID, **DEFAULT_JUDGE,
)  # fmt: skip
def compare(settings: Settings) -> None:
    """Ask a judge which answer is better, each model's or the baseline's. Verdicts that are there are not asked for.

    With --models, only on answers of these; the baseline may be missing there. Under --protocol visit the judge sees no
    image: it reads the captions of `curate bench write`.
    """
    _check_visit(settings.evaluate)
    run_stages(settings, ("flows.judging.evaluate", "compare"))


def with_bench(settings: Settings) -> Settings:
    """The settings with the benchmark as `bench` if it is a written one, as `generated` if it was made on demand."""
    from schemas.benches.written import SAMPLED
    from tasks.storage.queries.bench import FAILURES

    chosen = settings.evaluate
    if chosen.bench is None:
        return settings
    written = existing(settings.store).read("bench_items", ["bench"])["bench"]
    if chosen.bench == FAILURES and chosen.hidden:
        raise BadInput("--hidden: no hidden prompt is asked of the failures; leave the option out")
    if chosen.bench not in (SAMPLED, FAILURES, *written):
        return with_evaluate(settings, generated=chosen.bench, bench=None)
    if chosen.hidden:
        raise BadInput("--hidden: instructions and images of a written benchmark are public; leave the option out")
    return settings


def with_evaluate(settings: Settings, **values: object) -> Settings:
    """The settings with other values in the section `evaluate`."""
    return settings.model_copy(update={"evaluate": settings.evaluate.model_copy(update=values)})


def _check_visit(chosen: EvaluateSettings) -> None:
    """Raises BadInput for options that do not go with the protocol."""
    if chosen.protocol == VISIT_PROTOCOL:
        if chosen.bench_release is not None:
            raise BadInput("--bench-release has no captions; --protocol visit judges items of the store, leave it out")
        return
    if chosen.baseline is None:
        raise BadInput(f"--baseline: {chosen.protocol} compares with one model; name it, or choose --protocol visit")
    if chosen.with_reference or chosen.bench not in (None, "failures"):
        option = "--set evaluate.with_reference=yes" if chosen.with_reference else "--bench"
        raise BadInput(f"{option} belongs to --protocol visit; choose it, or leave {option} out")
