"""The Prefect task of the demo: answers of its invented models to the benchmark that was drawn."""

from pathlib import Path

from schemas.run import StageReport
from schemas.settings import Settings
from tasks.demo.answers import demo_answers, write_answers
from tasks.runtime.steps import step
from tasks.storage.tables import Store


@step
def write_answer_files(settings: Settings) -> StageReport:
    """Write one answer file for each model into the folder that `settings.evaluate.models` names."""
    answers = demo_answers(Store.open(settings.store), settings.seed)
    write_answers(answers, Path(settings.evaluate.models or ""))
    counts = {"models": len(answers), "prompts": len(next(iter(answers.values()), {}))}
    return StageReport(stage="demo_answers", counts=counts)
