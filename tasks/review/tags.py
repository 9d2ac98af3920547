"""Queues about prompts: tags that apply, for `curate tags evaluate`, too, and why models fail what people vote bad.

A verdict is absolute, not about one tagger or version: the next tagger is measured against it, too.
"""

from collections.abc import Collection, Mapping, Sequence

from schemas.benches.bench import FailureType
from schemas.items.decision import ItemKind
from schemas.items.review import Choice, QueueName, Waiting
from schemas.tags import TAGS
from tasks.review_queue import DrawnQueue, Listed, ReviewQueue, plain
from tasks.signals.documents import prompt_text
from tasks.signals.tag_evaluation import Spoken
from tasks.storage.queries.released import conversations_as_released
from tasks.storage.reviews import reviews_of
from tasks.storage.tables import Store


def _words(name: str) -> str:
    return "OCR" if name == "ocr" else name.replace("_", " ").capitalize()


class TagsQueue(DrawnQueue):
    """Prompts of kept conversations, drawn evenly over all of them, so that every share is one of the arena."""

    name, title, many = QueueName.TAGS.value, "Tags", True
    about = (
        "Which tags apply to the prompt with its images? What the tagger says is not shown. "
        "`curate tags evaluate TAGGER reviews --store STORE` holds any tagger against it."
    )
    choices = tuple(Choice(str(n), tag, _words(tag)) for n, tag in enumerate(TAGS, 1))
    tables = ("decisions", "conversations")

    def waiting(self, store: Store, among: Collection[str] | None = None) -> list[Waiting]:
        """The drawn prompts, each in the first conversation that has it."""
        decided = store.read("decisions", ["item_kind", "item_id", "keep"])
        kept = decided.filter("keep", item_kind=ItemKind.CONVERSATION.value)["item_id"]
        rows = store.read("conversations", ["conversation_id", "document_id", "tstamp"])
        of_kept = rows.filter(rows["conversation_id"].is_in(kept.implode())).sort("tstamp", "conversation_id")
        first = of_kept.unique("document_id", keep="first", maintain_order=True)
        shown = dict(first.select("document_id", "conversation_id").iter_rows())
        return [
            Waiting(document, document, shown[document], "Which tags apply to the prompt?")
            for document in self.drawn(shown, among)
        ]

    def listed(self, store: Store, items: Sequence[Waiting]) -> Mapping[str, Listed]:
        """Prompts with their images, as released."""
        item_of = {item.conversation_id: item.item_id for item in items}
        released = conversations_as_released(store).select("conversation_id", "turns", "image_ids")
        rows = released.filter(released["conversation_id"].is_in(list(item_of))).iter_rows()
        return {
            item_of[name]: Listed([plain("Prompt", prompt_text(turns))], image_ids) for name, turns, image_ids in rows
        }


def reviewed_tags(store: Store) -> Spoken:
    """Document id -> tag -> whether it applies; null where reviewers disagree."""
    given = reviews_of(store).filter(queue=QueueName.TAGS.value)
    found: Spoken = {}
    for document, verdict in given.select("item_id", "verdict").iter_rows():
        said = {tag: tag in verdict.split() for tag in TAGS}
        known = found.setdefault(document, dict(said))
        found[document] = {tag: known[tag] if known[tag] is said[tag] else None for tag in TAGS}
    return found


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
                document, document, asked, f"Why do models fail it? Now: {_words(kind or 'undecided').lower()}",
                battle_id=battle_of.get(asked, ""),
            )
            for document, asked, kind in failures["document_id", "conversation_id", "failure_type"].iter_rows()
        ]  # fmt: skip

    def listed(self, store: Store, items: Sequence[Waiting]) -> Mapping[str, Listed]:
        """The conversation's id, for `curate explain`, and how many people voted both bad."""
        rows = store.read("failures", ["document_id", "conversation_id", "judges", "both_bad"]).iter_rows()
        headings = ("Conversation ID", "Judges", "Both bad")
        return {
            document: Listed([plain(*each) for each in zip(headings, map(str, facts), strict=True)])
            for document, *facts in rows
        }
