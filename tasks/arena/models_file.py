"""The models file of an arena: which models it serves, and how (`schemas/arena.py`)."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from schemas.arena import ArenaModel
from schemas.errors import BadInput, MissingProvider, known_values
from tasks.runtime.yaml_files import read_yaml

_HINTS = {
    "key": "; give the name of an environment variable, not the key",
    "base_url": "; give an address such as http://gpu1:8000/v1, without a user's name",
}


def read_models(path: Path) -> list[ArenaModel]:
    """The models of a file, checked to make battles. Raises BadInput for the first error, without secret values."""
    where = f"models file {str(path)!r}"
    try:
        content = read_yaml(path)
    except OSError:
        raise BadInput(f"{where} cannot be read; give a YAML file with the list `models`") from None
    except (yaml.YAMLError, UnicodeDecodeError):
        raise BadInput(f"{where} is not YAML; see docs/arena.md") from None
    entries = content.get("models") if isinstance(content, dict) else None
    if not isinstance(entries, list) or not entries or len(content) > 1:
        raise BadInput(f"{where}: give the list `models` and nothing beside it; see docs/arena.md")
    models = [_model(entry, f"{where}, entry {number}") for number, entry in enumerate(entries, 1)]
    _check_battles(models, where)
    return models


def _model(entry: Any, where: str) -> ArenaModel:
    if not isinstance(entry, dict):
        raise BadInput(f"{where}: give name and base_url as keys")
    if unknown := next((str(key) for key in entry if key not in ArenaModel.model_fields), None):
        raise BadInput(f"{where}: unknown key {known_values(unknown, ArenaModel.model_fields)}")
    try:
        model = ArenaModel(**entry)
    except ValidationError as error:
        problem = error.errors(include_input=False)[0]
        name = ".".join(map(str, problem["loc"])) or "the entry"
        raise BadInput(f"{where}: {name}: {problem['msg']}{_HINTS.get(name, '')}") from None
    if not model.name.isprintable():
        raise BadInput(f"{where}: name: only printable characters; logs with others are rejected")
    return model


def _check_battles(models: Sequence[ArenaModel], where: str) -> None:
    names = [model.name for model in models]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise BadInput(f"{where}: the name {twice!r} stands twice; names say whose answers are whose")
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
