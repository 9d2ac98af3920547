"""Colours, type and tables that report, explorer and review pages share, and the frame of pages of one file.

In: templates that extend `one_file.html`. Out: one stylesheet, which a page links or includes, and whole pages.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

LOOK = Path(__file__).with_name("look.css")


def one_file(
    template: Path, filters: Mapping[str, Callable[..., Any]], sheets: Sequence[Path] = (), **values: Any
) -> str:
    """A page that opens offline and loads nothing, with our stylesheet and `sheets` in it. Every value is escaped."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader([template.parent, LOOK.parent]), autoescape=True,
        undefined=jinja2.StrictUndefined, trim_blocks=True,
    )  # fmt: skip
    environment.filters |= filters
    style = Markup("".join(sheet.read_text("utf-8") for sheet in (LOOK, *sheets)))  # noqa: S704 - files of ours
    return environment.get_template(template.name).render(style=style, **values)
