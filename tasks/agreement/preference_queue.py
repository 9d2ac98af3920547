"""Two answers to a written item on the review pages: a forced choice, as on a sheet of preferences."""

from collections.abc import Callable, Iterator, Sequence

from schemas.review import Choice, QueueName, ShownText, Stretch, Waiting
from tasks.agreement.preferences import SIDES, Tuple
from tasks.agreement.preferences import Choice as Chosen
from tasks.agreement.text_metrics.stored import Stored
from tasks.evaluate.visit_battles import REFERENCE
from tasks.storage.reviews import reviews_of
from tasks.storage.tables import Store


class PreferenceQueue:
    """Drawn pairs of answers, whose models are not shown; `drawn` gives them, with the texts."""

    name, title, many = QueueName.PREFERENCES.value, "Preferences", False
    about = (
        "Which answer is better? Models are not shown, and one must be chosen. "
        "`curate judge sheet --bench NAME --reviews --battles FILE` makes battles of the choices."
    )
    choices = tuple(Choice(side[0], side, side.capitalize()) for side in SIDES)
    tables = ("bench_items", "bench", "answers", "captions", "references", "decisions", "conversations")

    def __init__(self, drawn: Callable[[Store], tuple[Sequence[Tuple], Stored]]) -> None:
        self._drawn = drawn

    def waiting(self, store: Store) -> list[Waiting]:
        """The drawn pairs, in the order of the draw."""
        chosen, known = self._drawn(store)
        return [
            Waiting(
                item_id=each.sheet_item,
                content_id=each.sheet_item,
                conversation_id=each.item.item_id,
                question="Which answer is better?",
                texts=tuple(_answer(side, each, known) for side in SIDES),
                beside=True,
                blinded=True,
            )
            for each in chosen
        ]


def _answer(side: str, pair: Tuple, known: Stored) -> ShownText:
    model, item_id = getattr(pair, side), pair.item.item_id
    text = known.references[item_id] if model == REFERENCE else known.answers[item_id, model]
    return ShownText(side.capitalize(), (Stretch(text),))


def reviewed_choices(store: Store) -> Iterator[Chosen]:
    """What reviewers chose on the pages; the last choice of each on each pair."""
    given = reviews_of(store).filter(queue=QueueName.PREFERENCES.value).sort("reviewed_at", maintain_order=True)
    last = given.unique(["item_id", "reviewer"], keep="last").sort("item_id", "reviewer")
    for item, reviewer, verdict in last.select("item_id", "reviewer", "verdict").iter_rows():
        yield Chosen("a verdict of the review pages", item, reviewer, verdict)
