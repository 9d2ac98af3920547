"""For each kind of question a store that has something to ask."""

import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import polars as pl
import pytest

from flows.products import keyed_items
from schemas.asked_model import AskedModel
from schemas.benches.judging import Answer
from schemas.settings import EvaluateSettings
from tasks.judging.answers import ask_models
from tasks.judging.caption_answers import caption_bench
from tasks.judging.sources import bench_of
from tasks.storage.tables import Store, frame_of
from tests.generated_bench import NAME, decided, settings_for
from tests.reviewed_store import held_store
from tests.small_store import small_store
from tests.visit_bench import stored_answer, visit_bench
from tests.voted_store import voted

ANSWERS = {"x": "A cup of {}.", "y": "=A plate. <script>alert(1)</script>"}


@pytest.fixture
def store(looked, tmp_path) -> Store:
    """A copy of the hostile store in which four conversations are held."""
    return held_store(looked.store, tmp_path)


@pytest.fixture(scope="session")
def made(looked, tmp_path_factory) -> Callable[[str], Store]:
    """A function that makes the store of a kind, each once. Do not write to it."""
    folder, known = tmp_path_factory.mktemp("asked"), dict[Callable[[Path], Store], Store]()

    def hostile(folder: Path) -> Store:
        return held_store(looked.store, folder)

    def written(folder: Path) -> Store:
        return visit_bench(folder, ANSWERS)

    def captioned(folder: Path) -> Store:
        store = visit_bench(folder, {"seer": "A plate."})
        asked = [
            SimpleNamespace(conversation_id=question.question_id, document_id=question.document_id)
            for question in caption_bench(store, "b", "instruction").questions
        ]
        answers = [stored_answer(each, "reader", "A cup.") for each in asked]
        store.replace("answers", pl.concat([store.read("answers"), frame_of(Answer, answers)]))
        return store

    def generated(folder: Path) -> Store:
        return decided(settings_for(folder / "store", general=1, fine=1, levels=["easy"]))

    def wrong(folder: Path) -> Store:
        store = decided(settings_for(folder / "store", general=1, fine=1, levels=["easy"]))
        blind = AskedModel(name="blind", vendor="embedded", model="blind")
        ask_models(store, bench_of(store, EvaluateSettings(generated=NAME), keyed_items), [blind])
        return store

    makers = {
        "wrong_answers": wrong,
        "battles": voted,
        "caption_answers": captioned,
        "items": written,
        "preferences": written,
        "generated": generated,
    }
    makers |= {"failures": small_store} | dict.fromkeys(("held", "tags", "alarms"), hostile)

    def of_kind(kind: str) -> Store:
        maker = makers[kind]
        if maker not in known:
            known[maker] = maker(folder / maker.__name__)
        return known[maker]

    return of_kind


@pytest.fixture
def asking(made, tmp_path) -> Callable[[str], Store]:
    """A function that gives a copy of the store of a kind."""
    return lambda kind: Store(str(shutil.copytree(made(kind).root, tmp_path / "asking")))
