"""Reads image files: each is decoded once, identified by its pixels and measured by an observer.

In: image files. Out: parts of `images`, `image_files` and the observer's tables, listed one shard of files at a time.
Shards are read by threads of this process or by the worker processes of a task runner.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from typing import Any, NamedTuple, Protocol

import polars as pl
from pydantic import SecretBytes

from schemas.errors import BadInput
from schemas.image import Image, ImageFile
from schemas.takedown import TakenDownKind
from tasks.images.decode import FILE_BYTES_MAX, DecodedImage, ImageRejected, open_image, within
from tasks.ingest.image_files import ImageSource
from tasks.ingest.known_images import KnownHashes, file_digests, load_known_hashes
from tasks.runtime.parallel import map_ordered
from tasks.runtime.progress import Advance
from tasks.runtime.shards import ShardRunner
from tasks.storage.tables import Store, frame_of
from tasks.storage.tombstones import Tombstones

FILES_AT_ONCE = 16
PIXELS_AT_ONCE = 32_000_000
"""Decoded pixels that a worker holds before it measures them: 96 MB."""
FILES_A_SHARD = 16 * FILES_AT_ONCE
"""A multiple of FILES_AT_ONCE. A shard takes about two minutes of one core and writes one part a table."""
Written = tuple[list[tuple[str, str]], Any]
"""(parts, what the observer counts). Parts are (table, part) and not listed yet; their rows have the image's id as
`content_id`."""


class ImageObserver(Protocol):
    """Measures newly decoded images. It is pickled for worker processes, which load their own models."""

    def measure(self, images: Sequence[DecodedImage]) -> Any:
        """Measure some images; safe on any thread."""
        ...

    def write(self, seen: Sequence[Any], image_ids: AbstractSet[str]) -> Written:
        """Write what `measure` measured of these images as parts."""
        ...

    def count(self, done: Any) -> None:
        """Count what was done, in this process or another."""
        ...


class NoObserver:
    """Measures nothing."""

    def measure(self, images: Sequence[DecodedImage]) -> None:
        """Nothing."""

    def write(self, seen: Sequence[None], image_ids: AbstractSet[str]) -> Written:
        """No part."""
        return [], None

    def count(self, done: None) -> None:
        """Nothing."""


@dataclass
class ImageBatch:
    """Images of one batch of files, and what was noted of each file."""

    images: list[Image] = field(default_factory=list)
    files: list[ImageFile] = field(default_factory=list)
    seen: list[Any] = field(default_factory=list)
    known: list[str] = field(default_factory=list)
    """Names of images that are on a list of known hashes: neither listed above nor looked at."""
    taken_down: list[str] = field(default_factory=list)
    """Names of images that were taken down: neither listed above nor looked at."""

    def add(self, other: "ImageBatch") -> None:
        """What became of more files."""
        self.images += other.images
        self.files += other.files
        self.seen += other.seen
        self.known += other.known
        self.taken_down += other.taken_down


class Intake(NamedTuple):
    """What is done with an image file."""

    measure: Callable[[Sequence[DecodedImage]], Any]
    """`ImageObserver.measure`."""
    listed: KnownHashes
    """Files on a list are not decoded; images on a list are not measured."""
    taken_down: Callable[[str], bool]
    """Whether the image with this content id was taken down; then only its name is kept."""


def take_in(
    files: Iterable[ImageSource], known_ids: AbstractSet[str], intake: Intake, workers: int
) -> Iterator[ImageBatch]:
    """Decode `files` in batches, in order. Images in `known_ids` get a row in `image_files` but are not measured."""
    seen_ids = set(known_ids)

    def work(batch: Sequence[ImageSource]) -> ImageBatch:
        return _take_in_batch(batch, seen_ids, intake)  # reading a set that grows meanwhile is safe

    ahead = iter(files)
    batches = iter(lambda: list(islice(ahead, FILES_AT_ONCE)), [])
    for result in map_ordered(work, batches, workers):
        result.images = [image for image in result.images if image.image_id not in seen_ids]
        seen_ids.update(image.image_id for image in result.images)
        yield result


def _take_in_batch(files: Sequence[ImageSource], known_ids: AbstractSet[str], intake: Intake) -> ImageBatch:
    result = ImageBatch()
    fresh: dict[str, DecodedImage] = {}
    for file in files:
        image = _open(file, result, intake)
        if image is not None and image.image_id not in known_ids:
            fresh.setdefault(image.image_id, image)
        if sum(p.width * p.height for p in fresh.values()) >= PIXELS_AT_ONCE:
            _hand_over(fresh, result, intake)
    _hand_over(fresh, result, intake)
    return result


def _open(source: ImageSource, result: ImageBatch, intake: Intake) -> DecodedImage | None:
    size_bytes, modified_ns = source.stamp()
    image, problem, evidence = None, None, ""
    too_large = source.content is None and size_bytes > FILE_BYTES_MAX
    content = b"" if too_large else source.read()
    digests = file_digests(content)
    if intake.listed.holds_file(digests):
        result.known.append(source.name)
        return None
    try:
        if too_large:
            within("bytes", size_bytes, FILE_BYTES_MAX)
        image = open_image(content)
        if intake.listed.holds_image(image):
            result.known.append(source.name)
            return None
        if intake.taken_down(image.image_id):
            result.taken_down.append(source.name)
            return None
    except ImageRejected as rejected:
        problem, evidence = rejected.reason, rejected.evidence
    row = ImageFile(
        name=source.name,
        size_bytes=size_bytes,
        modified_ns=modified_ns,
        image_id=image.image_id if image else None,
        problem=problem,
        evidence=evidence,
        **digests._asdict(),
    )
    result.files.append(row)
    return image


def _hand_over(fresh: dict[str, DecodedImage], result: ImageBatch, intake: Intake) -> None:
    images = list(fresh.values())
    fresh.clear()
    if images:
        result.seen.append(intake.measure(images))
        result.images += [
            Image(image_id=p.image_id, bytes=p.encoded, format=p.format, width=p.width, height=p.height) for p in images
        ]


class WrittenShard(NamedTuple):
    """Result of one shard. Its parts are not listed yet."""

    image_ids: list[str]
    files: int
    """Files that were taken in."""
    parts: list[tuple[str, str]]
    """(table, part), measurements before images: after a kill in between, the images are measured again."""
    known: list[str]
    """Names of images that are on a list of known hashes."""
    taken_down: list[str]
    """Names of images that were taken down."""
    done: Any
    """The observer's counts."""


def write_shard(store: Store, taken: ImageBatch, observer: ImageObserver) -> WrittenShard:
    """Write the parts of one shard."""
    image_ids = [image.image_id for image in taken.images]
    parts, done = observer.write(taken.seen, set(image_ids))
    if taken.images:
        parts = [*parts, ("images", store.write_part("images", frame_of(Image, taken.images)))]
    if taken.files:
        parts = [*parts, ("image_files", store.write_part("image_files", frame_of(ImageFile, taken.files)))]
    return WrittenShard(image_ids, len(taken.files), parts, taken.known, taken.taken_down, done)


class ImageParts:
    """Lists the parts of shards in order. An image is kept only in the first shard that has it."""

    def __init__(self, store: Store, observer: ImageObserver, known_ids: set[str]) -> None:
        self.known: list[str] = []
        """Names of images that are on a list of known hashes."""
        self.taken_down: list[str] = []
        """Names of images that were taken down."""
        self.counts = {"files": 0, "images": 0}
        """What is stored."""
        self._store = store
        self._observer = observer
        self._ids = known_ids

    def add(self, shard: WrittenShard) -> None:
        """List a shard's parts, without images of earlier shards: shards are read independently."""
        new = [image_id for image_id in shard.image_ids if image_id not in self._ids]
        again = sorted(self._ids.intersection(shard.image_ids))
        for table, part in shard.parts:
            left = self._without(table, part, again) if again and table != "image_files" else part
            if left is not None:
                self._store.add_parts(table, [left])
        self._observer.count(shard.done)
        self._ids.update(new)
        self.known += shard.known
        self.taken_down += shard.taken_down
        self.counts["files"] += shard.files
        self.counts["images"] += len(new)

    def _without(self, table: str, part: str, image_ids: Sequence[str]) -> str | None:
        """A part without the rows of some images; None when nothing is left."""
        key = "image_id" if table == "images" else "content_id"
        rows = self._store.read_part(table, part)
        left = rows.filter(~pl.col(key).is_in(image_ids))
        if left.height == rows.height:
            return part
        if part not in self._store.parts(table):
            self._store.fs.rm_file(self._store.at(f"tables/{table}/{part}"))
        return self._store.write_part(table, left) if left.height else None


class ShardTaker(NamedTuple):
    """Reads shards of image files and writes their parts; it is pickled for worker processes."""

    store: str
    known_hashes: tuple[str, ...]
    """Files of the operator's lists; every worker reads them."""
    lists_digest: str
    """Expected `KnownHashes.digest` of these lists."""
    key: SecretBytes | None
    """The store's key; null when nothing was taken down."""
    run: str
    """Id of the run: a worker loads lists and known ids once for each run."""
    observer: ImageObserver

    def take_in(self, files: Sequence[ImageSource]) -> WrittenShard:
        """Read one shard. Images that were listed when this process read its first shard are not measured."""
        known_ids, intake = _loaded(self)
        taken = ImageBatch()
        for batch in take_in(files, known_ids, intake, workers=1):
            taken.add(batch)
        return write_shard(Store(self.store), taken, self.observer)

    def intake(self) -> Intake:
        """How files are checked and measured. Raises BadInput if this worker reads other hash lists than the caller."""
        listed = load_known_hashes(self.known_hashes)
        if listed.digest != self.lists_digest:
            raise BadInput("--known-hashes: a worker reads other lists than this process; give it the same files")
        tombstones = Tombstones(Store(self.store), self.key.get_secret_value()) if self.key else None

        def taken_down(image_id: str) -> bool:
            return tombstones is not None and bool(tombstones.holds(TakenDownKind.IMAGE, [image_id]))

        return Intake(self.observer.measure, listed, taken_down)


def image_ids_of(store: Store) -> set[str]:
    """Content ids of all images of a store."""
    return {image_id for part in store.read_parts("images", ["image_id"]) for image_id in part["image_id"]}


def take_in_shards(
    files: Iterable[ImageSource], taker: ShardTaker, runner: ShardRunner, advance: Advance
) -> Iterator[WrittenShard]:
    """Read `files` shard by shard with the workers of a task runner; results are in order."""
    ahead = iter(files)
    shards = iter(lambda: list(islice(ahead, FILES_A_SHARD)), [])
    for written in runner.map_ordered(taker.take_in, shards):
        advance(written.files + len(written.known))
        yield written


def take_in_here(
    files: Iterable[ImageSource], taker: ShardTaker, known_ids: set[str], workers: int, advance: Advance
) -> Iterator[WrittenShard]:
    """Read `files` shard by shard with threads of this process; threads do not wait at the end of a shard."""
    store, taken = Store(taker.store), ImageBatch()
    for number, batch in enumerate(take_in(files, known_ids, taker.intake(), workers), 1):
        advance(len(batch.files) + len(batch.known))
        taken.add(batch)
        if number * FILES_AT_ONCE % FILES_A_SHARD == 0:
            yield write_shard(store, taken, taker.observer)
            taken = ImageBatch()
    yield write_shard(store, taken, taker.observer)


@lru_cache(maxsize=1)
def _loaded(taker: ShardTaker) -> tuple[set[str], Intake]:
    """(known image ids, intake) of a run, loaded once in this process."""
    return image_ids_of(Store(taker.store)), taker.intake()
