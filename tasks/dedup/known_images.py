"""Finds which images show a picture of an index of known ones: by hashes first, then by embedding and by laying over.

In: `KnownViews` of the index, and the images' hashes, vectors and pixels. Out: pairs of an image and a picture. Each
has one or two views, whole and inside its even margins, so that a frame or the page around a picture does not matter.
An embedding alone pairs different charts of one template; so a picture that is near by it must also lie over the
other: the enhanced correlation coefficient (Evangelidis and Psarakis, 2008) of grey thumbnails, which a cut or a shift
leaves high. A further view of a picture is a row of its own in both frames.
"""

from collections.abc import Callable, Iterable

import cv2
import numpy as np
import numpy.typing as npt
import polars as pl

from schemas.benches.known import BenchmarkImage, KnownBounds, ShownAs
from tasks.dedup.near_images import close_rows, near_hashes, near_images
from tasks.runtime.arrays import Vectors
from tasks.storage.tables import frame_schema

Greys = npt.NDArray[np.uint8]
"""uint8 (64, 64): the grey thumbnail of a picture."""

KNOWN_THUMBNAIL_SIDE = 64
BOUNDS = KnownBounds()
"""The bounds in force."""
_STEPS = (cv2.TERM_CRITERIA_EPS | cv2.TERM_CRITERIA_COUNT, 60, 1e-4)
VIEW = {"view": pl.String, "of": pl.String, "phash": pl.String, "pdq": pl.String}
"""Columns of a view: its own id, the picture or image that it is of, and its hashes."""
_SHOWN = {"image_id": pl.String, "picture": pl.String, "pdq_distance": pl.Int32}


def views_of(hashes: pl.DataFrame, inside: pl.DataFrame, mark: str) -> pl.DataFrame:
    """The views of pictures. `hashes` and `inside` have content_id, phash and pdq; null for nothing inside.

    `mark` begins the ids of the views, so that those of images and of the index differ.
    """
    named = {"w": hashes, "i": inside.drop_nulls("phash")}
    # A row is one view: the whole picture (w) or what is inside its margins (i).
    rows = [
        frame.select(view=pl.format(f"{mark}{kind}:{{}}", "content_id"), of="content_id", phash="phash", pdq="pdq")
        for kind, frame in named.items()
    ]
    return pl.concat(rows)


def shown_by_hashes(
    images: pl.DataFrame,
    index: pl.DataFrame,
    greys_of: Callable[[pl.Series], pl.DataFrame],
    bounds: KnownBounds = BOUNDS,
) -> pl.DataFrame:
    """image_id, picture and pdq_distance of each image with a view near one of the index, the closest view of each.

    `images` and `index` are `views`; `greys_of` gives `view` and `grey` (2,048 hex digits) of views. Colours are not
    compared: a recoloured picture is the same one.
    """
    views_of_both = pl.concat([images, index]).sort("view")
    named = views_of_both.rename({"view": "image_id"})
    # Pairs of two views of the index are not looked for; those of two images are left out below.
    pairs = near_hashes(named, bounds.near, index["view"])
    is_known = [pl.col(side).is_in(index["view"].implode()) for side in ("image_a", "image_b")]
    pairs = pairs.filter(is_known[0] != is_known[1])
    ends = pl.concat([pairs["image_a"], pairs["image_b"]]).unique()
    near = near_images(pairs, greys_of(ends).rename({"view": "image_id"}), bounds.near)
    first_is_known = pl.col("image_a").is_in(index["view"].implode())
    # A row is a pair of views, the image's and the picture's.
    sided = near.select(
        "pdq_distance",
        of_image=pl.when(first_is_known).then("image_b").otherwise("image_a"),
        of_picture=pl.when(first_is_known).then("image_a").otherwise("image_b"),
    )
    owners = views_of_both.select("view", "of")
    image_pairs = sided.join(owners.rename({"of": "image_id"}), left_on="of_image", right_on="view")
    image_pairs = image_pairs.join(owners.rename({"of": "picture"}), left_on="of_picture", right_on="view")
    closest = image_pairs.sort("pdq_distance", "image_id", "picture").unique(["image_id", "picture"], keep="first")
    return closest.select(_SHOWN.keys()).sort("image_id", "picture")


def close_by_embedding(
    image_ids: pl.Series, vectors: Vectors, index: Iterable[tuple[pl.Series, Vectors]], bounds: KnownBounds = BOUNDS
) -> pl.DataFrame:
    """image_id, picture and cosine of the `closest_max` pictures nearest to each image, from `cosine_min` on.

    `vectors`: float32 (images, dimension), unit vectors. `index`: pictures and their vectors, some at a time.
    """
    close = pl.DataFrame(schema={"image_id": pl.String, "picture": pl.String, "cosine": pl.Float32})
    for pictures, of_pictures in index:
        rows, picture_rows, cosines = close_rows(vectors, of_pictures, bounds.cosine_min)
        batch_pairs = pl.DataFrame(
            {"image_id": image_ids.gather(rows), "picture": pictures.gather(picture_rows), "cosine": cosines},
            schema=close.schema,
        )
        # Only the nearest of each image stay, so that memory does not grow with the index.
        ordered = pl.concat([close, batch_pairs]).sort("cosine", "picture", descending=[True, False])
        close = ordered.group_by("image_id", maintain_order=True).head(bounds.closest_max)
    return close.sort("image_id", "cosine", "picture", descending=[False, True, False])


def lies_over(first: Greys, second: Greys, bounds: KnownBounds = BOUNDS) -> bool:
    """Whether two thumbnails correlate where they overlap, once one is stretched and moved over the other.

    False where no way of laying them is found, or only one that turns, shears or stretches them too much, or that
    leaves out too much.
    """
    correlation = max(_correlation(first, second, bounds), _correlation(second, first, bounds))
    return correlation >= bounds.overlap_correlation_min


def _correlation(part: Greys, whole: Greys, bounds: KnownBounds) -> float:
    part_levels, whole_levels = part.astype(np.float32), whole.astype(np.float32)
    moved = np.eye(2, 3, dtype=np.float32)
    everywhere = np.full(part.shape, 255, np.uint8)
    try:
        for blur_side in (9, 3):  # first where they lie about, then exactly
            _, fitted = cv2.findTransformECC(
                part_levels, whole_levels, moved, cv2.MOTION_AFFINE, _STEPS, everywhere, blur_side
            )
            moved = np.asarray(fitted, np.float32)
    except cv2.error:  # it says so where it does not converge
        return 0.0
    stretches, shears = (moved[0, 0], moved[1, 1]), (abs(moved[0, 1]), abs(moved[1, 0]))
    most = bounds.stretch_max
    if not 1 / most < min(stretches) <= max(stretches) < most or max(shears) > bounds.shear_max:
        return 0.0
    laid = cv2.warpAffine(whole_levels, moved, part.shape, flags=cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP)
    inside = cv2.warpAffine(everywhere, moved, part.shape, flags=cv2.INTER_NEAREST | cv2.WARP_INVERSE_MAP) > 0
    if inside.mean() < bounds.overlap_min:
        return 0.0
    part_inside, laid_inside = (cv2.GaussianBlur(levels, (3, 3), 0)[inside] for levels in (part_levels, laid))
    if min(float(part_inside.std()), float(laid_inside.std())) < 1:
        return 0.0
    return float(np.corrcoef(part_inside, laid_inside)[0, 1])


def known_images(by_hashes: pl.DataFrame, by_embedding: pl.DataFrame, benchmarks_of: pl.DataFrame) -> pl.DataFrame:
    """The rows of `known_images`: of each image and benchmark, the closest picture.

    `by_hashes` is of `shown_by_hashes`, `by_embedding` has image_id, picture, pdq_distance and cosine of pictures that
    lie over each other; `benchmarks_of` has picture and benchmark.
    """
    is_same = pl.col("image_id") == pl.col("picture")
    shown_as = pl.when(is_same).then(pl.lit(ShownAs.SAME.value)).otherwise(pl.lit(ShownAs.HASHES.value))
    hashed = by_hashes.with_columns(shown_as=shown_as, cosine=pl.lit(None, pl.Float32))
    embedded = by_embedding.with_columns(shown_as=pl.lit(ShownAs.EMBEDDING.value))
    columns = frame_schema(BenchmarkImage).names()
    rows = pl.concat([hashed.select(*_SHOWN, "shown_as", "cosine"), embedded.select(*_SHOWN, "shown_as", "cosine")])
    order = pl.col("shown_as").cast(pl.Enum(ShownAs))
    ordered = rows.join(benchmarks_of, on="picture").sort("image_id", "benchmark", order, "pdq_distance", "picture")
    closest = ordered.unique(["image_id", "benchmark"], keep="first", maintain_order=True)
    return closest.select(columns)
