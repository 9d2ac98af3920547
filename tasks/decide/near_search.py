"""Keeps the near-duplicate pairs of a store up to date: a night searches for its new pictures only."""

import hashlib
from collections.abc import Callable

import polars as pl

from schemas.policy import NearPictures
from schemas.row import Row
from tasks.decide.near_pictures import near_hashes, near_pictures
from tasks.lookup.facts import Versions, facts
from tasks.tables import Store


def update_near_pictures(store: Store, radius: NearPictures, versions: Versions) -> dict[str, int]:
    """`image_hash` -> `near_pictures`, the same table whether pictures came at once or by night.

    Returns:
        How many pictures there are, how many of them were searched for now, and how many pairs there are.
    """
    pictures = _pictures(store, versions)

    def find(searched: pl.Series) -> pl.DataFrame:
        found = near_hashes(pictures, radius, searched)
        ends = pl.concat([found["image_a"], found["image_b"]]).unique()
        greys = facts(store, "image_hash", versions["image_hash"], ["grey"], ends).rename({"content_id": "image_id"})
        return near_pictures(found, greys, radius)

    search = search_key(radius, versions["image_hash"])
    return update_pairs(store, "near_pictures", "searched_pictures", pictures["image_id"], search, find)


def update_pairs(
    store: Store, table: str, ledger: str, ids: pl.Series, search: str, find: Callable[[pl.Series], pl.DataFrame]
) -> dict[str, int]:
    """Bring a table of pairs of pictures up to date.

    `ledger` is the table of the pictures whose pairs are known, `ids` are all pictures, sorted, and `search` stands for
    everything else that a pair depends on. `find` gives the pairs that hold a picture beyond those already searched.

    Returns:
        How many pictures there are, how many of them were searched for now, and how many pairs there are.
    """
    before, after = store.read(ledger), pl.DataFrame({"image_id": ids}).with_columns(search=pl.lit(search))
    searched = before.join(after, on=["image_id", "search"], how="semi")["image_id"]
    pairs = store.read(table)
    known = pairs.filter(pl.all_horizontal(pl.col("image_a", "image_b").is_in(searched.implode())))
    if len(searched) < len(ids):
        known = known.vstack(find(searched))
    if not (known.equals(pairs) and after.equals(before)):
        store.replace(ledger, store.empty(ledger))  # a killed run searches all again
        store.replace(table, known)
        store.replace(ledger, after)
    return {"pictures": len(ids), "searched": len(ids) - len(searched), "pairs": known.height}


def search_key(radius: Row | None, version: str) -> str:
    """16 hex digits for everything that a pair depends on besides the two pictures."""
    basis = [radius.model_dump_json() if radius else "", version]
    return hashlib.blake2b("\n".join(basis).encode(), digest_size=8).hexdigest()


def _pictures(store: Store, versions: Versions) -> pl.DataFrame:
    """image_id, phash and pdq of every picture that was hashed."""
    hashes = facts(store, "image_hash", versions["image_hash"], ["phash", "pdq"])
    return hashes.rename({"content_id": "image_id"}).sort("image_id")
