"""Items: which letter is right is even in a level, the other options are in an order by hash."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from schemas.benches.generated import (
    GeneratedAspect,
    GeneratedBench,
    GeneratedDescription,
    GeneratedItem,
    GeneratedQuestion,
)
from tasks.generated_bench.questions import shuffled
from tasks.storage.content_id import combined_id

LETTERS = "ABCD"
ASK = "Answer with the letter of the right option in square brackets, such as [A]."


class Accepted(NamedTuple):
    """A description with an accepted image and question."""

    description: GeneratedDescription
    question: GeneratedQuestion
    name: str
    """Name of its image in `image_files`, without the ending."""


def make_items(
    bench: GeneratedBench, aspects: Mapping[int, GeneratedAspect], accepted: Iterable[Accepted]
) -> list[GeneratedItem]:
    """The items in the order of aspects and levels."""
    levels = bench.levels.index
    found = sorted(
        accepted, key=lambda each: (levels(each.description.level), each.description.aspect, each.description.number)
    )
    letters = even_letters(found)
    items = []
    for number, each in enumerate(found):
        question, own, aspect = each.question, each.description.description_id, aspects[each.description.aspect]
        options = arranged(question.options, letters[own], own)
        items.append(GeneratedItem(
            item_id=combined_id("item", [own]), image_id=question.image_id, bench=bench.bench, description_id=own,
            number=number, aspect=aspect.name, general=aspect.general, level=each.description.level,
            kind=question.kind, question=question.question, options=options, key=letters[own],
            prompt=prompt_of(question.question, options), name=each.name,
        ))  # fmt: skip
    return items


def even_letters(accepted: Sequence[Accepted]) -> dict[str, str]:
    """Description id -> letter of its key.

    Within a level and number of options every letter is right equally often, or once more or less.
    Descriptions are dealt to the letters in the order of a hash.
    """
    groups: dict[tuple[str, int], list[str]] = {}
    for each in accepted:
        key = (each.description.level, len(each.question.options))
        groups.setdefault(key, []).append(each.description.description_id)
    dealt: dict[str, str] = {}
    for (_, count), ids in groups.items():
        ordered = sorted(ids, key=lambda each: combined_id("key", [each]))
        dealt |= {each: LETTERS[place % count] for place, each in enumerate(ordered)}
    return dealt


def arranged(options: Sequence[str], key: str, chance: str) -> list[str]:
    """The options with the right one, which is given first, at the letter `key`; the others in an order by hash."""
    others = shuffled(options[1:], chance)
    place = LETTERS.index(key)
    return [*others[:place], options[0], *others[place:]]


def prompt_of(question: str, options: Sequence[str]) -> str:
    """The question and its options as models are asked."""
    listed = "\n".join(f"{letter}. {option}" for letter, option in zip(LETTERS, options, strict=False))
    return f"{question}\n\n{listed}\n\n{ASK}"


def key_counts(items: Iterable[GeneratedItem]) -> dict[str, dict[str, int]]:
    """Level -> letter -> how often it is right."""
    found: dict[str, dict[str, int]] = {}
    for item in items:
        of_level = found.setdefault(item.level, dict.fromkeys(LETTERS, 0))
        of_level[item.key] += 1
    return found
