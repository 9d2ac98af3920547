"""Images that the demo draws itself. In: a seeded generator; out: an image and words for prompts and answers about it.

A new family is one function and its name here.
"""

from collections.abc import Callable
from random import Random

from tasks.demo.drawings import figures, pages, scenes
from tasks.demo.drawings.canvas import Drawing

_FIGURES = (figures.bar_chart, figures.line_chart, figures.pie_chart, figures.flow_chart, figures.overlapping_circles)
_GEOMETRY = (figures.right_triangle, figures.grid_figure, figures.function_graph)
_DOCUMENTS = (pages.receipt, pages.invoice, pages.text_page, pages.table, pages.recipe_card)
_SIGNS_AND_SCREENS = (pages.street_sign, pages.label, pages.settings_page, pages.dashboard)
_PLACES = (scenes.landscape, scenes.skyline, scenes.floor_plan, scenes.night_sky)
_THINGS = (scenes.fish, scenes.bird, scenes.plate, scenes.meme, scenes.comic, pages.code_editor)
_ABSTRACT = (scenes.discs, scenes.shards)

FAMILIES: dict[str, Callable[[Random], Drawing]] = {
    draw.__name__: draw
    for group in (_FIGURES, _GEOMETRY, _DOCUMENTS, _SIGNS_AND_SCREENS, _PLACES, _THINGS, _ABSTRACT)
    for draw in group
}
"""Family, as the topics name it -> what draws one image of it."""
