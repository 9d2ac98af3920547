"""The queue of tags that apply to prompts, for `curate tags evaluate`, too.

A verdict is absolute, not about one tagger or version: the next tagger is measured against it, too.
"""

from collections.abc import Collection, Mapping, Sequence

from schemas.items.decision import ItemKind
from schemas.items.review import Choice, QueueName, Waiting
from schemas.tags import ASKED_LATER, TAGS
from tasks.review_queue import DrawnQueue, Listed, plain
from tasks.signals.documents import prompt_text
from tasks.signals.tag_evaluation import Spoken
from tasks.storage.queries.released import conversations_as_released
from tasks.storage.reviews import reviews_of
from tasks.storage.tables import Store

_REASONS = tuple(ASKED_LATER.values())


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
        conversation_of = dict(first.select("document_id", "conversation_id").iter_rows())
        return [
            Waiting(document, document, conversation_of[document], "Which tags apply to the prompt?", reasons=_REASONS)
            for document in self.drawn(conversation_of, among)
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
    """Document id -> tag -> whether it applies; null where reviewers disagree, or nobody was asked about the tag."""
    tag_reviews = reviews_of(store).filter(queue=QueueName.TAGS.value)
    verdicts_of = dict[str, list[dict[str, bool]]]()
    for document, verdict, reasons in tag_reviews.select("item_id", "verdict", "reasons").iter_rows():
        tags = (tag for tag in TAGS if ASKED_LATER.get(tag) in (None, *reasons))
        verdicts_of.setdefault(document, []).append({tag: tag in verdict.split() for tag in tags})
    return {document: {tag: _agreed(tag, verdicts) for tag in TAGS} for document, verdicts in verdicts_of.items()}


def _agreed(tag: str, verdicts: Sequence[Mapping[str, bool]]) -> bool | None:
    """The answer of all who were asked about a tag; None where they differ, or nobody was."""
    answers = {verdict[tag] for verdict in verdicts if tag in verdict}
    return answers.pop() if len(answers) == 1 else None
