"""Labels by hand of 320 prompts with their images, and the stores that hold these (definitions: tags_by_hand.md).

Half of the prompts is in the store of `curate demo --out DIR`, the other in one that `curate run` makes of public
images and questions (`arena-logs` of the shared data).
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.tag_labels import Labelled
from tasks.providers import Providers
from tasks.providers.capabilities import Document
from tasks.signals.documents import stored_documents
from tasks.signals.loose_files import read_tag_labels
from tasks.signals.tag_evaluation import TagValue
from tasks.storage.tables import Store

FILE = Path(__file__).with_suffix(".csv")
TAGS = ("homework", "ocr", "diagram", "captioning", "code", "creative_writing", "entity_recognition", "humor")
TAXONOMY = ("question_category", "image_domain")
HALVES = {"work": "tuning", "unseen": "held_out"}


class ByHand(NamedTuple):
    """A prompt of a store with what was said of it."""

    labelled: Labelled
    document: Document
    names: dict[str, TagValue]
    """Top levels of the taxonomy; null where two fit."""


def by_hand(stores: Sequence[str], half: str) -> Iterator[ByHand]:
    """Items of `tuning` or `held_out` that these stores hold."""
    tags, names = read_tag_labels(FILE, TAGS, texts=False), read_tag_labels(FILE, ("half", *TAXONOMY), texts=True)
    of_half = [item for item, said in names.items() if HALVES[str(said["half"])] == half]
    for root in stores:
        store = Store.existing(root)
        conversations = store.read("conversations")
        held = set(conversations["document_id"])
        mine = [item for item in of_half if item in held]
        documents = stored_documents(store, conversations, "categories", Providers()).load(mine)
        for item, document in zip(mine, documents, strict=True):
            known = {tag: bool(said) for tag, said in tags[item].items() if said is not None}
            yield ByHand(Labelled(item, document.prompt, None, known, half), document, names[item])
