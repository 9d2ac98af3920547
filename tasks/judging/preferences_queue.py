"""Preferences of people between two answers to an item: drawn uniformly, sides by hash, a forced choice.

A sheet has no model.
"""

from collections.abc import Callable, Collection, Mapping, Sequence

from schemas.items.review import Choice, QueueName, ShownText, Waiting
from tasks.judging.agreement.choices import SIDE_WINNERS, ItemAnswers
from tasks.judging.agreement.stored import Stored
from tasks.judging.visit_battles import REFERENCE
from tasks.review_queue import Listed, ReviewQueue, plain
from tasks.storage.content_id import combined_id
from tasks.storage.tables import Store


def drawn_uniformly(every: Sequence[ItemAnswers], count: int, seed: int) -> list[ItemAnswers]:
    """So many of them, without replacement and in the order of the draw: by a hash, never by a name."""
    return sorted(every, key=lambda pair: combined_id("drawn preference", [str(seed), pair.name]))[:count]


class PreferencesQueue(ReviewQueue):
    """Drawn pairs of answers, whose models are not shown. `every` gives all pairs, and the texts."""

    name, title, named_by_file = QueueName.PREFERENCES.value, "Preferences", True
    about = (
        "Which answer is better? Models are not shown, and one must be chosen. "
        "`curate review results preferences --bench NAME --out FILE` makes battles of the choices."
    )
    choices = tuple(Choice(side[0], side, side.capitalize()) for side in SIDE_WINNERS)
    tables = ("bench_items", "bench", "answers", "captions", "references", "decisions", "conversations")

    def __init__(self, every: Callable[[Store], tuple[Sequence[ItemAnswers], Stored]], count: int, seed: int) -> None:
        self._every, self._count, self._seed = every, count, seed

    def waiting(self, store: Store, among: Collection[str] | None = None) -> list[Waiting]:
        """The drawn pairs, in the order of the draw; `among`: all pairs."""
        every, stored_texts = self._every(store)
        return [
            Waiting(
                pair.name, pair.name, pair.item.item_id, "Which answer is better?",
                texts=(
                    _answer("Left", pair.left, pair, stored_texts), _answer("Right", pair.right, pair, stored_texts),
                ),
                beside=True, blinded=True,
            )
            for pair in drawn_uniformly(every, self._count if among is None else len(every), self._seed)
        ]  # fmt: skip

    def listed(self, store: Store, items: Sequence[Waiting]) -> Mapping[str, Listed]:
        """Prompts and images."""
        return {
            pair.name: Listed([plain("Prompt", pair.item.instruction)], pair.item.image_ids)
            for pair in self._every(store)[0]
        }


def _answer(heading: str, model: str, pair: ItemAnswers, stored_texts: Stored) -> ShownText:
    item_id = pair.item.item_id
    text = stored_texts.references[item_id] if model == REFERENCE else stored_texts.answers[item_id, model]
    return plain(heading, text)
