"""Every signal of a loose picture or text, as the `inspect` command prints them."""

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import orjson

from tasks.measure import DESCRIPTIVE_TEXT_SIGNALS, SCREENING_TEXT_SIGNALS, picture_signals
from tasks.measure.signal import Item, Signal
from tasks.pixels.pictures import Picture, PictureRejected, open_picture
from tasks.providers import Providers
from tasks.providers.capabilities import Failed

Inspected = dict[str, Any]


def inspect_file(file: Path, providers: Providers) -> Iterator[Inspected]:
    """One object for a picture, or one for each line of a .jsonl file: `item` and `signals`.

    A signal that failed has `error` with the reason; so has every signal of a picture or line that cannot be read.
    """
    if file.suffix in (".jsonl", ".ndjson"):
        yield from _texts(file, providers)
    else:
        yield _picture(file, providers)


def _picture(file: Path, providers: Providers) -> Inspected:
    try:
        picture = open_picture(file.read_bytes())
    except PictureRejected as rejected:
        return {
            "item": str(file),
            "signals": {name: {"error": rejected.reason} for name in _picture_signals(providers)},
        }
    return {"item": str(file), "signals": _measured(_picture_signals(providers), picture)}


def _texts(file: Path, providers: Providers) -> Iterator[Inspected]:
    signals = _text_signals(providers)
    with file.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            item = f"{file}:{number}"
            try:
                record = orjson.loads(line)
                text = record["text"]
            except (orjson.JSONDecodeError, KeyError, TypeError):
                text = None
            if isinstance(text, str):
                yield {"item": record.get("id", item), "signals": _measured(signals, text)}
            else:
                yield {"item": item, "signals": {name: {"error": "no_text"} for name in signals}}


def _measured(signals: Mapping[str, Signal[Item]], item: Item) -> dict[str, Any]:
    values = {name: signal.values([item])[0] for name, signal in signals.items()}
    return {name: {"error": v.reason} if isinstance(v, Failed) else v.model_dump() for name, v in values.items()}


@cache
def _picture_signals(providers: Providers) -> dict[str, Signal[Picture]]:
    return picture_signals(providers)


@cache
def _text_signals(providers: Providers) -> dict[str, Signal[str]]:
    made = SCREENING_TEXT_SIGNALS | DESCRIPTIVE_TEXT_SIGNALS
    return {name: make(providers) for name, (_, make) in made.items()}
