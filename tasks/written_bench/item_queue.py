"""Written items with their references, and what people verify of them.

A finding holds for the reference that its rater saw.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence

from schemas.benches.written import SAMPLED, Fault
from schemas.errors import BadInput, known_values
from schemas.items.review import Choice, QueueName, ShownText, Waiting
from tasks.review_queue import NONE, Listed, ReviewQueue, plain, yes_or_no
from tasks.runtime.untrusted import one_line
from tasks.storage.content_id import text_id
from tasks.storage.keyed_ids import Pseudonyms, store_key
from tasks.storage.tables import Store
from tasks.written_bench.findings import HARMFUL, INCORRECT
from tasks.written_bench.written_items import ItemForJudging, item_members, items_for_judging


class WrittenQueue(ReviewQueue):
    """Kept items that have a reference, of a benchmark, or of all that people wrote and the sampled one."""

    name, title, many, needs_rater = QueueName.WRITTEN.value, "Written items", True, True
    about = (
        "Is the reference correct for this instruction about these images? Mark what is wrong with it, or save without "
        "a mark when it is correct. `curate review results items` gives the yield; policy `authored` drops incorrect "
        "items."
    )
    choices = (
        Choice("1", INCORRECT, "Incorrect"),
        Choice("2", Fault.CAPTION.value, "Incorrect: a caption says too little"),
        Choice("3", Fault.REFERENCE.value, "Incorrect: the captions suffice, the reference is wrong"),
        Choice("4", HARMFUL, "Offensive or bad advice"),
    )
    tables = ("bench_items", "bench", "captions", "references", "decisions", "conversations")

    def __init__(self, bench: str | None = None) -> None:
        self._bench = bench

    def waiting(self, store: Store, among: Collection[str] | None = None) -> list[Waiting]:
        """The items, by id; a new reference makes an item wait again. `among`: also items that are not kept."""
        items = {item.item_id: item for item in self._items(store) if item.reference}
        waiting_items = [
            Waiting(
                name, text_id(item.reference or ""), name, "What is wrong with the reference?",
                texts=(*_captions(item.captions), plain("Reference", item.reference or "")), beside=True, blinded=True,
            )
            for name, item in sorted(items.items())
        ]  # fmt: skip
        if among is None:
            return waiting_items
        every = {name for bench in self._benches(store) for name in item_members(store, bench)["item_id"]}
        return [*waiting_items, *(Waiting(name, "", name, "") for name in sorted(every & set(among) - items.keys()))]

    def listed(self, store: Store, items: Sequence[Waiting]) -> Mapping[str, Listed]:
        """Instructions and images."""
        return {
            item.item_id: Listed([plain("Instruction", item.instruction)], item.image_ids)
            for item in self._items(store)
        }

    def rater(self, store: Store, name: str) -> str:
        """A keyed hash."""
        return str(Pseudonyms(store_key(store)).user_id(name))

    def earlier(self, store: Store, cells: Mapping[str, str], sheet: Sequence[Mapping[str, str]]) -> Mapping[str, str]:
        """The verdict for the columns correct, fault and harmful. Raises BadInput."""
        if not cells.get("correct"):
            return {"verdict": ""}
        correct, harmful = yes_or_no(cells, "correct"), bool(cells.get("harmful")) and yes_or_no(cells, "harmful")
        fault = cells.get("fault", "").lower()
        if fault and correct:
            raise BadInput("a correct item has no fault")
        if fault and fault not in list(Fault):
            raise BadInput(f"fault {known_values(one_line(fault, 40), list(Fault))}")
        words = [*([] if correct else [fault or INCORRECT]), *([HARMFUL] if harmful else [])]
        return {"verdict": " ".join(words) or NONE}

    def _items(self, store: Store) -> Iterator[ItemForJudging]:
        return (item for bench in self._benches(store) for item in items_for_judging(store, bench))

    def _benches(self, store: Store) -> list[str]:
        every = () if self._bench else store.read("bench_items", ["bench"])["bench"].unique()
        return [self._bench] if self._bench else [*sorted(every), SAMPLED]


def finds_correct(verdict: str) -> bool:
    """Whether a verdict calls the reference of its item correct."""
    return not {INCORRECT, *Fault} & set(verdict.split())


def _captions(captions: list[str]) -> Iterator[ShownText]:
    for number, caption in enumerate(captions, 1):
        yield plain(f"Caption of image {number}" if len(captions) > 1 else "Caption", caption)
