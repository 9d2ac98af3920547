"""One cheap call to each chosen paid service, before a night begins: are key, quota and model good?"""

import io
from collections.abc import Iterator
from typing import Any

import PIL.Image
from prefect.runtime import deployment

from schemas.errors import MissingProvider
from schemas.run import REFUSALS, StageReport
from schemas.settings import Settings
from schemas.signals import MeasuredOn
from schemas.tables import SIGNAL_ENTRIES
from tasks.images.decode import decode_stored
from tasks.providers import MAKERS, Providers
from tasks.providers.capabilities import Document, Failed, TopicEvidence
from tasks.runtime.progress import timed
from tasks.signals.registry import signal_of

_ON_IMAGES = (MeasuredOn.IMAGES, MeasuredOn.ITEM_IMAGES)


def services_answer(settings: Settings) -> Iterator[StageReport]:
    """Ask the services of a deployment's run before it begins. Raises MissingProvider when one refuses.

    One that is only down for now does not stop the night: its calls are tried again, and fail closed.
    """
    if deployment.id is not None and settings.providers:
        yield _ask_services(settings)


@timed
def _ask_services(settings: Settings) -> StageReport:
    answers = dict(first_answers(Providers(settings.providers)))
    if refused := [f"{service}: {REFUSALS[why]}" for service, why in answers.items() if why in REFUSALS]:
        raise MissingProvider(f"{'; '.join(refused)}; nothing was begun; put it right, and see `curate doctor --ask`")
    return StageReport(stage="services", counts={"asked": len(answers), "silent": sum(map(bool, answers.values()))})


def first_answers(providers: Providers) -> Iterator[tuple[str, str]]:
    """(service, reason why it gave no answer, or nothing) of every paid one, each asked once. Pictures are not."""
    asked = set[str]()
    for capability in sorted(providers.paid(providers.names.keys() - MAKERS), key=_cheapest):
        service = str(providers[capability].service)
        if service not in asked:
            asked.add(service)
            (answer,) = _answers(capability, providers)
            yield service, answer.reason if isinstance(answer, Failed) else ""


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
