"""The demo as a product of the core: two commands, and models that an arena serves without keys."""

from pathlib import Path
from typing import TYPE_CHECKING

from tasks.product import Product

if TYPE_CHECKING:
    from tasks.providers.capabilities import StreamingModel


def _drawn_models(folder: Path, seed: int) -> "dict[str, StreamingModel]":
    from tasks.demo.answers import DrawnModel, demo_models, draw_examples

    examples = draw_examples(folder, 0)
    return {model.name: DrawnModel(model, examples, seed) for model in demo_models()}


DEMO = Product(commands="flows.demo.command", drawn_models=_drawn_models)
