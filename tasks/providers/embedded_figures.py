"""Figures of the models that ship with the install, their material, and how much tags may say by them.

In: `embedded_figures.yaml`, which `python -m benchmarks.embedded_figures` writes, but for its notes. Out: lines of
cards, manifests and pages, each with a column for material that the rule was made with and one for material that it was
not; and for each tag whether it says yes and no, no alone, or nothing. Raises BadInput for a figure without its
material.
"""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from pathlib import Path

from pydantic import ValidationError

from schemas.embedded_figures import EmbeddedFigures, MeasuredFigure, StatedFigure
from schemas.errors import BadInput
from schemas.tags import Share
from tasks.runtime.shares import clopper_pearson
from tasks.runtime.untrusted import read_yaml

FILE = Path(__file__).with_suffix(".yaml")
PRECISION_MIN, PRECISION_LOW_MIN = 0.8, 0.6
"""Least precision on unseen material, and least lower end of its interval, with which a tag says true."""
TAG_RECALL_MIN = 0.5
"""Least share of the unseen true rows that the rule finds for a tag to be on."""
CATEGORIES_CAPABILITY, PRECISION, RECALL = "categories", "precision", "recall"
NOT_MADE_WITH, NOT_UNSEEN = "not measured", "not measured on material that the rule was not made with"
NO_FIGURE = "–"
_ROUNDED = 1e-4
"""Difference of a share from hits / n that rounding to four places explains."""


def read_figures(file: Path) -> EmbeddedFigures:
    """The figures of a file. Raises BadInput for one without its material, or with a wrong share."""
    try:
        read = EmbeddedFigures.model_validate(read_yaml(file))
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(step) for step in first["loc"])
        raise BadInput(f"{file.name}: {field}: {first['msg']}; make it anew with benchmarks.embedded_figures") from None
    names = set[str]()
    for figure in read.figures:
        name = f"{file.name}: {figure.of} {figure.label} {figure.measure} on {figure.material!r}"
        if figure.material not in read.materials:
            raise BadInput(f"{name}: this material is not described; a figure needs its material")
        is_share = (
            0 <= figure.hits <= figure.n and figure.n > 0 and abs(figure.value - figure.hits / figure.n) < _ROUNDED
        )
        if not (is_share and figure.ci95_low <= figure.value <= figure.ci95_high):
            raise BadInput(f"{name}: {figure.hits} of {figure.n} is no share with its interval")
        if name in names:
            raise BadInput(f"{name}: stands twice")
        names.add(name)
    return read


FIGURES = read_figures(FILE)


def stated(capability: str) -> list[StatedFigure]:
    """Lines of a card about a capability: each label and measure once, then what no figure says."""
    of_capability = [figure for figure in FIGURES.figures if figure.of == capability]
    lines = [
        _line(of_capability, *key)
        for key in dict.fromkeys((measured.label, measured.measure) for measured in of_capability)
    ]
    if note := FIGURES.notes.get(capability):
        lines.append(StatedFigure(what=note, made_with=NO_FIGURE, unseen=NO_FIGURE))
    return lines


def _line(figures: Sequence[MeasuredFigure], label: str, measure: str) -> StatedFigure:
    same = [figure for figure in figures if (figure.label, figure.measure) == (label, measure)]
    return StatedFigure(
        what=f"{label}: {measure}" if label else measure,
        made_with=_cell([measured for measured in same if not _is_unseen(measured)]) or NOT_MADE_WITH,
        unseen=_cell([measured for measured in same if _is_unseen(measured)]) or NOT_UNSEEN,
    )


def _is_unseen(figure: MeasuredFigure) -> bool:
    return not FIGURES.materials[figure.material].made_with


def _cell(figures: Iterable[MeasuredFigure]) -> str:
    return "; ".join(
        f"{figure.value:.3f} [{figure.ci95_low:.3f}, {figure.ci95_high:.3f}] of {figure.n:,} ({figure.material}, "
        f"{FIGURES.materials[figure.material].labelled_by})"
        for figure in figures
    )


class TagAnswers(StrEnum):
    """Answers that an embedded tag gives; the value says it on cards and pages."""

    ALL = "yes, no, or null"
    NO_TRUE = "null in place of yes: too few of its yes are right on unseen material"
    OFF = "off, always null: it finds too few of the unseen ones, or was not measured on unseen material"


def tag_answers(tag: str) -> TagAnswers:
    """Answers that the figures on unseen material, taken together, allow a tag to give."""
    precision, recall = (_together(tag, measure) for measure in (PRECISION, RECALL))
    if recall.value is None or recall.value < TAG_RECALL_MIN:
        return TagAnswers.OFF
    right = (precision.value or 0) >= PRECISION_MIN and (precision.ci95_low or 0) >= PRECISION_LOW_MIN
    return TagAnswers.ALL if right else TagAnswers.NO_TRUE


def _together(tag: str, measure: str) -> Share:
    """A share of a tag over all unseen material."""
    key = (CATEGORIES_CAPABILITY, tag, measure)
    unseen = [
        figure for figure in FIGURES.figures if (figure.of, figure.label, figure.measure) == key and _is_unseen(figure)
    ]
    return clopper_pearson(sum(figure.hits for figure in unseen), sum(figure.n for figure in unseen))
