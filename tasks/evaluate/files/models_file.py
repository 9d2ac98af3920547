"""The models file: which models are asked, and how (`schemas/asked_model.py`)."""

import os
from collections.abc import Sequence
from pathlib import Path

from schemas.asked_model import AskedModel
from schemas.errors import BadInput, MissingProvider
from tasks.runtime.yaml_files import read_models_list

_HINTS = {
    "key": "; give the name of an environment variable, not the key",
    "base_url": "; give an address such as http://gpu1:8000/v1, without a user's name",
}


def read_models(path: Path) -> list[AskedModel]:
    """The entries of a models file. Raises BadInput for the first error; values that may be secret are not shown."""
    return read_models_list(path, AskedModel, "docs/judge_calls.md", _HINTS)


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
