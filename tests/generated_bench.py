"""A store with a benchmark made on demand by the embedded stand-ins, without the measurements of screening."""

from pathlib import Path

from schemas.benches.generated_results import ItemReview
from schemas.items.conversation import Conversation
from schemas.items.decision import Decision
from schemas.items.review import QueueName, Review
from schemas.policy import GeneratedRule
from schemas.settings import Settings
from tasks.generated_bench.items import FITS, GUIDED
from tasks.generated_bench.steps import check_images, draw_images, write_questions, write_texts
from tasks.ingest.steps import take_in_drawings, take_in_items
from tasks.ingest.take_in import NoObserver
from tasks.providers import Providers
from tasks.storage.reviews import finding
from tasks.storage.tables import Store, frame_of
from tests.builders import NOON, decision

NAME = "scenes"


def settings_for(folder: Path, **changes: object) -> Settings:
    """Two general aspects of two fine ones, two items of each level, unless `changes` say otherwise."""
    generate = {"capability": "spatial", "name": NAME, "general": 2, "fine": 2, "per_aspect": 2} | changes
    return Settings(store=str(folder), generate=generate, workers=2)


def make(settings: Settings, providers: Providers | None = None, rule: GeneratedRule | None = None) -> Store:
    """Every stage of the flow but screening and decisions, in its order."""
    providers, rule = providers or Providers(settings.providers), rule or GeneratedRule()
    write_texts.fn(settings, providers)
    for _ in range(rule.redraws_max + 1):
        draw_images.fn(settings, providers, rule)
        take_in_drawings.fn(settings, NoObserver())
        check_images.fn(settings, providers, rule)
    write_questions.fn(settings, providers, rule)
    take_in_items.fn(settings)
    return Store(settings.store)


def decided(settings: Settings) -> Store:
    """The same, with every item kept."""
    store = make(settings)
    rows = [decision(Conversation.model_validate(row)) for row in store.read("conversations").to_dicts()]
    store.replace("decisions", frame_of(Decision, rows))
    return store


def review_of_generated(found: ItemReview) -> Review:
    """The row of `reviews` for a finding on a generated item, at noon."""
    said = [name for name in FITS if getattr(found, name)]
    reasons = (GUIDED,) if found.guided else ()
    return finding(QueueName.GENERATED, found.item_id, found.item_id, found.rater, said, reasons, NOON)
