"""Things that the settings of an evaluation name: benchmark, models, judge, versions of answers, pairs to judge."""

from collections.abc import Callable
from pathlib import Path

from schemas.benches.written import SAMPLED
from schemas.errors import BadInput
from schemas.settings import EvaluateSettings
from tasks.judging.answers import AnswersByModel, answers_by_model
from tasks.judging.caption_answers import caption_bench
from tasks.judging.files.answer_files import read_answers
from tasks.judging.items import Items, item_questions, items_of, written_bench
from tasks.judging.pairs import battles_between, pairs_of_items, players
from tasks.judging.protocols import VISIT_PROTOCOLS, AnswerPair, Protocol, protocol
from tasks.judging.questions import Bench, bench_of_failures, bench_of_items, bench_of_release, bench_of_store
from tasks.product import KeyedItems
from tasks.providers.asked_models import models_of
from tasks.storage.queries.bench import FAILURES
from tasks.storage.tables import Store

KeyedItemsOf = Callable[[Store, str], KeyedItems]
"""Benchmark made on demand -> its kept items. Raises BadInput when there are none."""


def no_keyed_items(store: Store, bench: str) -> KeyedItems:
    """Raises BadInput: nothing makes benchmarks on demand."""
    raise BadInput(f"--bench {bench!r}: store {store.root!r} has no benchmark of this name")


def bench_of(store: Store, chosen: EvaluateSettings, keyed: KeyedItemsOf = no_keyed_items) -> Bench:
    """The benchmark that the settings name. Raises BadInput."""
    if chosen.answer_from == "captions":
        if chosen.bench is None or is_failure_pool(store, chosen.bench):
            raise BadInput("evaluate.answer_from=captions needs a written benchmark with captions; give --bench NAME")
        return caption_bench(store, chosen.bench, chosen.captions)
    if chosen.generated is not None:
        if chosen.hidden or chosen.bench_release is not None:
            raise BadInput("--bench names a benchmark made on demand; leave out --hidden and --bench-release")
        return bench_of_items(store, chosen.generated, keyed(store, chosen.generated))
    if chosen.bench is not None:
        if chosen.bench_release is not None:
            raise BadInput("--bench names a benchmark of the store; leave out --bench-release, or --bench")
        if is_failure_pool(store, chosen.bench):
            return bench_of_failures(store)
        return written_bench(store, chosen.bench)
    if chosen.bench_release is None:
        return bench_of_store(store, hidden=chosen.hidden)
    if chosen.hidden:
        raise BadInput("--hidden: a release has no hidden split; leave out --bench-release, or --hidden")
    return bench_of_release(Path(chosen.bench_release))


def is_failure_pool(store: Store, bench: str) -> bool:
    """Whether a name means the drawn failures: unless people wrote a benchmark of this name."""
    return bench == FAILURES and bench not in store.read("bench_items", ["bench"])["bench"]


def protocol_of(chosen: EvaluateSettings) -> Protocol:
    """The protocol; for submissions too, the one with or without the reference where judges read captions."""
    captions = chosen.protocol in VISIT_PROTOCOLS or chosen.submission is not None
    return protocol(VISIT_PROTOCOLS[chosen.with_reference] if captions else chosen.protocol)


def versions_of(chosen: EvaluateSettings, bench: Bench) -> dict[str, str] | None:
    """Model -> version, of the models file or answer files; None when neither is given."""
    if chosen.models is None:
        return None
    models = models_of(chosen)
    if models is None:
        read = read_answers(Path(chosen.models), bench.questions)
        return {answer.model: answer.version for answer in read.answers}
    return {model.name: model.version for model in models}


def items_chosen(store: Store, chosen: EvaluateSettings) -> Items:
    """The written items that the chosen judge may see. Raises BadInput."""
    captions = {"needs_reference": chosen.with_reference, "generic": chosen.captions == "generic"}
    return items_of(store, chosen.bench or SAMPLED, hidden=chosen.hidden, **captions)


def answers_on(store: Store, items: Items, chosen: EvaluateSettings, but: str | None = None) -> AnswersByModel:
    """The answers of the chosen models, or of all but one, on these items. Raises BadInput."""
    bench = Bench(items.draw, item_questions(list(items.judged.values())), lambda question: ())
    return answers_by_model(store, bench, versions_of(chosen, bench), chosen.baseline or "", but)


def item_pairs(store: Store, chosen: EvaluateSettings, how: Protocol) -> tuple[Items, list[AnswerPair]]:
    """The items and every battle of the chosen players on them, in both orders. Raises BadInput."""
    items = items_chosen(store, chosen)
    playing = players(items, answers_on(store, items, chosen))
    return items, list(pairs_of_items(items, playing, battles_between(playing, chosen.baseline), how))
