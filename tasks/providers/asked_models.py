"""The models that users name in a models file, for answers, as judges or as writers, and whether they can be asked.

In: settings and a models file (docs/models.md). Out: its entries, checked. No model is called here.
"""

import os
from collections.abc import Sequence
from pathlib import Path

from schemas.asked_model import AskedModel
from schemas.errors import BadInput, MissingProvider
from schemas.settings import EvaluateSettings, Settings
from tasks.providers.chat import chat_model
from tasks.runtime.budget import check_prices, load_prices
from tasks.runtime.json_rows import json_file
from tasks.runtime.untrusted import read_models_list

ANSWER_SUFFIXES = (".jsonl", ".json", ".tsv", ".xlsx", ".eval")
"""Ends of the names of answer files, which may be given in place of a models file."""
EMBEDDED_JUDGE = "embedded"
"""Name of the judge that ships with the install, for --judge and in `verdicts`."""
_HINTS = {
    "key": "; give the name of an environment variable, not the key",
    "base_url": "; give an address such as http://gpu1:8000/v1, without a user's name",
}


def read_models(path: Path) -> list[AskedModel]:
    """The entries of a models file. Raises BadInput for the first error; values that may be secret are not shown."""
    return read_models_list(path, AskedModel, "docs/models.md", _HINTS)


def is_models_file(path: Path) -> bool:
    """Whether a path names a models file, and not answers."""
    if path.suffix == ".json" and path.is_file():
        content = json_file(path)
        return isinstance(content, dict) and "models" in content
    return not path.is_dir() and path.suffix not in ANSWER_SUFFIXES


def models_of(chosen: EvaluateSettings) -> list[AskedModel] | None:
    """The entries of the models file; None when answer files are given instead. Raises BadInput."""
    path = Path(chosen.models or "")
    return read_models(path) if is_models_file(path) else None


def judge_of(chosen: EvaluateSettings) -> AskedModel | None:
    """The judge; None for the stand-in. Raises BadInput."""
    if chosen.judge in (None, EMBEDDED_JUDGE):
        return None
    judges = read_models(Path(chosen.judge))
    if len(judges) > 1:
        names = ", ".join(judge.name for judge in judges)
        raise BadInput(f"--judge {chosen.judge!r} names {len(judges)} models ({names}); give a file with one")
    if judges[0].system:
        raise BadInput(f"judge {judges[0].name!r}: its system prompt is the protocol's; leave out `system`")
    return judges[0]


def to_ask(settings: Settings) -> list[AskedModel]:
    """The models that a run asks: the judge, or without one those of the models file; empty when it asks none.

    Raises CurateError when one of them may not or cannot be asked.
    """
    chosen = settings.evaluate
    if chosen.judge is None:
        models = (models_of(chosen) or []) if chosen.models else []
    else:
        models = [judge] if (judge := judge_of(chosen)) else []
    if settings.batch and (chosen.models or chosen.judge) and not models:
        raise BadInput("--batch: no model is called; leave it out, or give a models file (YAML)")
    if chosen.hidden:
        check_own(models)
    check_keys(models)
    if settings.has_budget:
        check_prices(load_prices(settings.prices), [chat_model(model) for model in models])
    return models


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
