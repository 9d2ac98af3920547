"""What measuring would cost at paid services: only what has no fact yet, nothing sent, nothing spent."""

from collections.abc import Callable, Iterable

import polars as pl

from schemas.run import Estimate
from tasks.measure import DOCUMENT_SIGNALS, PICTURE_SIGNALS
from tasks.measure.store import missing
from tasks.prices import Prices, TokenPrice
from tasks.providers import Providers
from tasks.tables import Store

PICTURES_A_REQUEST = 16
"""Vision's limit."""
PROMPT_CHARACTERS, PICTURES_MAX, SIDE_MAX = 12_500, 8, 1600
"""What the taggers show at most (`tasks/providers/production/categories.py`; a test holds them equal)."""
ANSWER_TOKENS, ANSWER_TOKENS_MAX = 80, 4096
"""Tokens of an answer: expected without thinking, and at most."""

Count = Callable[[str], int]


def estimate_pictures(known: Store, images: pl.DataFrame, providers: Providers, prices: Prices) -> list[Estimate]:
    """Cost of the picture signals at Vision: every announced feature of every picture that lacks one is a unit."""
    signals = [make(providers) for n, make in PICTURE_SIGNALS.items() if providers.names.get(n) == "google_vision"]
    lacking = {image_id for signal in signals for image_id in missing(known, signal, images["image_id"])}
    if not signals:
        return []
    units, price = len(lacking) * len(signals), prices.unit_usd("google_vision")
    usd = None if price is None else units * price
    calls = -(-len(lacking) // PICTURES_A_REQUEST)
    signal_names = ", ".join(signal.name for signal in signals)
    return [
        Estimate(
            service="google_vision", mode="one by one", signals=signal_names, items=len(lacking),
            calls=calls, units=units, usd=usd, usd_most=usd,
        )
    ]  # fmt: skip


def estimate_documents(
    known: Store, conversations: pl.DataFrame, images: pl.DataFrame, providers: Providers, prices: Prices, count: Count
) -> list[Estimate]:
    """Cost of the categories at a language model, one by one and as the vendor's batches."""
    service = getattr(providers["categories"], "service", None)
    if service is None:
        return []
    first = conversations.unique("document_id", keep="first", maintain_order=True)
    wanted = set(missing(known, DOCUMENT_SIGNALS["categories"](providers), first["document_id"]))
    price = prices.tokens(service)
    sizes = {image_id: (w, h) for image_id, w, h in images.select("image_id", "width", "height").iter_rows()}
    rows = first.filter(pl.col("document_id").is_in(sorted(wanted))).select("turns", "image_ids").iter_rows()
    tokens = sum(_input_tokens(turns, ids, sizes, price, count) for turns, ids in rows)
    whole = tokens + len(wanted) * count(providers["categories"].instructions)
    return [_tagging(service, mode, len(wanted), whole, price) for mode in ("one by one", "batch")]


def _tagging(service: str, mode: str, items: int, input_tokens: int, price: TokenPrice | None) -> Estimate:
    share = price.batch_share if price and mode == "batch" else 1.0
    usd, most = (
        None if price is None else share * price.usd(input_tokens, items * answer)
        for answer in (ANSWER_TOKENS, ANSWER_TOKENS_MAX)
    )
    return Estimate(
        service=service, mode=mode, signals="categories", items=items, calls=items, input_tokens=input_tokens,
        output_tokens=items * ANSWER_TOKENS, usd=usd, usd_most=most,
    )  # fmt: skip


def _input_tokens(
    turns: Iterable[dict[str, str]],
    image_ids: Iterable[str],
    sizes: dict[str, tuple[int, int]],
    price: TokenPrice | None,
    count: Count,
) -> int:
    prompt = "\n\n".join(turn["content"] for turn in turns if turn["role"] == "user")[:PROMPT_CHARACTERS]
    shown = [sizes[image_id] for image_id in image_ids if image_id in sizes][:PICTURES_MAX]
    return count(prompt) + (sum(price.picture_tokens(*_sent(*size)) for size in shown) if price else 0)


def _sent(width: int, height: int) -> tuple[int, int]:
    scale = min(1.0, SIDE_MAX / max(width, height))
    return max(1, round(width * scale)), max(1, round(height * scale))
