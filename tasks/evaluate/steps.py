"""The Prefect tasks of evaluation: answers of models to the benchmark, and verdicts of a judge on them."""

from pathlib import Path

from prefect import task
from prefect.cache_policies import NO_CACHE

from schemas.asked_model import AskedModel
from schemas.run import LATER_CAUSES, StageReport
from schemas.settings import Settings
from tasks.evaluate.answer_files import read_answers
from tasks.evaluate.answers import Called, answers_by_model, ask_models, take_in
from tasks.evaluate.compare import compare
from tasks.evaluate.models_file import check_keys, check_own
from tasks.evaluate.protocols import protocol
from tasks.evaluate.sources import bench_of, judge_of, models_of, versions_of
from tasks.providers.chat import chat_model
from tasks.runtime.budget import ledger
from tasks.runtime.prices import check_prices
from tasks.runtime.timing import timed
from tasks.storage.tables import Store


@task(cache_policy=NO_CACHE)
@timed
def collect_answers(settings: Settings) -> StageReport:
    """Ask the models of a models file for the answers they lack, or take in answer files. Writes `answers`."""
    store, chosen = Store.open(settings.store), settings.evaluate
    bench, models = bench_of(store, chosen), models_of(chosen)
    if models is None:
        return _report("answers", take_in(store, read_answers(Path(chosen.models or ""), bench.questions)))
    _check(models, settings)
    return _report("answers", ask_models(store, bench, models))


@task(cache_policy=NO_CACHE)
@timed
def collect_verdicts(settings: Settings) -> StageReport:
    """Ask a judge for the verdicts that are missing. Writes `verdicts`."""
    store, chosen = Store.open(settings.store), settings.evaluate
    judge, bench = judge_of(chosen), bench_of(store, chosen)
    _check([judge], settings)
    answers = answers_by_model(store, bench, versions_of(chosen, bench))
    done = compare(store, bench, answers, judge, protocol(chosen.protocol), chosen.baseline or "")
    return _report("verdicts", done)


def _check(models: list[AskedModel], settings: Settings) -> None:
    """Raises CurateError before the first call when a model may or can not be asked."""
    if settings.evaluate.hidden:
        check_own(models)
    check_keys(models)
    if settings.budget_usd is not None:
        check_prices(ledger().prices, [chat_model(model) for model in models])


def _report(stage: str, done: Called) -> StageReport:
    ordered = sorted(done.failures.items(), key=lambda each: (each[0][0], LATER_CAUSES.get(each[0][1], 0), each[0][1]))
    return StageReport(
        stage=stage,
        counts=dict(sorted(done.counts.items())),
        model_calls=dict(sorted(done.calls.items())),
        failures={f"{model}: {reason}": count for (model, reason), count in ordered},
    )
