"""Models of an arena: the file that says which it serves and how, and one question to each."""

import asyncio
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from schemas.asked_model import ArenaModel
from schemas.errors import BadInput, MissingProvider
from schemas.run import Prices
from tasks.providers.capabilities import ChatMessage, StreamingModel, TokensUsed
from tasks.runtime.budget import load_prices
from tasks.runtime.untrusted import read_models_list

_HINTS = {
    "key": "; give the name of an environment variable, not the key",
    "base_url": "; give an address such as http://gpu1:8000/v1, without a user's name",
    "price": "; give input_usd_per_million and output_usd_per_million, in US dollars",
}


def read_arena_models(path: Path) -> list[ArenaModel]:
    """The models of a file, checked to make battles. Raises BadInput for the first error, without secret values."""
    where = f"models file {str(path)!r}"
    models = read_models_list(path, ArenaModel, "docs/models.md", _HINTS)
    if number := next((number for number, model in enumerate(models, 1) if not model.name.isprintable()), None):
        raise BadInput(f"{where}, entry {number}: name: only printable characters; logs with others are rejected")
    require_battles(models, where)
    return models


def require_battles(models: Sequence[ArenaModel], where: str) -> None:
    """Raises BadInput where the models of a file make no battles, or battles without images alone."""
    require_two_drawn(models, where)
    if sum(model.vision for model in models if model.weight > 0) == 1:
        raise BadInput(
            f"{where}: one model has `vision: true`; a battle with an image needs two. Add another, or leave `vision` "
            "out, and the arena takes no images"
        )


def require_two_drawn(models: Sequence[ArenaModel], where: str) -> None:
    """Raises BadInput where fewer than two models may be drawn."""
    drawn = [model for model in models if model.weight > 0]
    if len(drawn) < 2:
        raise BadInput(f"{where}: {len(drawn)} model with a weight above 0; a battle needs two")


def check_arena_keys(models: Sequence[ArenaModel]) -> None:
    """Raises MissingProvider for the first model whose key is not set; the variable's name may be a pasted key."""
    for model in models:
        if model.key and not os.environ.get(model.key):
            raise MissingProvider(
                f"model {model.name!r}: the variable that its `key` names is not set; export the model's key in it"
            )


_PROMPT = "Answer with one word: which colour has a ripe banana?"
_SECONDS_MAX = 60.0
_CHARACTERS_A_TOKEN = 4


class ModelCheck(NamedTuple):
    """Outcome of one question."""

    name: str
    answered: bool
    line: str


async def asked_once(
    models: Sequence[ArenaModel], connect: Callable[[ArenaModel], StreamingModel], prices: Prices | None = None
) -> list[ModelCheck]:
    """One question to each model, all at once."""
    price_file = prices or load_prices(None)
    return list(await asyncio.gather(*(_asked(model, connect(model), price_file) for model in models)))


async def _asked(model: ArenaModel, stream: StreamingModel, prices: Prices) -> ModelCheck:
    began, first, text, used = time.monotonic(), None, "", TokensUsed()
    try:
        async with asyncio.timeout(_SECONDS_MAX):
            async for piece in stream.stream([ChatMessage("user", _PROMPT)]):
                if isinstance(piece, TokensUsed):
                    used = piece
                    continue
                first = first or time.monotonic() - began
                text += piece
    except Exception as error:  # servers fail in any way; the text may quote a key
        return ModelCheck(model.name, False, f"{model.name}: no answer ({type(error).__name__})")
    if first is None:
        return ModelCheck(model.name, False, f"{model.name}: an empty answer")
    took = f"first word after {first:.2f} s, whole answer after {time.monotonic() - began:.2f} s"
    return ModelCheck(model.name, True, f"{model.name}: {took}, {_cost(model, text, used, prices)}")


def _cost(model: ArenaModel, text: str, used: TokensUsed, prices: Prices) -> str:
    """The cost of the question and answer, by the server's count of tokens, or by their lengths."""
    price = model.price or prices.tokens(f"openai-{model.asked_as}")
    if price is None:
        return "no price is known"
    if used.input_tokens is not None and used.output_tokens is not None:
        return f"${price.usd(used.input_tokens, used.output_tokens):.6f}"
    tokens = len(_PROMPT) / _CHARACTERS_A_TOKEN, len(text) / _CHARACTERS_A_TOKEN
    return f"about ${price.usd(round(tokens[0]), max(1, round(tokens[1]))):.6f}"
