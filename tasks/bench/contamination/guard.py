"""What of a store must stay out of a release because of the benchmark, its public and its hidden split."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import polars as pl

from schemas.settings import BenchSettings
from schemas.tables import TABLES
from tasks.bench.contamination.alike import ALIKE_OVERLAP, Alike, Vectors, alike, as_taken_in, documents_of
from tasks.bench.contamination.reserve import epoch_of, may_be_reserved, reserved
from tasks.storage.parquet import compact
from tasks.storage.queries.released import days
from tasks.storage.queries.signals import Versions, embeddings
from tasks.storage.tables import Store, frame_schema


@dataclass(frozen=True)
class Withheld:
    """Ids of kept conversations."""

    bench: frozenset[str]
    """Those that show a prompt of the public split or one that is alike: not in chat, marked in battles."""
    hidden: frozenset[str]
    """Those that show a prompt reserved for the hidden split, or one alike to the split: in nothing."""


class Guard:
    """What of kept conversations, in the form in which they are released, the benchmark withholds.

    Conversations come in blocks, stores of some of them, three times: every block to `learn`, then to `look`, then
    `withheld` tells of each. Memory grows with the benchmark and with what is alike to it.

    The table `hidden` is as old as the last `sample`. What came in or was let in since, and will be reserved by the
    next one, is withheld too: once it is out it cannot be hidden.
    """

    def __init__(self, store: Store, versions: Versions, bench: BenchSettings) -> None:
        self._store = store
        self._versions = versions
        self._public = store.read("bench", ["conversation_id"])["conversation_id"]
        hidden = store.read("hidden", ["document_id", "drawn"])
        self._drawn = hidden.filter("drawn")["document_id"]
        self._secret = pl.concat([hidden["document_id"], _reserved_now(store, bench)]).unique()
        self._splits = {"bench": _Split(), "hidden": _Split()}

    def learn(self, block: Store, kept: pl.DataFrame) -> None:
        """The prompts of both splits that a block's kept conversations show."""
        self._splits["bench"].add(block, kept.filter(pl.col("conversation_id").is_in(self._public.implode())))
        self._splits["hidden"].add(block, _conversations_on(self._drawn, block, kept))

    def compared(self, block: Store, kept: pl.DataFrame) -> pl.Series:
        """Prompt ids whose embeddings `look` asks for: those on a picture of a prompt's or near to one, and these."""
        documents = documents_of(as_taken_in(block, kept))
        splits = [split for split in self._splits.values() if split.prompts.height]
        of_splits = [split.prompts["prompt_id"] for split in splits]
        shown = [documents.filter(pl.col("picture").is_in(self._images(split).implode())) for split in splits]
        return pl.concat([documents["prompt_id"][:0], *of_splits, *(each["prompt_id"] for each in shown)])

    def look(self, block: Store, kept: pl.DataFrame) -> None:
        """Find what a block's kept conversations show that is alike to what was learnt."""
        documents = documents_of(as_taken_in(block, kept))

        def embedded(ids: pl.Series) -> Vectors:
            return embeddings(block, "text_embedding", self._versions, ids)

        for split in self._splits.values():
            if split.prompts.height:
                found = alike(split.prompts, documents, self._near, embedded, self._cosine_min, ALIKE_OVERLAP)
                split.shown.update(found["document_id"])

    def withheld(self, block: Store, kept: pl.DataFrame) -> Withheld:
        """What of a block's kept conversations is withheld."""
        bench, hidden = (self._showing(split, kept) for split in self._splits.values())
        return Withheld(bench, hidden | {*_conversations_on(self._secret, block, kept)["conversation_id"]})

    @cached_property
    def _near(self) -> pl.DataFrame:
        """Near pictures of those that the prompts show."""
        shown = pl.concat([split.prompts["picture"] for split in self._splits.values()]).implode()
        wanted = pl.any_horizontal(pl.col("image_a", "image_b").is_in(shown))
        names = ["image_a", "image_b"]
        parts = (compact(part.filter(wanted)) for part in self._store.read_slices("near_pictures", names))
        return pl.concat([self._store.empty("near_pictures", names), *parts])

    @cached_property
    def _cosine_min(self) -> float:
        return Alike(self._store, self._versions).cosine_min

    def _images(self, split: "_Split") -> pl.Series:
        """Pictures on which another prompt may be alike to one of the split's by its embedding."""
        own = split.prompts["picture"]
        a, b = (self._near.filter(pl.col(end).is_in(own.implode())) for end in ("image_a", "image_b"))
        found = pl.concat([own, a["image_b"], b["image_a"]]).unique()
        return found.filter(found != "")

    def _showing(self, split: "_Split", kept: pl.DataFrame) -> frozenset[str]:
        shown = pl.Series([*split.shown, *split.prompts["document_id"]], dtype=pl.String)
        return frozenset(kept.filter(pl.col("document_id").is_in(shown.implode()))["conversation_id"])


class _Split:
    """The prompts of a split that are shown in kept conversations, and what is alike to them."""

    def __init__(self) -> None:
        self.shown: set[str] = set()
        """Documents that are alike."""
        self.prompts = documents_of(_NO_CONVERSATIONS)

    def add(self, block: Store, drawn: pl.DataFrame) -> None:
        documents = compact(documents_of(as_taken_in(block, drawn)))
        self.prompts = pl.concat([self.prompts, documents]).unique("document_id", keep="first", maintain_order=True)


_NO_CONVERSATIONS = pl.DataFrame(schema=frame_schema(TABLES["conversations"].row))


def _reserved_now(store: Store, bench: BenchSettings) -> pl.Series:
    """Documents that the next `sample` reserves."""
    of_days = days(store)
    chosen: Iterator[pl.DataFrame] = iter(())
    if of_days and bench.hidden_size:
        parts = store.read_slices("conversations", ["document_id", "day"])
        chosen = (compact(part.filter(may_be_reserved(bench))) for part in parts)
    asked = pl.concat([store.empty("conversations", ["document_id", "day"]), *chosen])
    return reserved(asked, bench, epoch_of(bench, of_days[-1]) if of_days else 0)["document_id"]


def _conversations_on(documents: pl.Series, block: Store, kept: pl.DataFrame) -> pl.DataFrame:
    """Kept conversations on documents as they were taken in."""
    asked = block.read("conversations", ["conversation_id", "document_id"])
    on = asked.filter(pl.col("document_id").is_in(documents.implode()))
    return kept.join(on, on="conversation_id", how="semi")
