"""Instruction families: the shipped file with VisIT-Bench's 70, or a file of one's own."""

import re
from functools import cache
from pathlib import Path
from typing import Literal

from pydantic import Field

from schemas.errors import BadInput
from schemas.row import Row
from tasks.runtime.untrusted import one_line
from tasks.runtime.yaml_files import read_row

SHIPPED = Path(__file__).with_suffix(".yaml")
_SIGNS = re.compile(r"[^0-9a-z]+")


class Family(Row):
    """One instruction family with an example, as a writer is shown it."""

    name: str = Field(min_length=1, max_length=80)
    """Name of the family."""
    origin: Literal["new", "reformatted"]
    """Whether its instructions are written for the benchmark, or made from an existing data set."""
    images: Literal["one", "several"]
    """Whether an instruction is about one image or several."""
    instruction: str
    """Instruction of the example."""
    shows: list[str]
    """Content of each image of the example."""
    response: str
    """A good answer to the example."""


class Families(Row):
    """The content of a families file."""

    version: str
    """Name and version of the list."""
    families: list[Family]
    """Every family."""

    def named(self, name: str) -> Family | None:
        """The family of this name, however its capitals and signs are written; None when there is none."""
        return next((each for each in self.families if family_key(each.name) == family_key(name)), None)


def family_key(name: str) -> str:
    """A name without capitals and signs: `Who to call?` and `who_to_call` are one family."""
    return _SIGNS.sub("_", name.casefold()).strip("_")


@cache
def load_families(file: Path = SHIPPED) -> Families:
    """The families of a file. Raises BadInput when it cannot be used, or names a family twice."""
    found = read_row(file, Families, "families", "see docs/benchmarks.md for its keys")
    seen = set[str]()
    for family in found.families:
        if family_key(family.name) in seen:
            raise BadInput(
                f"families {str(file)!r} has the family {one_line(family.name, 60)!r} twice; keep one of the two"
            )
        seen.add(family_key(family.name))
    return found
