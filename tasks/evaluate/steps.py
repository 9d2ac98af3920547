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
from tasks.evaluate.consensus import EMBEDDED, NOTE, compare_by_consensus
from tasks.evaluate.models_file import check_keys, check_own
from tasks.evaluate.protocols import protocol
from tasks.evaluate.questions import image_texts
from tasks.evaluate.sources import bench_of, judge_of, models_of, versions_of
from tasks.providers import Providers
from tasks.providers.chat import chat_model
from tasks.runtime.budget import ledger
from tasks.runtime.prices import check_prices
from tasks.runtime.timing import timed
from tasks.storage.queries.signals import Versions
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
def collect_verdicts(settings: Settings, versions: Versions) -> StageReport:
    """Ask a judge for the verdicts that are missing. Writes `verdicts`. `versions`: signal -> version."""
    store, chosen = Store.open(settings.store), settings.evaluate
    judge = None if chosen.judge == EMBEDDED else judge_of(chosen)
    bench, how, baseline = bench_of(store, chosen), protocol(chosen.protocol), chosen.baseline or ""
    if judge:
        _check([judge], settings)
    answers = answers_by_model(store, bench, versions_of(chosen, bench))
    if judge:
        return _report("verdicts", compare(store, bench, answers, judge, how, baseline))
    texts = image_texts(store, versions)
    done = compare_by_consensus(store, bench, answers, how, baseline, Providers()["text_embedding"], texts)
    return _report("verdicts", done).model_copy(update={"notes": [NOTE]})


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
