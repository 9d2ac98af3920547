"""Rows with good defaults for the tests of every stage: a conversation in one call, a measured store in three.

a = conversation("a", "What is this?", "A cat.", image_ids=["1" * 32])
store = store_with(tmp_path, conversations=[a, b], battles=[battle(a, b)])
measure_clean(store, [a, b], nsfw={a.image_ids[0]: {"nsfw_probability": 0.9}, b.image_ids[0]: None})
"""

import hashlib
import io
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, get_origin

import numpy as np
import PIL.Image
import polars as pl

from flows.products import item_ids, left_out_items
from schemas.benches.judging import Label, Verdict
from schemas.items.conversation import Battle, Conversation, IdentifiedTurn, ShownImage
from schemas.items.decision import Decision, ItemKind
from schemas.items.image import Image
from schemas.release import CONFIGS
from schemas.row import Row
from schemas.settings import BenchSettings
from schemas.tables import SIGNAL_ENTRIES, SIGNALS, TABLES
from tasks.images.decode import DecodedImage, open_image
from tasks.providers.embedded.texts import Cl100k
from tasks.release.gather import BLOCK_ROWS, Gathered
from tasks.signals.run import RowsOfSignals, write_rows
from tasks.storage.content_id import combined_id, text_id
from tasks.storage.tables import Store, frame_of

NOON = datetime(2024, 9, 18, 12, tzinfo=UTC)
VERSIONS = dict.fromkeys(SIGNALS, "1")
"""Signal -> the version under which `facts_frame` stores it."""
USER_KEY = "one key for all stores of a test"
"""CURATE_USER_KEY, for stores that are compared with each other."""


class GatheredRows(NamedTuple):
    """Configuration -> rows, and how many were withheld for the benchmark."""

    rows: dict[str, pl.DataFrame]
    withheld_for_bench: int


def conversation(conversation_id: str = "c1", *texts: str, **changes: Any) -> Conversation:
    """A conversation; `texts` are the user's and the model's messages in turn."""
    texts = texts or (f"What is {conversation_id}?", f"This is {conversation_id}.")
    turns = [
        IdentifiedTurn(
            role="assistant" if place % 2 else "user",
            content=text,
            text_id=text_id(text),
            images=[ShownImage(image=n, character=0) for n in range(0 if place else len(changes.get("image_ids", [])))],
        )
        for place, text in enumerate(texts)
    ]
    prompt_id = text_id("\n\n".join(texts[::2]))
    defaults = {
        "conversation_id": conversation_id,
        "model": "vicuna-13b",
        "turns": turns,
        "null_turns": [],
        "num_turns": len(texts[::2]),
        "prompt_id": prompt_id,
        "document_id": combined_id("document", [prompt_id, *changes.get("image_ids", [])]),
        "image_ids": [],
        "image_problems": [],
        "unread_parts": [],
        "tstamp": NOON,
        "day": changes.get("tstamp", NOON).date(),
        "user_id": text_id("a user"),
        "anonymous": None,
        "voted": False,
        "feedback": [],
        "served": None,
        "consent": None,
        "source": "2024-09-18-conv.json",
        "line": 1,
    }
    return Conversation(**defaults | changes)


def sides(battle_id: str = "b1", *texts: str, **changes: Any) -> tuple[Conversation, Conversation]:
    """The two conversations of an anonymous battle over one prompt: `<battle_id>` and `<battle_id>-right`."""
    texts = texts or (f"What is {battle_id}?", f"This is {battle_id}.")
    both = {"anonymous": True, "voted": True} | changes
    left = conversation(battle_id, *texts, **{"model": "vicuna-13b"} | both)
    right = conversation(f"{battle_id}-right", *texts[:-1], f"{texts[-1]}!", **{"model": "llava-34b"} | both)
    return left, right


def battle(left: Conversation, right: Conversation, winner: str = "model_a", **changes: Any) -> Battle:
    """A vote on two conversations."""
    defaults = {
        "battle_id": left.conversation_id,
        "conversation_a": left.conversation_id,
        "conversation_b": right.conversation_id,
        "model_a": left.model,
        "model_b": right.model,
        "winner": winner,
        "anonymous": True,
        "turns_a": left.num_turns,
        "turns_b": right.num_turns,
        "tstamp": left.tstamp,
        "day": left.tstamp.date(),
        "judge": left.user_id,
        "vote_reason": None,
        "vote_reason_id": None,
        "source": left.source,
        "line": left.line,
    }
    return Battle(**defaults | changes)


def decision(item: Conversation | Battle, *reasons: str, **changes: Any) -> Decision:
    """The verdict on a conversation or battle: dropped for `reasons`, kept without any."""
    of_battle = isinstance(item, Battle)
    defaults = {
        "item_kind": ItemKind.BATTLE if of_battle else ItemKind.CONVERSATION,
        "item_id": item.battle_id if of_battle else item.conversation_id,
        "keep": not reasons,
        "kept_by_screening": not reasons,
        "held": False,
        "reasons": list(reasons),
        "tags": [],
        "redactions": [],
        "duplicate_of": None,
        "preset_dataset": None,
        "policy": "public_release",
        "policy_hash": "0" * 12,
    }
    return Decision(**defaults | changes)


def verdict(**changes: Any) -> Verdict:
    """A verdict of one judge: the baseline `base` was shown first, and model `m` is better."""
    values: dict[str, Any] = {
        "question_id": "q1",
        "protocol": "wildvision",
        "model_a": "base",
        "model_b": "m",
        "baseline": "base",
        "answer_a": "1",
        "answer_b": "1",
        "label": Label.B_BETTER,
        "judge": "judge",
        "judge_version": "1",
        "draw": "1.0.0",
        "text": "My final verdict is: [[B>A]]",
        "asked_again": False,
        "fenced_marks": 0,
    }
    return Verdict(**values | changes)


def image_bytes(seed: int = 0, size: tuple[int, int] = (32, 24), file_format: str = "PNG", **options: Any) -> bytes:
    """A file with a smooth drawing that differs with the seed; `size` is (width, height)."""
    coarse = np.random.default_rng(seed).integers(0, 256, (4, 4, 3), np.uint8)
    sink = io.BytesIO()
    PIL.Image.fromarray(coarse).resize(size, PIL.Image.Resampling.BICUBIC).save(sink, file_format, **options)
    return sink.getvalue()


def drawn_image(seed: int = 0, size: tuple[int, int] = (32, 24)) -> DecodedImage:
    """A decoded image that differs with the seed."""
    return open_image(image_bytes(seed, size))


def image(of: DecodedImage | None = None) -> Image:
    """The stored row of an image."""
    of = of or drawn_image()
    return Image(image_id=of.image_id, bytes=of.encoded, format=of.format, width=of.width, height=of.height)


def clean_value(signal: str, content_id: str) -> dict[str, Any]:
    """The columns of a harmless signal value; hashes and vectors differ between content ids."""
    digest = hashlib.sha256(content_id.encode()).hexdigest()
    vector = np.random.default_rng(int(digest[:8], 16)).normal(size=64)
    unit = (vector / np.linalg.norm(vector)).tolist()
    return {
        "nsfw": {"nsfw_probability": 0.01},
        "faces": {"faces": [], "confidence_max": 0.0, "area_fraction_max": 0.0},
        "image_hash": {"phash": digest[:16], "pdq": digest, "pdq_quality": 100, "grey": digest * 32},
        "image_colour": {"chroma": "80" * 512},
        "image_inside": dict.fromkeys(SIGNALS["image_inside"].model_fields),
        "image_layout": {"flat_fraction": 0.1, "colour_count": 500, "saturation_mean": 0.4, "ink_fraction": 0.2},
        "image_text": {"text": "", "line_count": 0, "area_fraction": 0.0, "boxes": []},
        "image_embedding": {"vector": unit},
        "image_moderation": {"flagged_probability": 0.01, "flagged_categories": [], "category_scores": []},
        "text_pii": {"spans": [], "types": []},
        "moderation": {"flagged_probability": 0.01, "flagged_categories": [], "category_scores": []},
        "language": {"language": "en", "confidence": 0.99},
        "tokens": {"tokens": 5},
        "text_embedding": {"vector": unit},
        "service_text": {"kinds": []},
        "model_names": {"names": []},
        "upstream_words": {"identity": [], "errors": [], "unfinished": []},
        "markdown": dict.fromkeys(SIGNALS["markdown"].model_fields, 0),
        "named_entities": {"entities": 0},
        "code": {"is_code": False},
        "refusal": {"refusal": False},
        "categories": dict.fromkeys(SIGNALS["categories"].model_fields, False),
        "criteria": dict.fromkeys(SIGNALS["criteria"].model_fields, False),
        "taxonomy": dict.fromkeys(SIGNALS["taxonomy"].model_fields),
        "failure_types": {"failure_type": None},
    }.get(signal) or _zeros(SIGNALS[signal])


def _zeros(value: type[Row]) -> dict[str, Any]:
    """Zero, false or empty in every column, for signals that are not listed above."""
    return {name: (get_origin(field.annotation) or field.annotation)() for name, field in value.model_fields.items()}


def facts_frame(signal: str, values: Mapping[str, Mapping[str, Any]], version: str = "1") -> pl.DataFrame:
    """Rows of `signals/<signal>`: content id -> the columns that differ from `clean_value`."""
    row = TABLES[f"signals/{signal}"].row
    key = {"version": version, "provider": "rules", "measured_at": NOON}
    return frame_of(
        row, [row(content_id=name, **key, **clean_value(signal, name) | value) for name, value in values.items()]
    )


def append_rows(store: Store, rows: RowsOfSignals) -> None:
    """Add measured rows to the signals' tables."""
    for table, part in write_rows(store, rows):
        store.add_parts(table, [part])


def store_with(folder: Path, **tables: Iterable[Row]) -> Store:
    """A store whose named tables hold these rows: `store_with(tmp_path, conversations=[…], battles=[…])`."""
    store = Store.open(str(folder / "store"))
    for name, rows in tables.items():
        store.replace(name, frame_of(TABLES[name].row, rows))
    return store


def measure_clean(
    store: Store,
    conversations: Iterable[Conversation],
    versions: Mapping[str, str] = VERSIONS,
    **other: Mapping[str, Mapping[str, Any] | None],
) -> None:
    """A harmless value of every signal for every part. `other` gives other values; None is a missing signal.

    `versions`: signal -> the version under which its values are stored.
    """
    for signal in SIGNALS:
        values = {content_id: {} for content_id in _content_ids(signal, conversations)} | other.get(signal, {})
        known = {name: value for name, value in values.items() if value is not None}
        store.replace(f"signals/{signal}", facts_frame(signal, known, versions.get(signal, "1")))


def counted_tokens(conversations: Iterable[Conversation]) -> dict[str, dict[str, int]]:
    """Real token counts for `measure_clean(tokens=…)`; a release with other counts does not verify."""
    texts = {turn.text_id: turn.content for each in conversations for turn in each.turns}
    counts = Cl100k().count_tokens(list(texts.values()))
    return {name: {"tokens": count} for name, count in zip(texts, counts, strict=True)}


def _content_ids(signal: str, conversations: Iterable[Conversation]) -> list[str]:
    found: dict[str, None] = {}
    for each in conversations:
        parts = {
            "images": each.image_ids,
            "messages": [turn.text_id for turn in each.turns],
            "assistant_messages": [turn.text_id for turn in each.turns if turn.role == "assistant"],
            "prompt": [each.prompt_id],
            "documents": [each.document_id],
            "failures": [],
            "item_images": [],
        }
        found |= dict.fromkeys(parts[SIGNAL_ENTRIES[signal].on])
        found |= dict.fromkeys(each.image_ids if signal == "code" else [])
    return list(found)


def gathered_rows(store: Store, bench: BenchSettings | None = None, block_rows: int = BLOCK_ROWS) -> GatheredRows:
    """All rows of a release of the store, each configuration as one frame."""
    gathered = Gathered(store, VERSIONS, bench or BenchSettings(), item_ids(store), left_out_items(store), block_rows)
    rows = {config: pl.concat(gathered.rows(config)) for config in CONFIGS}
    return GatheredRows(rows, gathered.withheld_for_bench)
