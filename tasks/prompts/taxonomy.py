"""WildVision's taxonomy, read from its data file (`taxonomy.yaml`)."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from schemas.tags import Taxonomy
from tasks.runtime.yaml_files import read_yaml

BETWEEN = " / "
"""Separator of category and subcategory."""
_MEANS = "means"


@dataclass(frozen=True)
class Tree:
    """Categories and subcategories with their meanings."""

    means: dict[str, str]
    """Category -> meaning."""
    within: dict[str, dict[str, str]]
    """Category -> subcategory -> meaning."""

    @property
    def values(self) -> tuple[str, ...]:
        """Every allowed value, as `Category` or `Category / Subcategory`."""
        return tuple(
            value
            for category, parts in self.within.items()
            for value in (category, *(f"{category}{BETWEEN}{part}" for part in parts))
        )

    def in_words(self) -> str:
        """A Markdown list of every value and its meaning."""
        return "\n".join(f"  * `{value}`: {self._meaning(*value.split(BETWEEN))}" for value in self.values)

    def _meaning(self, category: str, part: str | None = None) -> str:
        return self.means[category] if part is None else self.within[category][part]


@dataclass(frozen=True)
class TaxonomyFile:
    """The whole file."""

    version: str
    """Version of the file."""
    question: Tree
    """Question categories and subcategories."""
    image: Tree
    """Image domains and subdomains."""


@cache
def taxonomy_file() -> TaxonomyFile:
    """The shipped taxonomy."""
    content: dict[str, Any] = read_yaml(Path(__file__).with_suffix(".yaml"))
    return TaxonomyFile(str(content["version"]), _tree(content["question"]), _tree(content["image"]))


def _tree(content: dict[str, dict[str, str]]) -> Tree:
    within = {name: {part: text for part, text in parts.items() if part != _MEANS} for name, parts in content.items()}
    return Tree({name: parts[_MEANS] for name, parts in content.items()}, within)


def placed(question: str | None, image: str | None) -> Taxonomy:
    """The four columns of `Taxonomy` from two values such as `Category / Subcategory`."""
    category, subcategory = _two(question)
    domain, subdomain = _two(image)
    return Taxonomy(
        question_category=category,
        question_subcategory=subcategory,
        image_domain=domain,
        image_subdomain=subdomain,
    )


def _two(value: str | None) -> tuple[str | None, str | None]:
    if value is None:
        return None, None
    category, _, part = value.partition(BETWEEN)
    return category, part or None
