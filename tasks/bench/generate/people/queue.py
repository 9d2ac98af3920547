"""Generated items for the review pages: the same two questions as in the list for raters."""

from collections.abc import Iterator

from schemas.generated import GeneratedAspect, GeneratedDescription, GeneratedItem
from schemas.review import Choice, QueueName, ShownText, Stretch, Waiting
from tasks.bench.generate.bench_state import BenchState, read_bench
from tasks.bench.generate.items import LETTERS
from tasks.bench.generate.kept_items import FITS, GUIDED
from tasks.storage.tables import Store


class GeneratedQueue:
    """The items of every benchmark made on demand, each with its description, aspect, guideline, and key."""

    name, title, many = QueueName.GENERATED.value, "Generated items", True
    about = (
        "Does the description fit its aspect, and do question and key fit the image? Mark what fits. "
        "`curate bench review` gives the rates; what most raters find unfit is left out from then on."
    )
    choices = (
        Choice("1", FITS[0], "The description fits its aspect"),
        Choice("2", FITS[1], "Question and key fit the image"),
    )
    tables = (
        "generated_items", "generated_aspects", "generated_descriptions", "generated_questions", "generated_images",
        "alignments", "conversations",
    )  # fmt: skip

    def waiting(self, store: Store) -> list[Waiting]:
        """The items of all benchmarks, in their order."""
        rows = store.read("generated_items", ["bench", "item_id"])
        there = set(store.read("conversations", ["conversation_id"])["conversation_id"])
        benches = [read_bench(store, bench) for bench in sorted(rows["bench"].unique())]
        return [each for made in benches for each in _of_bench(made, there)]


def _of_bench(made: BenchState, there: set[str]) -> Iterator[Waiting]:
    described = {each.description.description_id: each.description for each in made.progress}
    for item in made.items:
        if item.item_id in there:
            description = described[item.description_id]
            yield _waiting(item, description, made.aspects[description.aspect])


def _waiting(item: GeneratedItem, described: GeneratedDescription, aspect: GeneratedAspect) -> Waiting:
    right = item.options[LETTERS.index(item.key)]
    texts = (
        ("Aspect", f"{item.general}: {item.aspect}"),
        ("Guideline", aspect.guideline),
        ("Description", described.description),
        ("Key", f"{item.key}: {right}"),
    )
    return Waiting(
        item_id=item.item_id,
        content_id=item.item_id,
        conversation_id=item.item_id,
        question="What fits?",
        reasons=(GUIDED,),
        texts=tuple(ShownText(heading, (Stretch(text),)) for heading, text in texts),
        beside=True,
        blinded=True,
    )
