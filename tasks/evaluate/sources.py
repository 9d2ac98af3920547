"""What the settings of an evaluation name: the benchmark, the models, the judge and the versions of answers."""

from pathlib import Path

from schemas.asked_model import AskedModel
from schemas.errors import BadInput
from schemas.settings import EvaluateSettings, Settings
from tasks.evaluate.files.answer_files import read_answers
from tasks.evaluate.files.answer_shapes import is_models_file
from tasks.evaluate.files.models_file import check_keys, check_own, read_models
from tasks.evaluate.questions import Bench, bench_of_items, bench_of_release, bench_of_store
from tasks.evaluate.visit.items import written_bench
from tasks.providers.chat import chat_model
from tasks.runtime.prices import check_prices, load_prices
from tasks.storage.tables import Store

EMBEDDED = "embedded"
"""Name of the judge that ships with the install, for --judge and in `verdicts`."""


def bench_of(store: Store, chosen: EvaluateSettings) -> Bench:
    """The benchmark that the settings name. Raises BadInput."""
    if chosen.generated is not None:
        return _generated(store, chosen)
    if chosen.bench is not None:
        if chosen.bench_release is not None:
            raise BadInput("--bench names a benchmark of the store; leave out --release, or --bench")
        return written_bench(store, chosen.bench)
    if chosen.bench_release is None:
        return bench_of_store(store, hidden=chosen.hidden)
    if chosen.hidden:
        raise BadInput("--hidden: a release has no hidden split; leave out --release, or --hidden")
    return bench_of_release(Path(chosen.bench_release))


def _generated(store: Store, chosen: EvaluateSettings) -> Bench:
    if chosen.hidden or chosen.bench_release is not None:
        raise BadInput("--bench names a benchmark made on demand; leave out --hidden and --release")
    return bench_of_items(store, chosen.generated or "")


def models_of(chosen: EvaluateSettings) -> list[AskedModel] | None:
    """The entries of the models file; None when answer files are given instead. Raises BadInput."""
    path = Path(chosen.models or "")
    return read_models(path) if is_models_file(path) else None


def judge_of(chosen: EvaluateSettings) -> AskedModel:
    """The judge. Raises BadInput."""
    judges = read_models(Path(chosen.judge or ""))
    if len(judges) > 1:
        names = ", ".join(judge.name for judge in judges)
        raise BadInput(f"--judge {chosen.judge!r} names {len(judges)} models ({names}); give a file with one")
    if judges[0].system:
        raise BadInput(f"judge {judges[0].name!r}: its system prompt is the protocol's; leave out `system`")
    return judges[0]


def versions_of(chosen: EvaluateSettings, bench: Bench) -> dict[str, str] | None:
    """Model -> version, of the models file or answer files; None when neither is given."""
    if chosen.models is None:
        return None
    models = models_of(chosen)
    if models is None:
        read = read_answers(Path(chosen.models), bench.questions)
        return {answer.model: answer.version for answer in read.answers}
    return {model.name: model.version for model in models}


def to_ask(settings: Settings) -> list[AskedModel]:
    """The models that a run asks: the judge, or without one those of the models file; empty when it asks none.

    Raises CurateError when one of them may not or cannot be asked.
    """
    chosen = settings.evaluate
    if chosen.judge is None:
        models = (models_of(chosen) or []) if chosen.models else []
    else:
        models = [] if chosen.judge == EMBEDDED else [judge_of(chosen)]
    if settings.batch and (chosen.models or chosen.judge) and not models:
        raise BadInput("--batch: no model is called; leave it out, or give a models file (YAML)")
    if chosen.hidden:
        check_own(models)
    check_keys(models)
    if settings.budget_usd is not None:
        check_prices(load_prices(settings.prices), [chat_model(model) for model in models])
    return models
