"""Failures: why models fail a prompt that several people voted both bad."""

from collections.abc import Collection, Mapping, Sequence

from schemas.benches.bench import FailureType
from schemas.items.review import Choice, QueueName, Waiting
from tasks.review.review_queue import Listed, ReviewQueue, plain
from tasks.storage.tables import Store


def _words(kind: str) -> str:
    return kind.replace("_", " ").capitalize()


class FailuresQueue(ReviewQueue):
    """Prompts that several people voted both bad."""

    name, title = QueueName.FAILURES.value, "Failures"
    about = "Why do models fail the prompt? The next run, or `curate sample`, takes the type that a person gave last."
    choices = tuple(Choice(str(n), kind.value, _words(kind)) for n, kind in enumerate(FailureType, 1))
    tables = ("failures", "battles", "conversations")

    def waiting(self, store: Store, among: Collection[str] | None = None) -> list[Waiting]:
        """Every failure with both answers of its earliest vote; those without a person's type first."""
        failures = store.read("failures").sort("reviewed", "document_id")
        sides = store.read("battles", ["conversation_a", "battle_id"])
        battle_of = dict(sides.unique("conversation_a", keep="first", maintain_order=True).iter_rows())
        return [
            Waiting(
                item_id=row["document_id"],
                content_id=row["document_id"],
                conversation_id=row["conversation_id"],
                question=f"Why do models fail it? Now: {_words(row['failure_type'] or 'undecided').lower()}",
                battle_id=battle_of.get(row["conversation_id"], ""),
            )
            for row in failures.iter_rows(named=True)
        ]

    def listed(self, store: Store, items: Sequence[Waiting]) -> Mapping[str, Listed]:
        """The conversation's id, for `curate explain`, and how many people voted both bad."""
        rows = store.read("failures", ["document_id", "conversation_id", "judges", "both_bad"]).iter_rows()
        headings = ("Conversation ID", "Judges", "Both bad")
        return {
            document: Listed([plain(*each) for each in zip(headings, map(str, facts), strict=True)])
            for document, *facts in rows
        }
