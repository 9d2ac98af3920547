"""Whom a submitted model meets: one opponent on every item, and the reference on some items, drawn by content hash.

A draw depends on nothing but content: the same answers give the same battles, and one more model on the board changes
only the items where it is drawn. The items with a battle against the reference are the same for every model.
"""

from tasks.evaluate.compare import ByModel
from tasks.evaluate.visit.compare import Battle
from tasks.evaluate.visit.items import Items
from tasks.storage.content_id import combined_id
from tasks.storage.queries.benches.visit_battles import REFERENCE

REFERENCE_BATTLES = 150
"""Battles with the reference, as on VisIT-Bench's board."""


def drawn_battles(items: Items, playing: ByModel, model: str, reference_battles: int) -> list[Battle]:
    """The battles of a model that plays, sides by name."""
    others = sorted(playing.keys() - {model, REFERENCE})
    found = []
    for item_id, row in sorted(playing[model].items()):
        opponents = [other for other in others if item_id in playing[other]]
        if opponents:
            drawn = min(opponents, key=lambda other: _drawn(items, item_id, other, str(row["version"])))
            found.append(_battle(item_id, model, drawn))
    return found + [
        _battle(item_id, model, REFERENCE) for item_id in _with_reference(items, playing, model, reference_battles)
    ]


def _with_reference(items: Items, playing: ByModel, model: str, count: int) -> list[str]:
    both = playing[model].keys() & playing.get(REFERENCE, {}).keys()
    return sorted(both, key=lambda item_id: combined_id("reference battle", [items.judged[item_id].document_id]))[
        :count
    ]


def _drawn(items: Items, item_id: str, other: str, version: str) -> str:
    return combined_id("opponent", [items.judged[item_id].document_id, other, version])


def _battle(item_id: str, one: str, other: str) -> Battle:
    return Battle(item_id, min(one, other), max(one, other))
