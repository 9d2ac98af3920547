"""Keeps the near-duplicate pairs of a store up to date: a night searches for its new pictures only."""

import hashlib

import polars as pl

from schemas.policy import NearPictures
from tasks.decide.near_pictures import near_hashes, near_pictures
from tasks.lookup.facts import Versions, facts
from tasks.tables import Store


def update_near_pictures(store: Store, radius: NearPictures, versions: Versions) -> dict[str, int]:
    """`image_hash` -> `near_pictures`, the same table whether pictures came at once or by night.

    Returns:
        How many pictures there are, how many of them were searched for now, and how many pairs there are.
    """
    pictures = _pictures(store, versions)
    search = _search_key(radius, versions)
    before, after = store.read("searched_pictures"), pictures.select("image_id", search=pl.lit(search))
    searched = before.join(after, on=["image_id", "search"], how="semi")["image_id"]
    pairs = store.read("near_pictures")
    known = pairs.filter(pl.all_horizontal(pl.col("image_a", "image_b").is_in(searched.implode())))
    found = near_hashes(pictures, radius, searched)
    ends = pl.concat([found["image_a"], found["image_b"]]).unique()
    greys = facts(store, "image_hash", versions["image_hash"], ["grey"], ends).rename({"content_id": "image_id"})
    known = known.vstack(near_pictures(found, greys, radius))
    if not (known.equals(pairs) and after.equals(before)):
        store.replace("searched_pictures", store.empty("searched_pictures"))  # a killed run searches all again
        store.replace("near_pictures", known)
        store.replace("searched_pictures", after)
    return {"pictures": pictures.height, "searched": pictures.height - len(searched), "pairs": known.height}


def _pictures(store: Store, versions: Versions) -> pl.DataFrame:
    """image_id, phash and pdq of every picture that was hashed."""
    hashes = facts(store, "image_hash", versions["image_hash"], ["phash", "pdq"])
    return hashes.rename({"content_id": "image_id"}).sort("image_id")


def _search_key(radius: NearPictures, versions: Versions) -> str:
    """16 hex digits for everything that a pair depends on besides the two pictures."""
    basis = [radius.model_dump_json(), versions["image_hash"]]
    return hashlib.blake2b("\n".join(basis).encode(), digest_size=8).hexdigest()
