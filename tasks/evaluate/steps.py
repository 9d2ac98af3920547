"""The Prefect tasks of evaluation: answers of models to the benchmark, verdicts of a judge on them, and its votes."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import polars as pl
from prefect import task
from prefect.cache_policies import NO_CACHE

from schemas.asked_model import AskedModel
from schemas.errors import BadInput
from schemas.run import LATER_CAUSES, StageReport
from schemas.settings import Settings
from tasks.evaluate.answers import Called, answers_by_model, ask_models, take_in
from tasks.evaluate.compare import compare, judge_version
from tasks.evaluate.consensus import NOTE, compare_by_consensus
from tasks.evaluate.files.answer_files import read_answers
from tasks.evaluate.protocols import protocol
from tasks.evaluate.questions import image_texts, texts_of_images
from tasks.evaluate.sources import bench_of, to_ask, versions_of
from tasks.evaluate.submission.judged import keep_answers, plan_of
from tasks.evaluate.visit.compare import OrderedPair, compare_without_images, order_counts, without_verdict
from tasks.evaluate.visit.items import Items
from tasks.evaluate.visit.protocol import VisitProtocol
from tasks.evaluate.visit.sources import VISIT, battles_to_judge
from tasks.evaluate.visit.stand_in import NOTE as VISIT_NOTE
from tasks.evaluate.visit.stand_in import compare_by_nearness, stand_in_version
from tasks.evaluate.votes import NOTE as VOTES_NOTE
from tasks.evaluate.votes import ask_votes, battles_of, vote_by_consensus
from tasks.providers import Providers
from tasks.runtime.timing import timed
from tasks.storage.queries.shown_battles import anonymous_battles, shown
from tasks.storage.queries.signals import Versions
from tasks.storage.tables import Store


@task(cache_policy=NO_CACHE)
@timed
def collect_answers(settings: Settings) -> StageReport:
    """Ask the models of a models file for the answers they lack, or take in answer files. Writes `answers`."""
    store, chosen = Store.open(settings.store), settings.evaluate
    models = to_ask(settings)
    bench = bench_of(store, chosen)
    if not models:
        return _report("answers", take_in(store, read_answers(Path(chosen.models or ""), bench.questions)))
    return _report("answers", ask_models(store, bench, models, _batch_hours(settings)))


@task(cache_policy=NO_CACHE)
@timed
def collect_verdicts(settings: Settings, versions: Versions) -> StageReport:
    """Ask a judge for the verdicts that are missing. Writes `verdicts`. `versions`: signal -> version."""
    store, chosen = Store.open(settings.store), settings.evaluate
    judge = next(iter(to_ask(settings)), None) if chosen.judge else None
    if chosen.protocol == VISIT:
        return _without_images(settings, judge, *battles_to_judge(store, chosen))
    bench, how, baseline = bench_of(store, chosen), protocol(chosen.protocol), chosen.baseline or ""
    answers = answers_by_model(store, bench, versions_of(chosen, bench), baseline)
    if judge:
        done = compare(store, bench, answers, judge, how, baseline, _batch_hours(settings))
        return _report("verdicts", done)
    texts = image_texts(store, versions)
    done = compare_by_consensus(store, bench, answers, how, baseline, Providers()["text_embedding"], texts)
    return _report("verdicts", done).model_copy(update={"notes": [NOTE]})


@task(cache_policy=NO_CACHE)
@timed
def judge_submission(settings: Settings) -> StageReport:
    """Store a model's answers and ask a judge about its battles. Writes `answers` and `verdicts`."""
    store, judge = Store.open(settings.store), next(iter(to_ask(settings)), None)
    plan = plan_of(store, settings.evaluate)
    new = keep_answers(store, plan)
    report = _without_images(settings, judge, plan.items, plan.wanted)
    return report.model_copy(update={"counts": {"answers": new} | report.counts})


def judge_in_use(settings: Settings) -> str:
    """Version of the judge without images that the settings choose, as in `verdicts`."""
    how, judge = VisitProtocol(settings.evaluate.with_reference), next(iter(to_ask(settings)), None)
    if judge is None:
        return stand_in_version(how, Providers()["text_embedding"])
    return judge_version(judge.version, how.version)


def _without_images(
    settings: Settings, judge: AskedModel | None, items: Items, wanted: Sequence[OrderedPair]
) -> StageReport:
    store, how = Store.open(settings.store), VisitProtocol(settings.evaluate.with_reference)
    version = judge_in_use(settings)
    if judge:
        open_pairs = without_verdict(store, wanted, version)
        done, notes = compare_without_images(store, items, open_pairs, judge, how, _batch_hours(settings)), []
    else:
        embedder = Providers()["text_embedding"]
        done, notes = compare_by_nearness(store, items, wanted, how, embedder), [VISIT_NOTE]
    done.counts.update({f"items_{why}": count for why, count in items.left_out.items()})
    done.counts.update(order_counts(store, wanted, version))
    return _report("verdicts", done).model_copy(update={"notes": notes})


@task(cache_policy=NO_CACHE)
@timed
def collect_votes(settings: Settings, versions: Versions, released: Iterable[pl.DataFrame]) -> StageReport:
    """Ask a judge to vote on some battles. Writes `judge_votes`. `released`: rows of a release's battle table."""
    store, judge = Store.open(settings.store), next(iter(to_ask(settings)), None)
    drawn = anonymous_battles(released)[: settings.evaluate.sample]
    if drawn.is_empty():
        raise BadInput(f"store {settings.store!r} has no kept anonymous battle; votes need some")
    battles = battles_of(store, shown(drawn))
    if judge:
        return _report("votes", ask_votes(store, battles, judge))
    texts = texts_of_images(store, versions)
    done = vote_by_consensus(store, battles, Providers()["text_embedding"], texts)
    return _report("votes", done).model_copy(update={"notes": [VOTES_NOTE]})


def _batch_hours(settings: Settings) -> float | None:
    return settings.batch_hours if settings.batch else None


def _report(stage: str, done: Called) -> StageReport:
    ordered = sorted(done.failures.items(), key=lambda each: (each[0][0], LATER_CAUSES.get(each[0][1], 0), each[0][1]))
    return StageReport(
        stage=stage,
        counts=dict(sorted(done.counts.items())),
        model_calls=dict(sorted(done.calls.items())),
        failures={f"{model}: {reason}": count for (model, reason), count in ordered},
    )
