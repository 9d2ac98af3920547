"""Held conversations: whether they are released. A verdict holds for that content and those reasons only."""

from collections.abc import Collection

from schemas.items.decision import ItemKind
from schemas.items.review import Choice, HeldVerdict, QueueName, Waiting
from tasks.policy.rules import reviewed_contents
from tasks.review_queue import ReviewQueue
from tasks.storage.queries.released import decided_policy
from tasks.storage.records import reason_texts
from tasks.storage.tables import Store


class HeldQueue(ReviewQueue):
    """Conversations that a rule holds. A sheet of them names nothing but ids and reasons."""

    name, title = QueueName.HELD.value, "Held conversations"
    about = (
        "A rule holds them until somebody has looked. Release overrules holds and nothing else; drop keeps the "
        "conversation out. The next run, or `curate decide`, applies it."
    )
    choices = (Choice("r", HeldVerdict.RELEASE.value, "Release"), Choice("d", HeldVerdict.DROP.value, "Drop"))
    tables = ("decisions", "conversations")

    def waiting(self, store: Store, among: Collection[str] | None = None) -> list[Waiting]:
        """Every conversation that is held now, by id; `among`: also those that were held when a sheet was written."""
        decisions = store.read("decisions", ["item_kind", "item_id", "held", "reasons"])
        held_conversations = decisions.filter("held", item_kind=ItemKind.CONVERSATION.value)
        reasons = dict(held_conversations.select("item_id", "reasons").iter_rows())
        policy = decided_policy(store)
        meaning = reason_texts(policy) if policy else {}
        conversation_ids = reasons if among is None else among
        waiting = []
        for conversation_id, content_id in sorted(reviewed_contents(store, conversation_ids).items()):
            held_by = tuple(sorted(reasons.get(conversation_id, [])))
            why = "; ".join(f"{reason}: {meaning[reason]}" for reason in held_by if reason in meaning)
            waiting.append(
                Waiting(conversation_id, content_id, conversation_id, "Release it?", reasons=held_by, why=why)
            )
        return waiting
