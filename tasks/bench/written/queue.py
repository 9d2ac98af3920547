"""Written items with their references, for the review pages: the same questions as on a sheet."""

from collections.abc import Iterator

from schemas.review import Choice, QueueName, ShownText, Stretch, Waiting
from schemas.written import SAMPLED, Fault
from tasks.bench.written.findings import HARMFUL, INCORRECT
from tasks.bench.written.written_items import ItemForJudging, items_for_judging
from tasks.storage.content_id import text_id
from tasks.storage.tables import Store


class WrittenQueue:
    """Kept items that have a reference, of every benchmark that people wrote and of the sampled one."""

    name, title, many = QueueName.WRITTEN.value, "Written items", True
    about = (
        "Is the reference correct for this instruction about these images? Mark what is wrong with it, or save without "
        "a mark when it is correct. `curate bench findings` gives the yield; policy `authored` drops incorrect items."
    )
    choices = (
        Choice("1", INCORRECT, "Incorrect"),
        Choice("2", Fault.CAPTION.value, "Incorrect: a caption says too little"),
        Choice("3", Fault.REFERENCE.value, "Incorrect: the captions suffice, the reference is wrong"),
        Choice("4", HARMFUL, "Offensive or bad advice"),
    )
    tables = ("bench_items", "bench", "captions", "references", "decisions", "conversations")

    def waiting(self, store: Store) -> list[Waiting]:
        """The items, by id; a new reference makes an item wait again."""
        benches = [*sorted(store.read("bench_items", ["bench"])["bench"].unique()), SAMPLED]
        items = {item.item_id: item for bench in benches for item in items_for_judging(store, bench)}
        return [_waiting(items[name], items[name].reference or "") for name in sorted(items) if items[name].reference]


def _waiting(item: ItemForJudging, reference: str) -> Waiting:
    return Waiting(
        item_id=item.item_id,
        content_id=text_id(reference),
        conversation_id=item.item_id,
        question="What is wrong with the reference?",
        texts=(*_captions(item.captions), _text("Reference", reference)),
        beside=True,
        blinded=True,
    )


def _captions(captions: list[str]) -> Iterator[ShownText]:
    for number, caption in enumerate(captions, 1):
        yield _text(f"Caption of image {number}" if len(captions) > 1 else "Caption", caption)


def _text(heading: str, text: str) -> ShownText:
    return ShownText(heading, (Stretch(text),))
