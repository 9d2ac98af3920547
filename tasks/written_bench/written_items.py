"""Items that people write, or that were drawn, with the captions and references that count.

A caption or reference holds for one form of an item: for others, such as a redacted one, it counts as missing.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from schemas.benches.judging import STAND_IN
from schemas.benches.written import SAMPLED, VALIDATION_SHARE, Split, WrittenBy
from schemas.errors import BadInput, known_values
from tasks.storage.content_id import combined_id
from tasks.storage.queries.released import kept_conversations
from tasks.storage.queries.signals import StoredImages
from tasks.storage.tables import Store

_FORM = ["item_id", "document_id"]
_UNUSABLE, _MISSING_IMAGE = "image_unusable", "image_missing"
"""Reason for which a policy drops items whose pictures cannot be used, and the problem of a picture that is missing."""


@dataclass(frozen=True)
class ItemForJudging:
    """One kept item of a benchmark as a judge without its images needs it."""

    item_id: str
    """The conversation of the item."""
    family: str
    """Instruction family; empty for drawn prompts."""
    instruction: str
    """The user's messages, joined by blank lines."""
    captions: list[str]
    """One for each image, in order; empty unless every image has one."""
    reference: str | None
    """The reference written from exactly these captions; None when there is none."""
    image_ids: tuple[str, ...]
    """Content ids of its images, in order; empty where none was given."""
    split: Split
    """Whether its captions and its reference may be released."""
    document_id: str
    """Content id of instruction and images, as in `answers`."""
    image_names: tuple[str, ...] = ()
    """Hash of the file name of each image; empty where none is known."""


def item_images(store: Store, bench: str) -> dict[str, tuple[str, str, int]]:
    """Image id -> (table, part, row group) of the stored images that kept items show."""
    image_ids = {image_id for item in items_for_judging(store, bench) for image_id in item.image_ids}
    stored = StoredImages(store, "images", "redacted_images").part_of
    return {image_id: stored[image_id] for image_id in sorted(image_ids & stored.keys())}


def items_for_judging(
    store: Store, bench: str, *, not_given: bool = False, generic: bool = False
) -> list[ItemForJudging]:
    """The items of a benchmark that the policy keeps, by id; empty when the store has no such benchmark.

    `not_given`: also those that are dropped for nothing but pictures that were not given, for a judge that reads
    captions; no release has them. `generic`: with captions that were not written for the instruction.
    """
    members = item_members(store, bench)
    if members.is_empty():
        return []
    kept = kept_conversations(store).with_columns(images_to_caption=pl.col("image_ids").list.len().cast(pl.Int64))
    if not_given:
        kept = pl.concat([kept, _items_not_given(store)], how="diagonal")
    rows = kept.rename({"conversation_id": "item_id"}).join(members, on="item_id").sort("item_id")
    captions, references = current_captions(store, rows), current_references(store, rows)
    items = [_item(row, captions.get(row["item_id"], []), references) for row in rows.iter_rows(named=True)]
    if not generic:
        return items
    others = current_captions(store, rows, "generic_captions")
    return [replace(item, captions=others.get(item.item_id, [])) for item in items]


def _items_not_given(store: Store) -> pl.DataFrame:
    """Items dropped only because none of their pictures is there, as kept conversations, with `images_to_caption`."""
    decided = store.read("decisions", ["item_kind", "item_id", "keep", "reasons"]).filter(item_kind="conversation")
    only = decided.filter(~pl.col("keep"), pl.col("reasons").list.eval(pl.element() == _UNUSABLE).list.all())
    missing = pl.col("image_problems").list.unique() == pl.lit([_MISSING_IMAGE])
    ids = only["item_id"].implode()
    conversations = store.read("conversations").filter(pl.col("conversation_id").is_in(ids), missing)
    bench_items = store.read("bench_items", ["item_id", "images"]).unique("item_id")
    counts = bench_items.select(conversation_id="item_id", images_to_caption=pl.col("images").cast(pl.Int64))
    return conversations.filter(pl.col("image_ids").list.len() == 0).join(counts, on="conversation_id")


def _item(row: dict[str, Any], captions: list[str], references: dict[str, tuple[str, str]]) -> ItemForJudging:
    turns, images, item_id = row["turns"], row["image_ids"], str(row["item_id"])
    assert isinstance(turns, list) and isinstance(images, list)
    text, written_from = references.get(item_id, (None, ""))
    return ItemForJudging(
        item_id=item_id, family=str(row["family"]),
        instruction="\n\n".join(turn["content"] for turn in turns if turn["role"] == "user"), captions=captions,
        reference=text if written_from in (captions_id(captions), NO_CAPTIONS) else None, image_ids=tuple(images),
        split=Split(str(row["split"])), document_id=str(row["document_id"]),
        image_names=tuple(row["image_names"] or ()),
    )  # fmt: skip


def item_members(store: Store, bench: str) -> pl.DataFrame:
    """item_id, family, split and image_names of every item of a benchmark, kept or not.

    An item that is hidden in any benchmark is hidden in all: the same instruction about the same images.
    """
    ids = store.read("bench", ["conversation_id"])["conversation_id"].to_list()
    rows = {"item_id": ids, "family": [""] * len(ids), "split": [split_of(item_id).value for item_id in ids]}
    written = store.read("bench_items", [*_MEMBER, "bench"])
    sampled = pl.DataFrame(rows | {"bench": [SAMPLED] * len(ids), "image_names": [None] * len(ids)}, written.schema)
    every = pl.concat([sampled, written])
    forms = store.read("conversations", ["conversation_id", "document_id"]).rename({"conversation_id": "item_id"})
    placed = every.join(forms, on="item_id", how="left", maintain_order="left")
    hidden = placed.filter(split=Split.HIDDEN.value)["document_id"].drop_nulls()
    in_hidden_split = pl.col("document_id").is_in(hidden.implode()).fill_null(False)
    # One value is one item: hidden where its document is hidden in any benchmark, else its own split.
    split = pl.when(in_hidden_split).then(pl.lit(Split.HIDDEN.value)).otherwise("split").alias("split")
    return placed.with_columns(split).filter(bench=bench).select(_MEMBER)


def check_known(store: Store, bench: str) -> None:
    """Raises BadInput when the store has no item of the benchmark."""
    if item_members(store, bench).is_empty():
        named = sorted(store.read("bench_items", ["bench"])["bench"].unique())
        hint = known_values(bench, [*named, SAMPLED])
        raise BadInput(f"bench {hint} Take one in with `curate bench collect`")


_MEMBER = ("item_id", "family", "split", "image_names")


def split_of(item_id: str, validation_share: float = VALIDATION_SHARE) -> Split:
    """The split of an item: by a hash of its id, so that it never changes with the other items."""
    fraction = int(combined_id("validation", [item_id])[:8], 16) / 2**32
    return Split.VALIDATION if fraction < validation_share else Split.HIDDEN


def captions_id(captions: Sequence[str]) -> str:
    """Hash of an item's captions, in order."""
    return combined_id("captions", captions)


NO_CAPTIONS = captions_id([])
"""Hash of a reference that a person wrote without captions: it never becomes stale."""


def current_captions(store: Store, items: pl.DataFrame, table: str = "captions") -> dict[str, list[str]]:
    """Item -> its captions in order, for items (item_id, document_id, images_to_caption) with one for every image."""
    counts = dict(items.select("item_id", "images_to_caption").iter_rows())
    captions_of_item = captions_by_place(store, items, table)
    whole = {
        item_id: placed
        for item_id, placed in captions_of_item.items()
        if sorted(placed) == list(range(counts[item_id]))
    }
    return {item_id: [placed[place] for place in sorted(placed)] for item_id, placed in whole.items()}


def captions_by_place(store: Store, items: pl.DataFrame, table: str = "captions") -> dict[str, dict[int, str]]:
    """Item -> place of an image -> its caption, for items (item_id, document_id) with any."""
    captions: dict[str, dict[int, str]] = {}
    rows = current(store, table, items, ["item_id", "place"])
    for item_id, place, text in rows.select("item_id", "place", "text").iter_rows():
        captions.setdefault(item_id, {})[place] = text
    return captions


def current_references(store: Store, items: pl.DataFrame) -> dict[str, tuple[str, str]]:
    """Item -> (reference, hash of the captions it was written from), for items (item_id, document_id)."""
    rows = current(store, "references", items, ["item_id"]).select("item_id", "text", "captions_id")
    return {item_id: (text, written_from) for item_id, text, written_from in rows.iter_rows()}


_TEXTS_OF_FORMS = """
    -- a row is one caption or reference of one of the forms, whether it counts or not
    SELECT * FROM {table} SEMI JOIN forms USING (item_id, document_id)
"""


def current(store: Store, table: str, items: pl.DataFrame, key: list[str]) -> pl.DataFrame:
    """Rows of `captions` or `references` that count, one a key: of this form of the item, people's if there are some.

    Else the latest of a model, else those of the stand-in. A reference may be of captions that no longer count.
    """
    rows = store.ask(_TEXTS_OF_FORMS.format(table=f'"{table}"'), forms=items.select(_FORM))
    rank = pl.col("written_by") == WrittenBy.PEOPLE.value, pl.col("provider") != STAND_IN
    # the text decides between two of one time, so that every run counts the same one
    return rows.sort(*rank, "written_at", "version", "text").unique(key, keep="last", maintain_order=True)


def providers_of(store: Store, table: str, items: Sequence[ItemForJudging]) -> dict[str, dict[int, str]]:
    """Item -> place of an image, 0 for a reference -> `people`, or the model that wrote its text that counts."""
    key = ["item_id", "place"] if table == "captions" else ["item_id"]
    forms = {"item_id": [item.item_id for item in items], "document_id": [item.document_id for item in items]}
    rows = current(store, table, pl.DataFrame(forms, schema=dict.fromkeys(_FORM, pl.String)), key)
    place = pl.col("place") if table == "captions" else pl.lit(0)
    providers: dict[str, dict[int, str]] = {}
    for item_id, at, provider in rows.select("item_id", place.alias("at"), "provider").iter_rows():
        providers.setdefault(item_id, {})[at] = provider
    return providers


def hidden_texts(store: Store) -> pl.DataFrame:
    """item_id and text of every caption and reference, stale ones too, that no release may hold.

    Those are the texts of all items but those of the validation split: of the hidden split, and of no benchmark.
    """
    benches = [SAMPLED, *store.read("bench_items", ["bench"])["bench"].unique().sort()]
    splits = pl.concat([item_members(store, bench) for bench in benches])
    hidden = splits.filter(split=Split.HIDDEN.value)
    texts = [store.read(table, ["item_id", "text"]) for table in ("captions", "generic_captions", "references")]
    only_validation = splits.join(hidden, on="item_id", how="anti")
    return pl.concat(texts).join(only_validation, on="item_id", how="anti").unique(maintain_order=True)


def validation_texts(store: Store) -> list[str]:
    """The captions and references that a release may hold, once they are screened: those of the validation split."""
    benches = [SAMPLED, *sorted(store.read("bench_items", ["bench"])["bench"].unique())]
    items = [item for bench in benches for item in items_for_judging(store, bench) if item.split is Split.VALIDATION]
    return [text for item in items for text in (*item.captions, item.reference) if text]
