"""Rows of benchmarks that people write."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from schemas.benches.written import Caption, Reference, Split, WrittenBy, WrittenItem
from schemas.items.conversation import Conversation
from tasks.written_bench.written_items import captions_id
from tests.builders import NOON


def written_item(of: Conversation, **changes: Any) -> WrittenItem:
    """The item that a conversation is, in the benchmark `b`."""
    images = len(of.image_ids)
    values: dict[str, Any] = {
        "item_id": of.conversation_id, "bench": "b", "family": "counting", "images": images,
        "licences": ["CC BY 4.0"] * images, "authors": ["a photographer"] * images, "origin": "", "split": Split.HIDDEN,
    }  # fmt: skip
    return WrittenItem(**values | changes)


def caption(of: Conversation, text: str, place: int = 0, later: int = 0, **changes: Any) -> Caption:
    """A person's caption, written `later` seconds after noon."""
    return Caption(**_written(of, text, later) | {"place": place} | changes)


def reference(of: Conversation, text: str, captions: Sequence[str], later: int = 0, **changes: Any) -> Reference:
    """A person's reference, written from `captions`."""
    return Reference(**_written(of, text, later) | {"captions_id": captions_id(captions)} | changes)


def _written(of: Conversation, text: str, later: int) -> dict[str, Any]:
    ids = {"item_id": of.conversation_id, "document_id": of.document_id, "text": text}
    by = {"written_by": WrittenBy.PEOPLE, "provider": "people", "version": "people"}
    return ids | by | {"written_at": NOON + timedelta(seconds=later)}
