"""Images that the demo draws itself. In: a seeded generator; out: an image and words for prompts and answers about it.

A new family is one function and its name here.
"""

from collections.abc import Callable
from random import Random

from tasks.demo.drawings import figures, pages, scenes
from tasks.drawing.canvas import Drawing

_FIGURES = (figures.bar_chart, figures.flow_chart, figures.right_triangle)
_PAGES = (pages.receipt, pages.text_page, pages.street_sign, pages.dashboard, pages.code_editor)
_SCENES = (
    scenes.landscape, scenes.night_sky, scenes.fish, scenes.plate, scenes.meme, scenes.discs, scenes.shards,
)  # fmt: skip

FAMILIES: dict[str, Callable[[Random], Drawing]] = {draw.__name__: draw for draw in (*_FIGURES, *_PAGES, *_SCENES)}
"""Family, as the topics name it -> function that draws one image of it."""
