"""Aspects of a capability: asked again where they repeat each other, until the grid is full."""

from collections import Counter
from collections.abc import Iterable

from schemas.errors import BadInput
from schemas.generated import Capability, GeneratedAspect, GeneratedBench
from schemas.generated_results import WrittenAspect
from tasks.bench.generate.wordings import repeats
from tasks.providers.capabilities import AspectsWanted, Author, Failed

ROUNDS = 4
"""Times an author is asked for what is still missing."""


def write_aspects(author: Author, bench: GeneratedBench, capability: Capability) -> list[GeneratedAspect] | Failed:
    """`general` x `fine` aspects, no two alike. Raises BadInput when the author only repeats itself."""
    found: list[WrittenAspect] = []
    for _ in range(ROUNDS):
        known = tuple((each.general, each.name) for each in found)
        reply = author.aspects(AspectsWanted(capability, bench.general, bench.fine, known))
        if isinstance(reply, Failed):
            return reply
        found = fitting([*found, *reply.aspects], bench.general, bench.fine)
        if len(found) == bench.general * bench.fine:
            return [_row(bench, number, each, author.version) for number, each in enumerate(found)]
    raise BadInput(
        f"--aspects {bench.general}x{bench.fine}: author {author.version} gave {len(found)} different aspects of "
        f"{bench.general * bench.fine} in {ROUNDS} rounds; ask for fewer, or choose another author"
    )


def fitting(aspects: Iterable[WrittenAspect], general: int, fine: int) -> list[WrittenAspect]:
    """At most `fine` aspects of the first `general` general ones, grouped by these, without near repeats."""
    groups: dict[str, list[WrittenAspect]] = {}
    names: list[str] = []
    for each in aspects:
        if not each.name.strip() or not each.general.strip() or repeats(each.name, names):
            continue
        if each.general not in groups and (len(groups) == general or repeats(each.general, groups)):
            continue
        if len(groups.setdefault(each.general, [])) < fine:
            groups[each.general].append(each)
            names.append(each.name)
    return [each for group in groups.values() for each in group]


def _row(bench: GeneratedBench, number: int, aspect: WrittenAspect, version: str) -> GeneratedAspect:
    return GeneratedAspect(bench=bench.bench, aspect=number, version=version, **aspect.model_dump())


def counted(aspects: Iterable[GeneratedAspect]) -> dict[str, int]:
    """Fine aspects by general one."""
    return dict(Counter(each.general for each in aspects))
