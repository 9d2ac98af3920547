"""Aspects of a capability, and what they start from: files of capabilities and of levels of difficulty."""

from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

from schemas.benches.generated import Capability, GeneratedAspect, GeneratedBench, Level
from schemas.benches.generated_results import WrittenAspect
from schemas.errors import BadInput, known_values
from schemas.settings import GenerateSettings
from tasks.generated_bench.wordings import repeats
from tasks.providers.capabilities import AspectsWanted, Author, ChoosyAuthor, Failed
from tasks.runtime.untrusted import read_row, read_yaml

_SHIPPED = Path(__file__).with_name("capabilities")
ASPECT_ROUNDS = 4
"""Times an author is asked for what is still missing."""


def load_capability(name_or_file: str) -> Capability:
    """A shipped capability, or that of a YAML file. Raises BadInput."""
    shipped = {path.stem: path for path in sorted(_SHIPPED.glob("*.yaml"))}
    is_file = name_or_file.endswith((".yaml", ".yml")) or "/" in name_or_file
    if not is_file and name_or_file not in shipped:
        raise BadInput(f"unknown capability {known_values(name_or_file, shipped)} Or give a YAML file of your own")
    return read_row(Path(name_or_file) if is_file else shipped[name_or_file], Capability, "capability")


@cache
def levels() -> dict[str, Level]:
    """Level -> what a description of it may hold, easiest first."""
    return {name: Level(**value) for name, value in read_yaml(Path(__file__).with_name("levels.yaml")).items()}


def known_levels(levels_given: Sequence[str]) -> list[str]:
    """The given levels, in their own order. Raises BadInput for an unknown one."""
    for name in levels_given:
        if name not in levels():
            raise BadInput(f"--set generate.levels: unknown level {known_values(name, levels())}")
    return [name for name in levels() if name in levels_given]


def check_author(author: Author, settings: GenerateSettings) -> None:
    """Raises BadInput when the author cannot write about the capability, or not at these levels; it asks nobody."""
    if isinstance(author, ChoosyAuthor):
        capability, of_bench = load_capability(settings.capability), {name: levels()[name] for name in settings.levels}
        if reason := author.refusal(AspectsWanted(capability, settings.general, settings.fine, levels=of_bench)):
            raise BadInput(reason)


def write_aspects(author: Author, bench: GeneratedBench, capability: Capability) -> list[GeneratedAspect] | Failed:
    """`general` x `fine` aspects, no two alike. Raises BadInput when the author only repeats itself."""
    aspects: list[WrittenAspect] = []
    for _ in range(ASPECT_ROUNDS):
        written_names = tuple((aspect.general, aspect.name) for aspect in aspects)
        of_bench = {name: levels()[name] for name in bench.levels}
        reply = author.aspects(AspectsWanted(capability, bench.general, bench.fine, written_names, of_bench))
        if isinstance(reply, Failed):
            return reply
        aspects = fitting([*aspects, *reply.aspects], bench.general, bench.fine)
        if len(aspects) == bench.general * bench.fine:
            return [
                GeneratedAspect(bench=bench.bench, aspect=number, version=author.version, **aspect.model_dump())
                for number, aspect in enumerate(aspects)
            ]
    raise BadInput(
        f"author {author.version} gave {len(aspects)} different aspects of {bench.general * bench.fine} in "
        f"{ASPECT_ROUNDS} rounds; ask for fewer than --set generate.general={bench.general} and "
        f"generate.fine={bench.fine}, or choose another author"
    )


def fitting(aspects: Iterable[WrittenAspect], general: int, fine: int) -> list[WrittenAspect]:
    """At most `fine` aspects of the first `general` general ones, grouped by these, without near repeats."""
    groups: dict[str, list[WrittenAspect]] = {}
    names: list[str] = []
    for aspect in aspects:
        if not aspect.name.strip() or not aspect.general.strip() or repeats(aspect.name, names):
            continue
        if aspect.general not in groups and (len(groups) == general or repeats(aspect.general, groups)):
            continue
        if len(groups.setdefault(aspect.general, [])) < fine:
            groups[aspect.general].append(aspect)
            names.append(aspect.name)
    return [aspect for group in groups.values() for aspect in group]
