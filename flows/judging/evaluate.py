"""The benchmark's prompts -> answers of models -> verdicts of a judge; kept battles -> votes of a judge."""

from collections.abc import Iterator
from datetime import UTC, datetime

import polars as pl

from flows.products import item_ids, keyed_items
from flows.release import measure_cases
from flows.running.checked_flow import flow, one_writer
from schemas.errors import BadInput
from schemas.run import StageReport
from schemas.settings import Settings
from tasks.judging.sources import is_failure_pool
from tasks.judging.steps import (
    collect_answers,
    collect_verdicts,
    collect_votes,
    judge_in_use,
    judge_submission,
    propose_marks,
    rate_submissions,
)
from tasks.providers import Providers
from tasks.providers.asked_models import to_ask
from tasks.release.gather import Gathered
from tasks.signals.steps import signal_versions
from tasks.storage.keyed_ids import UNFINISHED
from tasks.storage.queries.released import is_decided
from tasks.storage.tables import Store


@flow(name="answer")
@one_writer
def answer(settings: Settings) -> Iterator[StageReport]:
    """Answers of models to the benchmark; of those to failures, refusals and what the policy asks are measured."""
    yield collect_answers(settings, keyed_items)
    if settings.evaluate.bench and is_failure_pool(Store.open(settings.store), settings.evaluate.bench):
        yield measure_cases(settings, Providers(settings.providers))


@flow(name="compare")
@one_writer
def compare(settings: Settings) -> Iterator[StageReport]:
    """Verdicts of a judge on answers and those of a baseline."""
    yield collect_verdicts(settings, signal_versions(Providers(settings.providers)), keyed_items)


@flow(name="submit")
@one_writer
def submit(settings: Settings) -> Iterator[StageReport]:
    """A model's answers to a written benchmark, verdicts on its battles, and the board."""
    yield judge_submission(settings)
    yield rate_submissions(settings, judge_in_use(settings))


@flow(name="propose")
@one_writer
def propose(settings: Settings) -> Iterator[StageReport]:
    """Marks that a judge proposes for answers to failures, by their references."""
    yield propose_marks(settings, to_ask(settings), datetime.now(UTC))


@flow(name="vote")
@one_writer
def vote(settings: Settings) -> Iterator[StageReport]:
    """Votes of a judge on battles that people voted on."""
    versions = signal_versions(Providers(settings.providers))
    yield collect_votes(settings, versions, released_battles(settings))


def released_battles(settings: Settings) -> Iterator[pl.DataFrame]:
    """The battles that a release of the store would hold: kept, redacted, none on hidden prompts."""
    store = Store.existing(settings.store)
    if not is_decided(store):
        raise BadInput(f"store {settings.store!r} has conversations or battles without a decision; run `curate decide`")
    if store.read_bytes(UNFINISHED) is not None:
        raise BadInput("a takedown was interrupted; finish it with `curate takedown --store …` first")
    return Gathered(store, signal_versions(Providers(settings.providers)), settings.bench, item_ids(store)).rows(
        "battle"
    )
