"""What the settings of a comparison without images name: items, players and battles."""

from schemas.settings import EvaluateSettings
from schemas.written import SAMPLED
from tasks.evaluate.answers import answers_by_model
from tasks.evaluate.compare import ByModel
from tasks.evaluate.questions import Bench
from tasks.evaluate.sources import versions_of
from tasks.evaluate.visit.compare import OrderedPair, battles_of, ordered_pairs, players
from tasks.evaluate.visit.items import Items, items_of, questions_of
from tasks.storage.tables import Store

VISIT = "visit"
"""The protocol, as in the settings."""


def items_chosen(store: Store, chosen: EvaluateSettings) -> Items:
    """The items that the chosen judge may see. Raises BadInput."""
    return items_of(store, chosen.bench or SAMPLED, hidden=chosen.hidden, needs_reference=chosen.with_reference)


def playing_on(store: Store, items: Items, chosen: EvaluateSettings) -> ByModel:
    """The players of the chosen models, or of all that have answered these items. Raises BadInput."""
    return players(items, answers_on(store, items, chosen))


def answers_on(store: Store, items: Items, chosen: EvaluateSettings, but: str | None = None) -> ByModel:
    """The answers of the chosen models, or of all but one, on these items. Raises BadInput."""
    bench = Bench(items.draw, questions_of(list(items.judged.values())), lambda asked: ())
    return answers_by_model(store, bench, versions_of(chosen, bench), chosen.baseline or "", but)


def battles_to_judge(store: Store, chosen: EvaluateSettings) -> tuple[Items, list[OrderedPair]]:
    """The items and every battle of the chosen players on them, in both orders. Raises BadInput."""
    items = items_chosen(store, chosen)
    playing = playing_on(store, items, chosen)
    return items, ordered_pairs(items, playing, battles_of(playing, chosen.baseline), chosen.with_reference)
