"""The benchmark's prompts -> answers of models -> verdicts of a judge."""

from collections.abc import Iterator

from prefect import flow

from flows.one_writer import one_writer
from schemas.run import StageReport
from schemas.settings import Settings
from tasks.evaluate.steps import collect_answers, collect_verdicts
from tasks.providers import Providers
from tasks.signals.steps import signal_versions


@flow(name="answer")
@one_writer
def answer(settings: Settings) -> Iterator[StageReport]:
    """Answers of models to the benchmark."""
    yield collect_answers(settings)


@flow(name="compare")
@one_writer
def compare(settings: Settings) -> Iterator[StageReport]:
    """Verdicts of a judge on answers and those of a baseline."""
    yield collect_verdicts(settings, signal_versions(Providers(settings.providers)))
