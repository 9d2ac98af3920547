"""The Prefect tasks of a benchmark made on demand. Each does what is not done yet; a failed call is made again."""

from collections import Counter
from collections.abc import Collection, Sequence
from datetime import datetime

import numpy as np

from schemas.asked_model import AskedModel
from schemas.benches.generated_results import AuditMode
from schemas.benches.judge_release import ITEM_BOARDS
from schemas.errors import BadInput
from schemas.policy import GeneratedRule
from schemas.row import Row
from schemas.run import StageReport
from schemas.settings import Settings
from tasks.generated_bench import audit, making
from tasks.generated_bench.aspects import check_author
from tasks.generated_bench.bench_state import BenchState, read_bench
from tasks.generated_bench.items import key_counts
from tasks.generated_bench.results.errors import sort_by_model
from tasks.generated_bench.results.examined import rows_for_release
from tasks.generated_bench.results.figures import likeness_by_level
from tasks.providers import Providers
from tasks.providers.ask_items import Work
from tasks.runtime.steps import step
from tasks.runtime.untrusted import one_line
from tasks.storage.keyed_ids import Tombstones, store_key
from tasks.storage.tables import Store, frame_of

STAND_INS = "made with embedded stand-ins ({}): it shows that the way works, and ranks nothing in public"


@step
def write_texts(settings: Settings, providers: Providers) -> StageReport:
    """Record the benchmark; then its aspects, descriptions and check questions."""
    check_author(providers["author"], settings.generate)
    store, work = Store.open(settings.store), Work()
    bench = making.begin_bench(store, settings)
    making.write_missing_aspects(store, read_bench(store, bench.bench), providers["author"], work)
    if (state := read_bench(store, bench.bench)).aspects:
        making.write_missing_descriptions(store, state, providers["author"], work)
    return work.report("bench_texts", [_diversity(read_bench(store, bench.bench), providers)])


@step
def draw_images(settings: Settings, providers: Providers, rule: GeneratedRule) -> StageReport:
    """Order the images that are wanted now. Writes `drawings`."""
    store, state, work = *_opened(settings), Work()
    making.draw_missing(store, state, providers["pictures"], rule, work)
    return work.report("bench_drawings")


@step
def check_images(settings: Settings, providers: Providers, rule: GeneratedRule) -> StageReport:
    """Ask the viewer about the new images. Writes `alignments`, and `generated_outcomes` of what the policy drops."""
    store, state, work = *_opened(settings), Work()
    making.check_missing(store, state, providers["viewer"], rule, work)
    return work.report("bench_checks")


@step
def write_questions(settings: Settings, providers: Providers, rule: GeneratedRule) -> StageReport:
    """Questions of accepted images, and the items once every description has its end."""
    store, state, work = *_opened(settings), Work()
    making.write_missing_questions(store, state, providers["author"], rule, work)
    tombstones = Tombstones(store, store_key(store))
    making.store_items(store, read_bench(store, state.bench.bench), tombstones, work)
    finished = read_bench(store, state.bench.bench)
    # items of the benchmark, and the outcomes of the rest
    dropped = Counter(outcome.reason for outcome in finished.outcomes.values() if outcome.reason)
    ended, items = len(finished.outcomes), len(finished.items)
    notes = [f"{ended:,} of {finished.wanted:,} descriptions have their end, {items:,} are items"]
    if dropped:
        notes.append(f"dropped: {', '.join(f'{reason} {count:,}' for reason, count in sorted(dropped.items()))}")
    for level, letters in key_counts(finished.items).items():
        notes.append(f"{level}: keys {', '.join(f'{letter} {count:,}' for letter, count in letters.items())}")
    notes += [STAND_INS.format(", ".join(finished.embedded))] if finished.embedded else []
    return work.report("bench_questions", notes)


@step
def ask_again(settings: Settings, models: Sequence[AskedModel], modes: Collection[AuditMode]) -> StageReport:
    """Ask the kept items of a benchmark again in these modes. Writes `audit_answers`."""
    store, work = Store.open(settings.store), Work()
    audit.ask_in_modes(store, settings.evaluate.generated or "", models, modes, work)
    return work.report("audit")


@step
def sort_errors(settings: Settings, models: Sequence[AskedModel], now: datetime) -> StageReport:
    """Ask models what the wrong answers to a benchmark are errors of. Writes `reviews`."""
    store, work = Store.open(settings.store), Work()
    for asked_model in models:
        sort_by_model(store, settings.evaluate.generated or "", asked_model, work, now)
    return work.report("errors")


@step
def rate_generated(settings: Settings) -> StageReport:
    """Write the tables of what a release says of finished benchmarks: accuracy, alignment of images, audit."""
    store, notes = Store.open(settings.store), list[str]()
    rows_by_table: dict[str, list[Row]] = {name: [] for name in ITEM_BOARDS if name.startswith("generated_")}
    benches = sorted(store.read("generated_items", ["bench"])["bench"].unique())
    for bench in benches:
        try:
            for name, rows in rows_for_release(store, bench).items():
                rows_by_table[name] += rows
        except BadInput as error:  # such as no item that is kept
            notes.append(one_line(f"benchmark {bench!r}: {error}", 300))
    for name, rows in rows_by_table.items():
        store.replace(name, frame_of(ITEM_BOARDS[name], rows))
    return StageReport(stage="rate_generated", counts={"benchmarks": len(benches) - len(notes)}, notes=notes)


def _opened(settings: Settings) -> tuple[Store, BenchState]:
    store = Store.open(settings.store)
    return store, read_bench(store, settings.generate.name)


def _diversity(state: BenchState, providers: Providers) -> str:
    """The mean cosine of descriptions of one aspect and level, over all of these."""
    if not state.progress:
        return "no descriptions yet"
    vectors = np.asarray(providers["text_embedding"].embed_texts([e.description.description for e in state.progress]))
    cosine = likeness_by_level(state, vectors)["mean_cosine"][-1]
    words = "with" if state.bench.graph else "without"
    if cosine is None:
        return "one description for each aspect and level: no diversity to measure"
    return f"mean cosine of descriptions of one aspect and level, {words} the graph of words: {cosine:.3f}"
