"""The models file: which models are asked, and how (`schemas/asked_model.py`)."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

import yaml
from pydantic import ValidationError

from schemas.asked_model import AskedModel
from schemas.errors import BadInput, MissingProvider, known_values
from tasks.runtime.yaml_files import read_yaml

_HINTS = {
    "key": "; give the name of an environment variable, not the key",
    "base_url": "; give an address such as http://gpu1:8000/v1, without a user's name",
}


def read_models(path: Path) -> list[AskedModel]:
    """The entries of a models file. Raises BadInput for the first error; values that may be secret are not shown."""
    where = f"models file {str(path)!r}"
    try:
        content = read_yaml(path)
    except OSError:
        raise BadInput(f"{where} cannot be read; give a YAML file with the list `models`") from None
    except (yaml.YAMLError, UnicodeDecodeError):
        raise BadInput(f"{where} is not YAML; see docs/judge_calls.md") from None
    entries = content.get("models") if isinstance(content, dict) else None
    if not isinstance(entries, list) or not entries or len(content) > 1:
        raise BadInput(f"{where}: give the list `models` and nothing beside it; see docs/judge_calls.md")
    models = [_model(entry, f"{where}, entry {number}") for number, entry in enumerate(entries, 1)]
    names = [model.name for model in models]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise BadInput(f"{where}: the name {twice!r} stands twice; names say whose answers are whose")
    return models


def _model(entry: Any, where: str) -> AskedModel:
    if not isinstance(entry, dict):
        raise BadInput(f"{where}: give name, vendor and model as keys")
    if unknown := next((str(key) for key in entry if key not in AskedModel.model_fields), None):
        raise BadInput(f"{where}: unknown key {known_values(unknown, AskedModel.model_fields)}")
    vendors = get_args(AskedModel.model_fields["vendor"].annotation)
    if "vendor" in entry and entry["vendor"] not in vendors:
        raise BadInput(f"{where}: unknown vendor {known_values(str(entry['vendor']), vendors)}")
    try:
        return AskedModel(**entry)
    except ValidationError as error:
        problem = error.errors(include_input=False)[0]
        name = ".".join(map(str, problem["loc"])) or "the entry"
        hint = _HINTS.get(name, "")
        raise BadInput(f"{where}: {name}: {problem['msg']}{hint}") from None


def check_keys(models: Sequence[AskedModel]) -> None:
    """Raises MissingProvider for the first model whose key variable is not set."""
    for model in models:
        if model.key_variable and not os.environ.get(model.key_variable):
            raise MissingProvider(f"model {model.name!r}: {model.key_told} is not set; export the model's key in it")


def check_own(models: Sequence[AskedModel]) -> None:
    """Raises BadInput for the first model that hidden prompts may not be sent to."""
    for model in models:
        if not model.own:
            raise BadInput(
                f"--hidden: model {model.name!r} is not on a server of your own; hidden prompts go only to models with "
                "base_url and `own: true`"
            )
