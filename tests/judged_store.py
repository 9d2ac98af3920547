"""The small store with answers to its benchmark's prompt and a judge's verdicts on them, and releases of it."""

from collections.abc import Iterable
from pathlib import Path

import polars as pl

from flows.products import item_ids, judge_stand_ins, judge_texts, parts_of_store, report_sections
from schemas.benches.judging import Answer, Verdict
from schemas.run import StageReport
from schemas.settings import Settings
from schemas.tables import SIGNALS
from tasks.bench.draw import draw_name, drawn_prompts
from tasks.judging.steps import rate_judged
from tasks.leaderboard.steps import rate_models
from tasks.policy.steps import screen_answers
from tasks.providers import Providers
from tasks.release.steps import build_release, seal_release
from tasks.report.steps import report_release
from tasks.storage.content_id import text_id
from tasks.storage.tables import Store, frame_of
from tests.builders import VERSIONS, facts_frame, verdict
from tests.small_store import HOSTILE_MODEL, MODELS, small_store

ASKED = "c00"
SECRET = "write to zoe.quist@example.org"
SAID = {MODELS[0]: "A bus.", MODELS[1]: "A red bus.", HOSTILE_MODEL: f"A bus, {SECRET}.", "new-model": "Unmeasured."}
"""Model -> its answer; the first is the baseline."""


def judged_store(folder: Path, **changes: object) -> Store:
    """The small store with `SAID` and a verdict in both orders on each; `changes` are other values of the verdicts."""
    store = small_store(folder)
    drawn = drawn_prompts(store, hidden=False)
    document = {"question_id": ASKED, "document_id": drawn["document_id"][0]}
    answers = [
        Answer(model=model, state="complete", text=text, version="/data/models/m+1", tokens=3, **document)
        for model, text in SAID.items()
    ]
    store.replace("answers", frame_of(Answer, answers))
    store.replace("verdicts", frame_of(Verdict, verdicts(store, **changes)))
    return store


def verdicts(store: Store, **changes: object) -> list[Verdict]:
    """Both orders for every model but the baseline: the second model wins twice, the others lose twice."""
    drawn = drawn_prompts(store, hidden=False)
    about = {
        "question_id": ASKED,
        "document_id": drawn["document_id"][0],
        "draw": draw_name(drawn, hidden=False),
        "protocol": "visionarena",
        "baseline": MODELS[0],
        "judge": "gpt-x",
        "judge_version": "openai-/data/judges/x+1",
        "answer_a": "/data/models/m+1",
        "answer_b": "/data/models/m+1",
        "text": f"Assistant A says: {SECRET}. [[A>B]]",
    }
    others = [model for model in SAID if model != MODELS[0]]
    wins = {model: ("B>A", "A>B") if model == MODELS[1] else ("A>B", "B>A") for model in others}
    return [
        verdict(**about | {"model_a": first, "model_b": second, "label": label} | changes)
        for model in others
        for (first, second), label in zip(((MODELS[0], model), (model, MODELS[0])), wins[model], strict=True)
    ]


def measured(store: Store, texts: Iterable[str], **values: dict[str, object]) -> None:
    """A harmless value of every signal for the texts; `values` are other values, by signal."""
    for signal in SIGNALS:
        known = {text_id(text): values.get(signal, {}) for text in texts}
        store.append(f"signals/{signal}", facts_frame(signal, known))


def release_judged(store: Store, **settings: object) -> StageReport:
    """Build, rate what the judge said, screen answers if asked to, report on, seal and place a release."""
    chosen, providers = Settings(store=store.root, **settings), Providers()
    built = build_release.fn(chosen, VERSIONS, item_ids(store), ())
    rate_models.fn(chosen, VERSIONS, built.staging)
    rate_judged.fn(chosen, VERSIONS, built.staging)
    if chosen.with_answers:
        screen_answers.fn(chosen, VERSIONS, judge_texts(store))
    report_release.fn(chosen, providers, built.staging, built.tallies, report_sections, judge_stand_ins(store))
    return seal_release.fn(chosen, providers, VERSIONS, built, parts_of_store(store))


def judge_table(release: Path, name: str) -> pl.DataFrame:
    """A table in `leaderboard/judge`."""
    return pl.read_parquet(release / "leaderboard" / "judge" / f"{name}.parquet")
