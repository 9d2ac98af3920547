"""Takes image files in: each is decoded once, and that decode gives its id and all its signals.

In: image files. Out: parts of `images`, `image_files` and the tables of signals.
An `ImageReader` decodes and measures the files, some at a time (`ImageBatch`), and writes the parts of a shard of them
(`ImageShard`): on threads of this process, or as a copy in each worker process of a task runner. `take_in_files` lists
the parts.
"""

from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from typing import Any, Protocol
from uuid import uuid4

import polars as pl
from pydantic import SecretBytes

from schemas.errors import BadInput
from schemas.items.image import Image, ImageFile
from schemas.items.reject import TakenDownKind
from schemas.tables import TABLES
from tasks.images.decode import FILE_BYTES_MAX, DecodedImage, ImageRejected, open_image, require_within
from tasks.images.pdf_pages import open_page
from tasks.ingest.image_files import ImageSource
from tasks.ingest.known_images import KnownHashes, file_digests, load_known_hashes
from tasks.runtime.parallel import ShardRunner, batch_of, map_ordered
from tasks.runtime.progress import Advance, Measured, progress, silent
from tasks.storage.keyed_ids import Tombstones
from tasks.storage.parts import listed_in_batches
from tasks.storage.tables import Store, frame_of, frame_schema

FILES_AT_ONCE = 16
PIXELS_AT_ONCE = 32_000_000
"""Decoded pixels that a worker holds before it measures them: 96 MB."""
FILES_A_SHARD = 16 * FILES_AT_ONCE
"""A multiple of FILES_AT_ONCE. A shard takes about two minutes of one core and writes one part a table."""
SignalRows = dict[str, list[dict[str, Any]]]
"""Table -> rows, which have the image's id as `content_id`."""


class ImageObserver(Protocol):
    """Measures newly decoded images. It is pickled for worker processes, which load their own models."""

    def measure(self, images: Sequence[DecodedImage]) -> tuple[SignalRows, Measured]:
        """Measure some images; safe on any thread."""
        ...


class NoObserver:
    """Measures nothing."""

    def measure(self, images: Sequence[DecodedImage]) -> tuple[SignalRows, Measured]:
        """No rows."""
        return {}, Measured()


@dataclass
class ImageBatch:
    """Some image files as they were read, in memory."""

    images: list[Image] = field(default_factory=list)
    """New images."""
    signals: SignalRows = field(default_factory=dict)
    """Signals of these images."""
    files: list[ImageFile] = field(default_factory=list)
    known: list[str] = field(default_factory=list)
    """Names of files on a list of known hashes: neither stored nor measured."""
    taken_down: list[str] = field(default_factory=list)
    """Names of files whose image was taken down: neither stored nor measured."""
    measured: Measured = field(default_factory=Measured)

    def leave_out(self, image_ids: AbstractSet[str]) -> None:
        """Remove these images and their signals. Their files stay."""
        self.images = [image for image in self.images if image.image_id not in image_ids]
        for table, rows in self.signals.items():
            self.signals[table] = [row for row in rows if row["content_id"] not in image_ids]

    def add(self, other: "ImageBatch") -> None:
        """Add more files."""
        self.images += other.images
        self.add_signals(other.signals, other.measured)
        self.files += other.files
        self.known += other.known
        self.taken_down += other.taken_down

    def add_signals(self, signals: SignalRows, measured: Measured) -> None:
        """Add what was measured."""
        for table, rows in signals.items():
            self.signals.setdefault(table, []).extend(rows)
        self.measured.add(measured)


@dataclass
class ImageShard:
    """Outcome of some image files without their content: of one shard, or of all together."""

    parts: list[tuple[str, str]] = field(default_factory=list)
    """(table, part), written and not listed; signals before images: after a kill in between, images are read again."""
    image_ids: list[str] = field(default_factory=list)
    """New images."""
    files: int = 0
    """Files that were taken in."""
    known: list[str] = field(default_factory=list)
    """Names of files on a list of known hashes."""
    taken_down: list[str] = field(default_factory=list)
    """Names of files whose image was taken down."""
    measured: Measured = field(default_factory=Measured)

    def add(self, other: "ImageShard") -> None:
        """Add what came of more files."""
        self.parts += other.parts
        self.image_ids += other.image_ids
        self.files += other.files
        self.known += other.known
        self.taken_down += other.taken_down
        self.measured.add(other.measured)


class ImageReader:
    """Reads image files and writes what is new as parts. Files on a list of known hashes are not decoded.

    Its copy in a worker process loads the lists and the ids of stored images once for each run.
    """

    def __init__(self, store: Store, listed: KnownHashes, key: bytes, observer: ImageObserver, run: str = "") -> None:
        self.stored_ids = {
            image_id for part in store.read_parts("images", ["image_id"]) for image_id in part["image_id"]
        }
        self._store, self._listed, self._key, self._observer = store, listed, key, observer
        self._taken_down = Tombstones(store, key)
        self._run = run or uuid4().hex

    def __reduce__(self) -> tuple[Any, ...]:
        key = SecretBytes(self._key) if self._taken_down else None
        return _in_worker, (self._store.root, self._listed.files, self._listed.digest, key, self._observer, self._run)

    def read_shard(self, files: Sequence[ImageSource]) -> ImageShard:
        """Read one shard in a worker. Images that were stored when this process read its first shard are not new."""
        (shard,) = self.read(files, workers=1)
        return shard

    def read(self, files: Iterable[ImageSource], workers: int, advance: Advance = silent) -> Iterator[ImageShard]:
        """Read files on threads and write the parts of each shard, in order; no thread waits at the end of a shard."""
        batches = self._batches(files, workers, advance)
        while batches_of_shard := list(islice(batches, FILES_A_SHARD // batch_of(FILES_AT_ONCE))):
            shard_batch = ImageBatch()
            for batch in batches_of_shard:
                shard_batch.add(batch)
            tables = {
                table: pl.DataFrame(rows, frame_schema(TABLES[table].row))
                for table, rows in shard_batch.signals.items()
            }
            tables |= {
                "images": frame_of(Image, shard_batch.images),
                "image_files": frame_of(ImageFile, shard_batch.files),
            }
            parts = [(table, self._store.write_part(table, rows)) for table, rows in tables.items() if rows.height]
            ids = [image.image_id for image in shard_batch.images]
            yield ImageShard(
                parts, ids, len(shard_batch.files), shard_batch.known, shard_batch.taken_down, shard_batch.measured
            )

    def _batches(self, files: Iterable[ImageSource], workers: int, advance: Advance) -> Iterator[ImageBatch]:
        seen_ids = set(self.stored_ids)

        def work(sources: Sequence[ImageSource]) -> ImageBatch:
            return self._read_batch(sources, seen_ids)  # reading a set that grows meanwhile is safe

        for batch in map_ordered(work, _cut(files, batch_of(FILES_AT_ONCE)), workers):
            batch.leave_out(seen_ids)  # several threads may have read the same image
            seen_ids.update(image.image_id for image in batch.images)
            advance(len(batch.files) + len(batch.known))
            yield batch

    def _read_batch(self, files: Sequence[ImageSource], seen_ids: AbstractSet[str]) -> ImageBatch:
        batch, new_images, measured_ids = ImageBatch(), dict[str, DecodedImage](), set[str]()
        for file in files:
            image = self._open(file, batch)
            if image is not None and image.image_id not in seen_ids and image.image_id not in measured_ids:
                new_images.setdefault(image.image_id, image)
            if (
                file is files[-1]
                or sum(decoded.width * decoded.height for decoded in new_images.values()) >= PIXELS_AT_ONCE
            ):
                if new_images:
                    batch.add_signals(*self._observer.measure([*new_images.values()]))
                batch.images += [
                    Image(
                        image_id=new_image.image_id,
                        bytes=new_image.encoded,
                        format=new_image.format,
                        width=new_image.width,
                        height=new_image.height,
                    )
                    for new_image in new_images.values()
                ]
                measured_ids |= new_images.keys()
                new_images.clear()
        return batch

    def _open(self, source: ImageSource, batch: ImageBatch) -> DecodedImage | None:
        """Decode a file and note it; None when it cannot be used or may not be looked at."""
        size_bytes, modified_ns = source.stamp()
        image, problem, evidence = None, None, ""
        too_large = source.content is None and size_bytes > FILE_BYTES_MAX
        content = b"" if too_large else source.read()
        digests = file_digests(content)
        if self._listed.holds_file(digests):
            batch.known.append(source.name)
            return None
        try:
            if too_large:
                require_within("bytes", size_bytes, FILE_BYTES_MAX)
            image = open_image(content) if source.page is None else open_page(content, source.page)
            if self._listed.holds_image(image):
                batch.known.append(source.name)
                return None
            if self._taken_down.holds(TakenDownKind.IMAGE, [image.image_id]):
                batch.taken_down.append(source.name)
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
        batch.files.append(row)
        return image


@lru_cache(maxsize=1)
def _in_worker(
    root: str, lists: Sequence[str], digest: str, key: SecretBytes | None, observer: ImageObserver, run: str
) -> ImageReader:
    """The reader that all shards of a run share in this process.

    Raises BadInput if this worker reads other lists than the process that sent it.
    """
    listed = load_known_hashes(lists)
    if listed.digest != digest:
        raise BadInput("--known-hashes: a worker reads other lists than this process; give it the same files")
    return ImageReader(Store(root), listed, key.get_secret_value() if key else b"", observer, run)


def take_in_files(
    store: Store,
    files: Iterable[ImageSource],
    count: int,
    reader: ImageReader,
    workers: int,
    runner: ShardRunner | None,
) -> ImageShard:
    """Read `count` files and list the parts of each shard, in order. More than one shard is read by a task runner.

    Returns what came of all of them. An image is kept only in the first shard that has it: shards are read
    independently.
    """
    total, stored_ids, replaced_tables = ImageShard(), set(reader.stored_ids), set[str]()
    with progress("images", count) as advance, listed_in_batches(store) as list_parts:
        if runner is not None and count > FILES_A_SHARD:
            shards = _advancing(runner.map_ordered(reader.read_shard, _cut(files, FILES_A_SHARD)), advance)
        else:
            shards = reader.read(files, workers, advance)
        for shard in shards:
            list_parts(_new_parts(store, shard, stored_ids, replaced_tables))
            shard.image_ids = [image_id for image_id in shard.image_ids if image_id not in stored_ids]
            stored_ids.update(shard.image_ids)
            total.add(shard)
    for table in sorted(replaced_tables):
        store.purge(table)
    return total


def _advancing(shards: Iterable[ImageShard], advance: Advance) -> Iterator[ImageShard]:
    for shard in shards:
        advance(shard.files + len(shard.known))
        yield shard


def _new_parts(
    store: Store, shard: ImageShard, stored_ids: AbstractSet[str], replaced: set[str]
) -> Iterator[tuple[str, str]]:
    """The parts of a shard without the images that are stored; tables that then have unlisted parts: `replaced`."""
    repeated_ids = sorted(stored_ids & set(shard.image_ids))
    for table, part in shard.parts:
        rows = store.read_part(table, part) if repeated_ids and table != "image_files" else pl.DataFrame()
        new_rows = (
            rows.filter(~pl.col("image_id" if table == "images" else "content_id").is_in(repeated_ids))
            if rows.height
            else rows
        )
        if new_rows.height == rows.height:
            yield table, part
            continue
        replaced.add(table)
        if new_rows.height:
            yield table, store.write_part(table, new_rows)


def _cut(files: Iterable[ImageSource], size: int) -> Iterator[list[ImageSource]]:
    ahead = iter(files)
    return iter(lambda: list(islice(ahead, size)), [])
