"""Takes picture files in: one decode each, whose pixels whoever is looking may see as well.

`Intake.look` is called with freshly decoded pictures on the worker's thread, and its result travels with them; that
is how image signals are measured on the very decode that gave a picture its identity.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple

from schemas.image import Image, PictureFile
from schemas.reject import RejectReason
from tasks.ingest.known_hashes import KnownHashes, file_digests
from tasks.ingest.picture_files import PictureSource, file_stamp
from tasks.pixels.pictures import Picture, PictureRejected, Pixels, open_picture
from tasks.running.parallel import map_ordered

FILES_AT_ONCE = 16
FILE_BYTES_MAX = 256 * 1024 * 1024
"""Larger picture files are not read into memory: a server keeps 3.3 MB of each."""
PIXELS_AT_ONCE = 32_000_000
"""Decoded pixels a worker holds before it looks at them: 96 MB."""


@dataclass
class TakenIn:
    """What became of some picture files."""

    images: list[Image] = field(default_factory=list)
    files: list[PictureFile] = field(default_factory=list)
    seen: list[Any] = field(default_factory=list)
    known: list[str] = field(default_factory=list)
    """Names of pictures that are on a list of known hashes: neither listed above nor looked at."""
    taken_down: list[str] = field(default_factory=list)
    """Names of pictures that were taken down: neither listed above nor looked at."""

    def add(self, other: "TakenIn") -> None:
        """What became of more files."""
        self.images += other.images
        self.files += other.files
        self.seen += other.seen
        self.known += other.known
        self.taken_down += other.taken_down


class Intake(NamedTuple):
    """What is done with a picture file."""

    look: Callable[[Sequence[Picture]], Any]
    """Sees new pictures; called on any thread."""
    listed: KnownHashes
    """What it holds by its bytes is not decoded, and by its pixels not looked at."""
    pdq: Callable[[Pixels], str]
    """PDQ hash of pixels, for `listed`."""
    taken_down: Callable[[str], bool]
    """Whether the picture with a content id was taken down: then nothing of it is kept but its name."""


def take_in(
    files: Iterable[PictureSource], known_ids: AbstractSet[str], intake: Intake, workers: int
) -> Iterator[TakenIn]:
    """Decode `files`, some at a time, in order. Pictures in `known_ids` are linked but not looked at again."""
    seen_ids = set(known_ids)

    def work(batch: Sequence[PictureSource]) -> TakenIn:
        return _take_in_batch(batch, seen_ids, intake)  # reading a set that grows meanwhile is safe

    ahead = iter(files)
    batches = iter(lambda: list(islice(ahead, FILES_AT_ONCE)), [])
    for result in map_ordered(work, batches, workers):
        result.images = [image for image in result.images if image.image_id not in seen_ids]
        seen_ids.update(image.image_id for image in result.images)
        yield result


def _take_in_batch(files: Sequence[PictureSource], known_ids: AbstractSet[str], intake: Intake) -> TakenIn:
    result = TakenIn()
    fresh: dict[str, Picture] = {}
    for file in files:
        picture = _open(file, result, intake)
        if picture is not None and picture.image_id not in known_ids:
            fresh.setdefault(picture.image_id, picture)
        if sum(p.width * p.height for p in fresh.values()) >= PIXELS_AT_ONCE:
            _hand_over(fresh, result, intake)
    _hand_over(fresh, result, intake)
    return result


def _open(source: PictureSource, result: TakenIn, intake: Intake) -> Picture | None:
    size_bytes, modified_ns = file_stamp(source.file)
    picture, problem, evidence = None, None, ""
    too_large = source.content is None and size_bytes > FILE_BYTES_MAX
    content = b"" if too_large else source.read()
    digests = file_digests(content)
    if intake.listed.holds_file(digests):
        result.known.append(source.name)
        return None
    try:
        if too_large:
            evidence = f"{size_bytes:,} bytes, at most {FILE_BYTES_MAX:,} are read"
            raise PictureRejected(RejectReason.IMAGE_TOO_LARGE, evidence)
        opened = picture = open_picture(content)
        if intake.listed.holds_picture(opened.image_id, lambda: intake.pdq(opened.rgb)):
            result.known.append(source.name)
            return None
        if intake.taken_down(opened.image_id):
            result.taken_down.append(source.name)
            return None
    except PictureRejected as rejected:
        problem, evidence = rejected.reason, rejected.evidence
    row = PictureFile(
        name=source.name,
        size_bytes=size_bytes,
        modified_ns=modified_ns,
        image_id=picture.image_id if picture else None,
        problem=problem,
        evidence=evidence,
        **digests._asdict(),
    )
    result.files.append(row)
    return picture


def _hand_over(fresh: dict[str, Picture], result: TakenIn, intake: Intake) -> None:
    pictures = list(fresh.values())
    fresh.clear()
    if pictures:
        result.seen.append(intake.look(pictures))
        result.images += [_image(picture) for picture in pictures]


def _image(picture: Picture) -> Image:
    return Image(
        image_id=picture.image_id,
        bytes=picture.encoded,
        format=picture.format,
        width=picture.width,
        height=picture.height,
    )
