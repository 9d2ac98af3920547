"""Images that the demo draws itself. In: a seeded generator; out: an image and words for prompts and answers about it.

A new family is one function and its name here.
"""

from collections.abc import Callable
from random import Random

from tasks.demo.drawings import figures, pages, scenes
from tasks.demo.drawings.canvas import Drawing

_FIGURES = (figures.bar_chart, figures.pie_chart, figures.flow_chart, figures.right_triangle)
_PAGES = (pages.receipt, pages.text_page, pages.street_sign, pages.dashboard, pages.code_editor)
_PLACES = (scenes.landscape, scenes.skyline, scenes.floor_plan, scenes.night_sky)
_THINGS = (scenes.fish, scenes.plate, scenes.meme, scenes.comic, scenes.discs, scenes.shards)

FAMILIES: dict[str, Callable[[Random], Drawing]] = {
    draw.__name__: draw for draw in (*_FIGURES, *_PAGES, *_PLACES, *_THINGS)
}
"""Family, as the topics name it -> function that draws one image of it."""
