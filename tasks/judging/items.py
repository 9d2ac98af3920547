"""The items that a judge without the image can judge, and the benchmark that models answer."""

from collections.abc import Sequence
from dataclasses import dataclass

from schemas.benches.written import SAMPLED, Split
from schemas.errors import BadInput, known_values
from tasks.judging.questions import Bench, BenchQuestion, bench_of_questions, bench_of_store
from tasks.judging.visit_battles import ITEMS_DRAW, REFERENCE
from tasks.storage.content_id import combined_id
from tasks.storage.tables import Store
from tasks.written_bench.written_items import ItemForJudging, items_for_judging


@dataclass(frozen=True)
class Items:
    """The items of one benchmark that a judge may see, by id."""

    bench: str
    """The benchmark's name."""
    judged: dict[str, ItemForJudging]
    """Item -> what is known of it; each has a caption for every image."""
    left_out: dict[str, int]
    """Why others are left out -> how many: no_caption, no_reference, hidden."""

    @property
    def draw(self) -> str:
        """Name of the draw in `verdicts`."""
        return f"{ITEMS_DRAW}{self.bench}"


def items_of(store: Store, bench: str, *, hidden: bool, needs_reference: bool, generic: bool = False) -> Items:
    """The items with captions and with `needs_reference` also a reference; hidden ones only with `hidden`.

    `generic`: with captions that were not written for the instruction.

    Raises BadInput when there is none.
    """
    items = items_for_judging(store, bench, not_given=True, generic=generic)
    judged, left_out = dict[str, ItemForJudging](), dict[str, int]()
    if not items:
        names = {*store.read("bench_items", ["bench"])["bench"], SAMPLED}
        raise BadInput(f"--bench {known_values(bench, names)} None of its items is kept, or it has none")
    for item in items:
        why = _why_not(item, hidden, needs_reference)
        if why:
            left_out[why] = left_out.get(why, 0) + 1
        else:
            judged[item.item_id] = item
    if not judged:
        counts = ", ".join(f"{why.replace('_', ' ')} {count:,}" for why, count in sorted(left_out.items()))
        raise BadInput(
            f"--bench {bench!r}: none of its {len(items):,} items can be judged ({counts}); write captions and "
            "references with `curate bench write`, and add --hidden for hidden ones"
        )
    return Items(bench, judged, left_out)


def _why_not(item: ItemForJudging, hidden: bool, needs_reference: bool) -> str | None:
    if item.split is Split.HIDDEN and not hidden:
        return "hidden"
    if not item.captions:
        return "no_caption"
    return "no_reference" if needs_reference and not item.reference else None


def reference_answers(items: Items) -> dict[str, dict[str, str]]:
    """Item -> its reference as a row of `answers`, whose version is a hash of its text."""
    answers = {}
    for item_id, item in items.judged.items():
        if item.reference:
            version = f"{REFERENCE}+{combined_id('reference', [item.reference])[:8]}"
            answers[item_id] = {"model": REFERENCE, "version": version, "text": item.reference, "question_id": item_id}
    return answers


def written_bench(store: Store, bench: str) -> Bench:
    """A written benchmark as models are asked it: instructions and images, which are public also of hidden items."""
    if bench == SAMPLED:
        return bench_of_store(store, hidden=False)
    items = items_for_judging(store, bench)
    if not items:
        raise BadInput(f"--bench {known_values(bench, {*store.read('bench_items', ['bench'])['bench'], SAMPLED})}")
    return bench_of_questions(store, f"{ITEMS_DRAW}{bench}", item_questions(items))


def item_questions(items: Sequence[ItemForJudging]) -> list[BenchQuestion]:
    """The items as questions."""
    return [BenchQuestion(item.item_id, item.instruction, item.image_ids) for item in items]
