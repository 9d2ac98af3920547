"""A submission to a benchmark made on demand: its items have keys, so no judge is asked."""

from dataclasses import dataclass
from pathlib import Path

from tasks.evaluate.answers import take_in
from tasks.evaluate.files.answer_files import Read
from tasks.evaluate.submission.answers import Submission, read_submission
from tasks.storage.queries.benches.generated_items import kept_items
from tasks.storage.tables import Store


@dataclass(frozen=True)
class KeyedItem:
    """One kept item as a submission names it."""

    item_id: str
    family: str
    """What the question asks for, such as colour."""
    instruction: str
    """The question without its options."""
    document_id: str


def read_keyed(store: Store, bench: str, path: Path, model: str) -> Submission:
    """What a file answers of a benchmark's kept items. Raises BadInput as `kept_items` and `read_submission` do."""
    kept = kept_items(store, bench)
    documents = dict(kept.conversations.select("conversation_id", "document_id").iter_rows())
    items = [KeyedItem(each.item_id, each.kind, each.question, documents[each.item_id]) for each in kept.items]
    return read_submission(path, model, items)


def keep_keyed(store: Store, submission: Submission) -> int:
    """Store the answers that are new; returns how many there are."""
    return take_in(store, Read(submission.answers)).counts.total()
