"""The models file of an arena: which models it serves, and how (`schemas/asked_model.py`)."""

import os
from collections.abc import Sequence
from pathlib import Path

from schemas.asked_model import ArenaModel
from schemas.errors import BadInput, MissingProvider
from tasks.runtime.yaml_files import read_models_list

_HINTS = {
    "key": "; give the name of an environment variable, not the key",
    "base_url": "; give an address such as http://gpu1:8000/v1, without a user's name",
}


def read_models(path: Path) -> list[ArenaModel]:
    """The models of a file, checked to make battles. Raises BadInput for the first error, without secret values."""
    where = f"models file {str(path)!r}"
    models = read_models_list(path, ArenaModel, "docs/arena.md", _HINTS)
    if number := next((number for number, model in enumerate(models, 1) if not model.name.isprintable()), None):
        raise BadInput(f"{where}, entry {number}: name: only printable characters; logs with others are rejected")
    _check_battles(models, where)
    return models


def _check_battles(models: Sequence[ArenaModel], where: str) -> None:
    drawn = [model for model in models if model.weight > 0]
    if len(drawn) < 2:
        raise BadInput(f"{where}: {len(drawn)} model with a weight above 0; a battle needs two")
    if sum(model.vision for model in drawn) == 1:
        raise BadInput(
            f"{where}: one model has `vision: true`; a battle with an image needs two. Add another, or leave `vision` "
            "out, and the arena takes no images"
        )


def check_keys(models: Sequence[ArenaModel]) -> None:
    """Raises MissingProvider for the first model whose key is not set; the variable's name may be a pasted key."""
    for model in models:
        if model.key and not os.environ.get(model.key):
            raise MissingProvider(
                f"model {model.name!r}: the variable that its `key` names is not set; export the model's key in it"
            )
