"""Pictures of a store that look like a file that is none of them: smaller, other format, other quality."""

import polars as pl

from schemas.policy import NearPictures
from tasks.decide.near_pictures import near_hashes, near_pictures
from tasks.measure.image_hash import picture_hash
from tasks.pictures import PictureRejected, open_picture
from tasks.tables import Store

_COLUMNS = ["content_id", "phash", "pdq", "grey"]


def lookalikes(store: Store, content: bytes) -> list[str]:
    """Content ids of those within the radii of near-duplicates; none where `content` is no picture."""
    try:
        hashed = picture_hash(open_picture(content)).model_dump()
    except PictureRejected:
        return []
    asked = pl.DataFrame({"content_id": [""], **{name: [hashed[name]] for name in _COLUMNS[1:]}})
    stored = store.read("signals/image_hash", _COLUMNS).drop_nulls().unique("content_id", keep="last")
    pictures = pl.concat([asked, stored]).rename({"content_id": "image_id"}).sort("image_id")
    radius = NearPictures()
    found = near_pictures(near_hashes(pictures, radius, stored["content_id"]), pictures, radius)
    return found.sort("pdq_distance")["image_b"].to_list()
