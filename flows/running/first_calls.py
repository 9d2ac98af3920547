"""One cheap call to each chosen paid service, before a night begins: are key, quota and model good?"""

import io
from collections.abc import Iterator
from typing import Any

import PIL.Image

from schemas.run import REFUSALS
from schemas.signals import MeasuredOn
from schemas.tables import SIGNAL_ENTRIES
from tasks.images.decode import decode_stored
from tasks.providers import MAKERS, Providers
from tasks.providers.capabilities import Document, Failed, TopicEvidence
from tasks.signals.registry import signal_of

_ON_IMAGES = (MeasuredOn.IMAGES, MeasuredOn.ITEM_IMAGES)


def first_answers(providers: Providers) -> Iterator[tuple[str, str]]:
    """(service, why it gave no answer, or nothing) of every paid service; each is asked once. Pictures are not."""
    asked = set[str]()
    for capability in sorted(providers.paid(providers.names.keys() - MAKERS), key=_cheapest):
        service = str(providers[capability].service)
        if service not in asked:
            asked.add(service)
            (answer,) = _answers(capability, providers)
            reason = answer.reason if isinstance(answer, Failed) else ""
            yield service, REFUSALS.get(reason, reason)


def _cheapest(capability: str) -> tuple[bool, str]:
    return capability not in ("topic_names", "moderation"), capability  # the others' instructions are longer


def _answers(capability: str, providers: Providers) -> Any:
    if capability == "topic_names":
        return providers[capability].name_topics([TopicEvidence(("tree", "leaf"), ("Which tree is this?",))])
    on = SIGNAL_ENTRIES[capability].on
    item: Any = _white() if on in _ON_IMAGES else "hello"
    if on in (MeasuredOn.DOCUMENTS, MeasuredOn.FAILURES):
        item = Document("hello", "hello", 0, (), "", 0.0, 0)
    return signal_of(capability, providers).values([item])


def _white() -> Any:
    sink = io.BytesIO()
    PIL.Image.new("RGB", (64, 64), "white").save(sink, "PNG")
    return decode_stored(sink.getvalue(), "png", "white")
