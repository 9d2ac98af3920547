"""The index of known benchmarks, and the images of chats that show their pictures.

In: `KnownBenchmark`s and the signals of images. Out: `known_sources`, `known_pictures` and `known_questions`, measured
once for each content and versions; and `known_images`, the images that show one of the pictures. Only images that are
new, or all when the index is another, are compared. `known_matches.py` says which chats show these images.
"""

import hashlib
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from schemas.benches.known import KnownBounds, KnownPicture, KnownQuestion, KnownSource
from tasks.bench.contamination.known_sources import KnownBenchmark, OutsidePicture
from tasks.dedup.known_images import (
    BOUNDS,
    KNOWN_THUMBNAIL_SIDE,
    Greys,
    close_by_embedding,
    known_images,
    lies_over,
    shown_by_hashes,
    views_of,
)
from tasks.dedup.near_images import search_key
from tasks.images.decode import DecodedImage, Filter, ImageRejected, decode_stored, open_image
from tasks.images.measures import image_hashes, image_inside
from tasks.providers import Providers
from tasks.providers.capabilities import Failed
from tasks.runtime.parallel import map_ordered
from tasks.runtime.progress import progress
from tasks.runtime.untrusted import one_line
from tasks.storage.queries.signals import StoredImages, StoredVectors, Versions, signal_values
from tasks.storage.tables import Store, frame_of

MEASURED_BY = ("image_hash", "image_inside", "image_embedding")
"""Signals that pictures of the index are measured with, like images of chats."""
_UNUSED = "no picture, and no column of questions"
_PICTURES_A_PART = 2_000
_EMBEDDED_AT_ONCE = 32


class IndexUpdate(NamedTuple):
    """Result of an update of the index."""

    counts: dict[str, int]
    """Benchmarks, those indexed now, and of all of them pictures, questions, and what is unreadable."""
    unreadable: list[str]
    """Files that are no picture and no table; and, of those indexed now, tables with neither pictures nor questions and
    pictures that could not be read: benchmark, file, and reason."""


def update_index(
    store: Store, benchmarks: Sequence[KnownBenchmark], providers: Providers, versions: Versions, workers: int
) -> IndexUpdate:
    """Measure the pictures of benchmarks whose content or versions are new; forget those that are no longer named."""
    about = {name: versions[name] for name in MEASURED_BY}
    contents = {benchmark.name: _content(benchmark, about) for benchmark in benchmarks}
    sources = store.read("known_sources")
    unread_lines = [
        f"{known_benchmark.name}: {one_line(path, 120)} (no picture, no table)"
        for known_benchmark in benchmarks
        for path in known_benchmark.unread
    ]
    unreadable = list[str]()
    kept_sources = [
        KnownSource(**row) for row in sources.iter_rows(named=True) if contents.get(row["benchmark"]) == row["content"]
    ]
    new_benchmarks = [
        benchmark for benchmark in benchmarks if benchmark.name not in {source.benchmark for source in kept_sources}
    ]
    if new_benchmarks or len(kept_sources) < sources.height:
        names = {source.benchmark for source in kept_sources}
        parts = {table: _parts_of(store, table, names) for table in ("known_pictures", "known_questions")}
        new_sources = list[KnownSource]()
        for benchmark in new_benchmarks:
            rows = _Rows(store, benchmark, providers, workers)
            parts["known_pictures"] += rows.pictures()
            parts["known_questions"] += rows.questions()
            unreadable += rows.unreadable
            counts = {
                "pictures": rows.picture_count,
                "questions": rows.question_count,
                "unreadable": len(rows.unreadable),
            }
            new_sources.append(
                KnownSource(benchmark=benchmark.name, content=contents[benchmark.name], **about, **counts)
            )
        store.replace("known_sources", frame_of(KnownSource, []))  # after a kill from here on, all are indexed again
        for table, names_of_parts in parts.items():
            store.list_parts(table, names_of_parts)
        kept_sources += new_sources
        kept_sources.sort(key=lambda source: source.benchmark)
        store.replace("known_sources", frame_of(KnownSource, kept_sources))
    counted = ("pictures", "questions", "unreadable")
    totals = {name: sum(getattr(source, name) for source in kept_sources) for name in counted}
    totals["unreadable"] += len(unread_lines)
    return IndexUpdate(
        {"benchmarks": len(kept_sources), "indexed": len(new_benchmarks), **totals}, [*unread_lines, *unreadable]
    )


def _content(benchmark: KnownBenchmark, versions: Versions) -> str:
    basis = "\n".join([benchmark.digest, *(f"{name} {version}" for name, version in sorted(versions.items()))])
    return hashlib.blake2b(basis.encode(), digest_size=16).hexdigest()


def _parts_of(store: Store, table: str, benchmarks: set[str]) -> list[str]:
    """Parts with rows of these benchmarks; each part has rows of one."""
    return [part for part in store.parts(table) if (store.bounds(table, part, "benchmark") or ("",))[0] in benchmarks]


class _Measured(NamedTuple):
    """A picture of a benchmark with what needs no model."""

    image: DecodedImage
    values: dict[str, Any]
    """Columns of `KnownPicture`."""


def _measured(picture: OutsidePicture) -> _Measured | str:
    """The measured picture, or the text `label (reason)` of one that cannot be decoded."""
    try:
        image = open_image(picture.content)
    except ImageRejected as rejected:
        return f"{picture.label} ({rejected.reason})"
    hashes, inside = image_hashes(image), image_inside(image)
    whole = {"phash": hashes.phash, "pdq": hashes.pdq, "grey": hashes.grey}
    within = {"inside_phash": inside.phash, "inside_pdq": inside.pdq, "inside_grey": inside.grey}
    return _Measured(image, whole | within | {"thumbnail": _thumbnail(image).tobytes()})


def _thumbnail(image: DecodedImage) -> Greys:
    return np.asarray(image.pil.convert("L").resize((KNOWN_THUMBNAIL_SIDE, KNOWN_THUMBNAIL_SIDE), Filter.LANCZOS))


class _Rows:
    """Writes the rows of one benchmark as parts that are not listed yet, and counts them."""

    def __init__(self, store: Store, benchmark: KnownBenchmark, providers: Providers, workers: int) -> None:
        self._store, self._benchmark, self._providers, self._workers = store, benchmark, providers, workers
        self._seen, self.unreadable, self.question_count = set[str](), list[str](), 0

    @property
    def picture_count(self) -> int:
        """Different pictures written so far."""
        return len(self._seen)

    def pictures(self) -> list[str]:
        """The parts of `known_pictures`; equal pictures are one row."""
        parts, waiting = list[str](), list[KnownPicture]()
        with progress(f"pictures of {self._benchmark.name}", self._benchmark.progress_total()) as advance:
            measured = map_ordered(_measured, self._benchmark.pictures(), self._workers)
            while pictures := list(islice(measured, _EMBEDDED_AT_ONCE)):
                waiting += self._embedded([picture for picture in pictures if isinstance(picture, _Measured)])
                rejected = [picture for picture in pictures if isinstance(picture, str)]
                self.unreadable += [f"{self._benchmark.name}: {line}" for line in rejected]
                advance(len(pictures))
                if len(waiting) >= _PICTURES_A_PART:
                    parts.append(self._store.write_part("known_pictures", frame_of(KnownPicture, waiting)))
                    waiting = []
        if waiting:
            parts.append(self._store.write_part("known_pictures", frame_of(KnownPicture, waiting)))
        return parts

    def _embedded(self, measured: Sequence[_Measured]) -> Iterator[KnownPicture]:
        """The rows of pictures that were not seen before; without a vector where the model failed."""
        by_id = {picture.image.image_id: picture for picture in measured}
        new_pictures = {image_id: picture for image_id, picture in by_id.items() if image_id not in self._seen}
        self._seen |= new_pictures.keys()
        embedder = self._providers["image_embedding"]
        vectors = embedder.embed_images([picture.image for picture in new_pictures.values()]) if new_pictures else []
        for (image_id, picture), vector in zip(new_pictures.items(), vectors, strict=True):
            unit = [] if isinstance(vector, Failed) else np.asarray(vector, np.float32).tolist()
            yield KnownPicture(benchmark=self._benchmark.name, picture=image_id, vector=unit, **picture.values)

    def questions(self) -> list[str]:
        """The parts of `known_questions`."""
        unused = self._benchmark.unused_tables()
        self.unreadable += [f"{self._benchmark.name}: {one_line(path, 120)} ({_UNUSED})" for path in unused]
        texts = self._benchmark.questions()
        self.question_count = len(texts)
        rows = [KnownQuestion(benchmark=self._benchmark.name, question=text) for text in texts]
        return [self._store.write_part("known_questions", frame_of(KnownQuestion, rows))] if rows else []


def update_known_images(store: Store, versions: Versions, bounds: KnownBounds = BOUNDS) -> dict[str, int]:
    """Signals of images and the index -> `known_images`. Returns counts of searched and of shown images.

    An image is searched again when a signal of it that was lacking is there, and all are when index or bounds change.
    """
    sources = store.read("known_sources", ["content"])
    hashes = signal_values(store, "image_hash", versions["image_hash"], ["phash", "pdq"]) if sources.height else None
    ids = pl.Series("image_id", [], pl.String) if hashes is None else hashes["content_id"].sort().rename("image_id")
    key = search_key(bounds, "\n".join(sources["content"].sort()))
    before, after = store.read("searched_known"), _searched_with(store, ids, key, versions)
    unchanged_ids = before.join(after, on=["image_id", "search"], how="semi")["image_id"]
    matches_before = store.read("known_images")
    # a row is an image that shows a picture of a benchmark; those of images whose key is as before stay, all others are
    # searched again
    matches = matches_before.filter(pl.col("image_id").is_in(unchanged_ids.implode()))
    ids_to_search = ids.filter(~ids.is_in(unchanged_ids.implode()))
    if hashes is not None and len(ids_to_search):
        new_matches = _shown(
            store, hashes.filter(pl.col("content_id").is_in(ids_to_search.implode())), versions, bounds
        )
        matches = pl.concat([matches, new_matches]).sort("image_id", "benchmark")
    if not (matches.equals(matches_before) and after.equals(before)):
        store.replace("searched_known", store.empty("searched_known"))  # after a kill all images are searched again
        store.replace("known_images", matches)
        store.replace("searched_known", after)
    return {"searched_known": len(ids_to_search), "known_images": matches["image_id"].n_unique()}


def _searched_with(store: Store, ids: pl.Series, key: str, versions: Versions) -> pl.DataFrame:
    """The rows of `searched_known` of all images: image_id, and `search`, the key with the further signals it has."""
    images = pl.DataFrame({"image_id": ids})
    search = pl.lit(key)
    for signal in ("image_inside", "image_embedding"):
        measured = signal_values(store, signal, versions[signal], []) if len(ids) else pl.DataFrame({"content_id": ids})
        is_measured = pl.col("image_id").is_in(measured["content_id"].implode())
        search += pl.when(is_measured).then(pl.lit(f" {signal}")).otherwise(pl.lit(""))
    return images.with_columns(search=search)


def _shown(store: Store, hashes: pl.DataFrame, versions: Versions, bounds: KnownBounds) -> pl.DataFrame:
    """The rows of `known_images` of the images that `hashes` (content_id, phash, pdq) has."""
    inside = signal_values(store, "image_inside", versions["image_inside"], ["phash", "pdq"], hashes["content_id"])
    index = store.read("known_pictures", _INDEXED).unique("picture", keep="first")
    of_index = index.rename({"picture": "content_id"})
    of_index_inside = of_index.select("content_id", phash="inside_phash", pdq="inside_pdq")
    by_hashes = shown_by_hashes(
        views_of(hashes, inside, _IMAGE),
        views_of(of_index, of_index_inside, _PICTURE),
        lambda views: _greys(store, views, versions),
        bounds,
    )
    hashes_not_matched = hashes.join(by_hashes, left_on="content_id", right_on="image_id", how="anti")
    pdq = pl.concat([hashes.select("content_id", "pdq"), of_index.select("content_id", "pdq")]).unique("content_id")
    by_embedding = _by_embedding(store, hashes_not_matched["content_id"], versions, pdq, bounds)
    benchmarks = store.read("known_pictures", ["picture", "benchmark"]).unique()
    return known_images(by_hashes, by_embedding, benchmarks)


_INDEXED = ["picture", "phash", "pdq", "inside_phash", "inside_pdq"]
_GREYS_OF_PICTURES = """
    -- a row is one picture of the index, whatever benchmarks have it, with its thumbnails in grey
    SELECT DISTINCT ON (picture) picture, grey, inside_grey FROM known_pictures SEMI JOIN wanted_ids USING (picture)
"""
_VECTORS_OF_PICTURES = """
    -- a row is one picture of a benchmark, with its embedding
    SELECT picture, vector FROM known_pictures
"""
_THUMBNAILS_OF_PICTURES = """
    -- a row is one picture of a benchmark, with its thumbnail
    SELECT picture, thumbnail FROM known_pictures SEMI JOIN wanted_ids USING (picture)
"""
PICTURES_AT_ONCE = 4_096
"""Pictures of the index that are read in one batch; the thumbnails of all that are close by embedding are held."""
_IMAGE, _PICTURE = "image ", "picture "
"""A view is a picture, whole or inside its margins: `image w:ID`, `image i:ID`, `picture w:ID` of the index."""


def _greys(store: Store, views: pl.Series, versions: Versions) -> pl.DataFrame:
    """View and grey of these views."""
    frames = [pl.DataFrame(schema={"view": pl.String, "grey": pl.String})]
    ids = views.str.split(":").list.last()
    for kind, signal in (("w", "image_hash"), ("i", "image_inside")):
        rows = signal_values(store, signal, versions[signal], ["grey"], ids)
        frames.append(rows.select(view=pl.format(f"{_IMAGE}{kind}:{{}}", "content_id"), grey="grey"))
    pictures = store.ask(_GREYS_OF_PICTURES, wanted_ids=pl.DataFrame({"picture": ids.unique()}))
    for kind, column in (("w", "grey"), ("i", "inside_grey")):
        frames.append(pictures.select(view=pl.format(f"{_PICTURE}{kind}:{{}}", "picture"), grey=column))
    return pl.concat(frames).filter(pl.col("view").is_in(views.implode())).unique("view")


def _by_embedding(
    store: Store, image_ids: pl.Series, versions: Versions, pdq: pl.DataFrame, bounds: KnownBounds
) -> pl.DataFrame:
    """image_id, picture, pdq_distance and cosine of pictures that are near by embedding and lie over the image.

    `pdq`: content_id and pdq of the images and of the index.
    """
    stored = StoredVectors(store, "image_embedding", versions, image_ids)
    has_vector = image_ids.filter(stored.have(image_ids))
    width = stored.width

    def index() -> Iterator[tuple[pl.Series, npt.NDArray[np.float32]]]:
        for rows in store.batches(_VECTORS_OF_PICTURES, PICTURES_AT_ONCE):
            measured = rows.filter(pl.col("vector").list.len() == width)
            if measured.height:
                yield measured["picture"], measured["vector"].explode().to_numpy().reshape(measured.height, width)

    schema = {"image_id": pl.String, "picture": pl.String, "pdq_distance": pl.Int32, "cosine": pl.Float32}
    if has_vector.is_empty():
        return pl.DataFrame(schema=schema)
    vectors = stored.of(has_vector)
    close = close_by_embedding(has_vector, np.stack([vectors[image_id] for image_id in has_vector]), index(), bounds)
    return _lying_over(store, close, pdq, bounds).cast(schema)  # type: ignore[arg-type]


def _lying_over(store: Store, close: pl.DataFrame, pdq: pl.DataFrame, bounds: KnownBounds) -> pl.DataFrame:
    """The pairs of `close` (image_id, picture, cosine) that lie over each other, with their pdq_distance."""
    thumbnails = dict[str, Greys]()
    wanted_ids = close.select("picture").unique()
    for rows in store.batches(_THUMBNAILS_OF_PICTURES, PICTURES_AT_ONCE, wanted_ids=wanted_ids):
        for picture, levels in rows.iter_rows():
            thumbnails[picture] = np.frombuffer(levels, np.uint8).reshape(KNOWN_THUMBNAIL_SIDE, KNOWN_THUMBNAIL_SIDE)
    images, laid = StoredImages(store), list[tuple[str, str, float]]()
    pictures_of = close.group_by("image_id").agg("picture", "cosine")
    in_order = {image_id: pairs for image_id, *pairs in pictures_of.iter_rows()}
    for image_id in images.ordered(in_order):
        stored = images[image_id]
        levels_of_image = _thumbnail(decode_stored(stored.bytes, stored.format, image_id))
        for picture, cosine in zip(*in_order[image_id], strict=True):
            if lies_over(levels_of_image, thumbnails[picture], bounds):
                laid.append((image_id, picture, cosine))
    pairs = pl.DataFrame(laid, schema={"image_id": pl.String, "picture": pl.String, "cosine": pl.Float32}, orient="row")
    # A row is a pair with the hashes of both.
    hashed = pairs.join(pdq, left_on="image_id", right_on="content_id")
    hashed = hashed.join(pdq, left_on="picture", right_on="content_id", suffix="_of_picture")
    distances = [
        (int(one, 16) ^ int(other, 16)).bit_count() for one, other in hashed.select("pdq", "pdq_of_picture").iter_rows()
    ]
    return hashed.select("image_id", "picture", "cosine", pdq_distance=pl.Series(distances, dtype=pl.Int32))
