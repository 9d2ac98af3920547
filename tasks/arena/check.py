"""Asks each model of an arena once, to say whether it answers and what that costs."""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from schemas.asked_model import ArenaModel
from schemas.run import Prices
from tasks.providers.capabilities import ChatMessage, StreamingModel
from tasks.runtime.prices import load_prices

_PROMPT = "Answer with one word: which colour has a ripe banana?"
_SECONDS_MAX = 60.0
_CHARACTERS_A_TOKEN = 4


@dataclass(frozen=True)
class Asked:
    """What came of one question."""

    name: str
    answered: bool
    line: str


async def asked_once(
    models: Sequence[ArenaModel], connect: Callable[[ArenaModel], StreamingModel], prices: Prices | None = None
) -> list[Asked]:
    """One question to each model, all at once."""
    known = prices or load_prices(None)
    return list(await asyncio.gather(*(_asked(model, connect(model), known) for model in models)))


async def _asked(model: ArenaModel, stream: StreamingModel, prices: Prices) -> Asked:
    began, first, text = time.monotonic(), None, ""
    try:
        async with asyncio.timeout(_SECONDS_MAX):
            async for piece in stream.stream([ChatMessage("user", _PROMPT)]):
                first = first or time.monotonic() - began
                text += piece
    except Exception as error:  # servers fail in any way; the text may quote a key
        return Asked(model.name, False, f"{model.name}: no answer ({type(error).__name__})")
    if first is None:
        return Asked(model.name, False, f"{model.name}: an empty answer")
    took = f"first word after {first:.2f} s, whole answer after {time.monotonic() - began:.2f} s"
    return Asked(model.name, True, f"{model.name}: {took}, {_cost(model, text, prices)}")


def _cost(model: ArenaModel, text: str, prices: Prices) -> str:
    """The cost of the question and answer, by their lengths."""
    price = prices.tokens(f"openai-{model.asked_as}")
    if price is None:
        return "no price is known"
    tokens = len(_PROMPT) / _CHARACTERS_A_TOKEN, len(text) / _CHARACTERS_A_TOKEN
    return f"about ${price.usd(round(tokens[0]), max(1, round(tokens[1]))):.6f}"
