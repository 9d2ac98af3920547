"""Finds images of a store that look like others: resized, re-encoded or of other quality."""

from collections.abc import Iterable, Iterator

import polars as pl

from schemas.policy import NearImages
from schemas.takedown import NearCopy
from tasks.dedup.near_images import near_hashes, near_images
from tasks.images.decode import ImageRejected, open_image
from tasks.images.hashes import image_hashes
from tasks.storage.distinct import Distinct
from tasks.storage.tables import Store

_HASHES = ["phash", "pdq", "grey"]


def lookalikes(store: Store, content: bytes) -> list[NearCopy]:
    """Stored images that are near-duplicates of an encoded image, nearest first; none if `content` is not an image."""
    try:
        hashed = image_hashes(open_image(content)).model_dump()
    except ImageRejected:
        return []
    asked = pl.DataFrame({"image_id": [""], **{name: [hashed[name]] for name in _HASHES}})
    return _near(asked, _hashed(store))


def near_copies(store: Store, stay: Distinct) -> list[NearCopy]:
    """Images that stay and are near-duplicates of one that is removed, nearest first."""
    stays = stay.hold(pl.col("image_id"))
    going = [rows.filter(~stays) for rows in _hashed(store)]
    asked = pl.concat(going).unique("image_id", keep="last") if going else pl.DataFrame()
    return [] if asked.is_empty() else _near(asked, (rows.filter(stays) for rows in _hashed(store)))


def _hashed(store: Store) -> Iterator[pl.DataFrame]:
    for rows in store.read_slices("signals/image_hash", ["content_id", *_HASHES]):
        yield rows.drop_nulls().rename({"content_id": "image_id"}).unique("image_id", keep="last")


def _near(asked: pl.DataFrame, stored: Iterable[pl.DataFrame]) -> list[NearCopy]:
    nearest: dict[str, int] = {}
    radius, ours = NearImages(), set(asked["image_id"])
    for rows in stored:
        images = pl.concat([asked, rows]).unique("image_id").sort("image_id")
        pairs = near_images(near_hashes(images, radius, rows["image_id"]), images, radius)
        for a, b, bits in pairs.select("image_a", "image_b", "pdq_distance").iter_rows():
            other = b if a in ours else a
            if other not in ours:
                nearest[other] = min(bits, nearest.get(other, bits))
    found = [NearCopy(image_id=image_id, pdq_distance=bits) for image_id, bits in nearest.items()]
    return sorted(found, key=lambda copy: (copy.pdq_distance, copy.image_id))
