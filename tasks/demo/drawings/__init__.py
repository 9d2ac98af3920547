"""Images that the demo draws itself. In: a seeded generator; out: an image and words for prompts and answers about it.

A new family is one function and its name here.
"""

from collections.abc import Callable
from random import Random

from tasks.demo.drawings import pages, scenes
from tasks.drawing.canvas import Drawing

_PAGES = (
    pages.bar_chart, pages.flow_chart, pages.right_triangle, pages.receipt, pages.text_page, pages.street_sign,
    pages.dashboard, pages.code_editor,
)  # fmt: skip
_SCENES = (
    scenes.landscape, scenes.night_sky, scenes.fish, scenes.plate, scenes.meme, scenes.discs, scenes.shards,
)  # fmt: skip

FAMILIES: dict[str, Callable[[Random], Drawing]] = {draw.__name__: draw for draw in (*_PAGES, *_SCENES)}
"""Family, as the topics name it -> function that draws one image of it."""
