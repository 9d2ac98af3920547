"""Figures of a written benchmark, family by family: sizes, what instructions ask for, and what the images show.

They are counted in one way from a store (command, report) and from a release's own rows (its card).
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeVar

from schemas.benches.written import Split
from schemas.row import Int32, Row
from tasks.storage.queries.signals import latest_query
from tasks.storage.tables import Store
from tasks.written_bench.written_items import items_for_judging

MOST_OF_A_FAMILY, MOST_OF_ALL = 3, 20
"""Phrases and objects that are listed."""
EVERY = "all"
_STAND_IN = "efficientnet"
"""In the version of the classifier that names objects without Vision; what it says is in no release."""
Counted = TypeVar("Counted", str, tuple[str, str])
Phrases = Callable[[Sequence[str]], list[tuple[str, str]]]
"""(root verb, direct object) of each text (`tasks/providers/embedded/texts.py`)."""


class ItemFacts(NamedTuple):
    """Facts of one item that are counted."""

    family: str
    instruction: str
    images: int
    validation: bool
    captions: Sequence[str]
    """One for each image; empty where one is missing or not released."""
    reference: str | None
    objects: Sequence[str]
    """Names of what is in its images, each once."""


class FamilyFigures(Row):
    """The items of one family."""

    family: str
    """The family; `all` for every item."""
    items: Int32
    """Kept items."""
    images: Int32
    """Images of the items."""
    validation: Int32
    """Items of the validation split."""
    captioned: Int32
    """Items with a caption for every image."""
    referenced: Int32
    """Items with a reference that is not stale."""
    instruction_words: float
    """Mean words of an instruction."""
    caption_words: float | None
    """Mean words of a caption; null without captions."""
    reference_words: float | None
    """Mean words of a reference; null without one."""


class AskedFor(Row):
    """Instructions of a family that have a root verb with its direct object."""

    family: str
    """The family; `all` for every item."""
    verb: str
    """The root verb's base form; empty where the first sentence has none."""
    object: str
    """The direct object's base form; empty without one, and for a pronoun."""
    items: Int32
    """Kept items whose instruction has both."""


class Pictured(Row):
    """Items of a family that show an object."""

    family: str
    """The family; `all` for every item."""
    object: str
    """Name of the object, as the object finder says; empty for items in whose images it names nothing."""
    items: Int32
    """Kept items with the object in an image."""


def facts_of_store(store: Store, bench: str, released: bool = False) -> list[ItemFacts]:
    """The kept items of a benchmark, by id. Objects are those that were named last; `released`: not by the stand-in."""
    seen = objects_of_images(store, released)
    return [
        ItemFacts(
            item.family, item.instruction, len(item.image_ids), item.split is Split.VALIDATION, item.captions,
            item.reference, in_images(seen, item.image_ids),
        )
        for item in items_for_judging(store, bench)
    ]  # fmt: skip


def objects_of_images(store: Store, released: bool = False) -> dict[str, list[str]]:
    """Image -> names of its objects, as measured last; `released`: without those of the stand-in."""
    last = store.ask(latest_query("objects", ["names", "version"]))
    return {name: names for name, names, version in last.iter_rows() if not (released and _STAND_IN in version)}


def in_images(seen: dict[str, list[str]], image_ids: Sequence[str]) -> list[str]:
    """Names of the objects in some images, each once, by name."""
    return sorted({name for image_id in image_ids for name in seen.get(image_id, [])})


def family_figures(items: Sequence[ItemFacts]) -> list[FamilyFigures]:
    """One row for all items and one for each family, in order."""
    return [_figures(family, [items[number] for number in chosen]) for family, chosen in _parts(items)]


def asked_for(items: Sequence[ItemFacts], phrases: Phrases) -> list[AskedFor]:
    """The most frequent phrases of all items, and of each family."""
    phrases_by_item = phrases([item.instruction for item in items])
    return [
        AskedFor(family=family, verb=verb, object=noun, items=count)
        for family, chosen in _parts(items)
        for (verb, noun), count in _most(family, Counter(phrases_by_item[number] for number in chosen))
    ]


def pictured(items: Sequence[ItemFacts]) -> list[Pictured]:
    """The most frequent objects of all items, and of each family."""
    return [
        Pictured(family=family, object=name, items=count)
        for family, chosen in _parts(items)
        for name, count in _most(family, Counter(name for number in chosen for name in items[number].objects or [""]))
    ]


def _most(family: str, counted: Counter[Counted]) -> list[tuple[Counted, int]]:
    ranked = sorted(counted.items(), key=lambda value_count: (-value_count[1], value_count[0]))
    return ranked[: MOST_OF_ALL if family == EVERY else MOST_OF_A_FAMILY]


def _parts(items: Sequence[ItemFacts]) -> Iterator[tuple[str, list[int]]]:
    """`all` and each family -> numbers of its items; nothing without items."""
    if items:
        yield EVERY, list(range(len(items)))
    for family in sorted({item.family for item in items} - {""}):
        yield family, [number for number, item in enumerate(items) if item.family == family]


def _figures(family: str, items: list[ItemFacts]) -> FamilyFigures:
    captions = [text for item in items for text in item.captions]
    references = [item.reference for item in items if item.reference]
    return FamilyFigures(
        family=family, items=len(items), images=sum(item.images for item in items),
        validation=sum(item.validation for item in items), captioned=sum(bool(item.captions) for item in items),
        referenced=len(references), instruction_words=_mean_words([item.instruction for item in items]) or 0.0,
        caption_words=_mean_words(captions), reference_words=_mean_words(references),
    )  # fmt: skip


def _mean_words(texts: list[str]) -> float | None:
    return round(sum(len(text.split()) for text in texts) / len(texts), 2) if texts else None
