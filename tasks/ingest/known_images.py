"""Images that may not be used: on the operator's hash lists, or flagged after they were taken in.

In: hash lists, names of images. Out: the images and their log lines in `quarantine`, and every row about them removed.
The content of a list is never printed.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from schemas.errors import BadInput, why_unreadable
from schemas.items.reject import QuarantineCause
from schemas.row import Held
from schemas.tables import TABLES
from tasks.images.decode import DecodedImage
from tasks.images.measures import pdq_digits
from tasks.ingest.image_files import PresetFile
from tasks.ingest.quarantine import PRESET, hold, quarantine_key
from tasks.runtime.arrays import HashBits
from tasks.storage.content_id import text_id
from tasks.storage.keyed_ids import note_unfinished
from tasks.storage.parts import names_any, rows_without
from tasks.storage.tables import Store

DIGITS = {"md5": 32, "sha1": 40, "sha256": 64, "pixels": 32, "pdq": 64}
"""Kind of hash -> its hexadecimal digits. `md5` is also the name a server logs; `pixels` is our own image id."""
PDQ_DISTANCE = 31
"""Bits that may differ where a line does not say (Meta's recommendation for PDQ)."""
PDQ_DISTANCE_MAX = 128
PDQ_QUALITY_MIN = 50
"""Hashes of flatter images say too little to find copies of a flagged one by (Meta's recommendation for PDQ)."""
_TURNS, _TURNED_DISTANCE_MAX = 8, 64
"""Forms of a picture, and the most bits that a turned one may differ in, whatever a line says."""
_SEPARATORS = re.compile(r"[\s,;]+")
_APPLIED = "ingest/known_hashes"
_UNFINISHED = "ingest/holding"
_LAST = (
    "signals/image_text", "redacted_conversations", "conversations", "redacted_images", "presets", "image_files",
    "signals/image_hash",
)  # fmt: skip
"""Tables to purge last: a killed purge needs them to find the same images, texts and prompts again."""
_NAMED = (Held.CONVERSATION, Held.CONTENT, Held.IMAGE)


class FileDigests(NamedTuple):
    """Digests of a file's bytes, computed before the image is decoded."""

    md5: str
    sha1: str
    sha256: str


def file_digests(content: bytes) -> FileDigests:
    """Lower-case hexadecimal digits."""
    return FileDigests(*(hashlib.new(kind, content, usedforsecurity=False).hexdigest() for kind in FileDigests._fields))


@dataclass(frozen=True)
class KnownHashes:
    """All of the operator's lists."""

    files: tuple[str, ...]
    """The lists."""
    exact: dict[str, frozenset[str]]
    """Kind -> hexadecimal digits; every kind but pdq."""
    pdq: HashBits
    """uint64 (4, 8 n): the four words of each hash, and of the same picture turned by quarters and mirrored."""
    pdq_distance: npt.NDArray[np.uint8]
    """uint8 (8 n,): how many bits an image may differ in from each."""
    digest: str
    """Hash of all lists."""

    def __bool__(self) -> bool:
        return bool(len(self.pdq_distance) or any(self.exact.values()))

    def holds_name(self, name: str) -> bool:
        """Whether a logged image name is on a list, before any file is opened."""
        return name in self.exact["md5"]

    def holds_file(self, digests: FileDigests) -> bool:
        """Whether a file is on a list, before it is decoded."""
        return any(value in self.exact[kind] for kind, value in zip(FileDigests._fields, digests, strict=True))

    def holds_image(self, image: DecodedImage) -> bool:
        """Whether decoded pixels are on a list. Their PDQ hash is computed only if needed."""
        if image.image_id in self.exact["pixels"]:
            return True
        return len(self.pdq_distance) > 0 and bool(self.near([pdq_digits(image.rgb)])[0])

    def near(self, digits: Sequence[str]) -> npt.NDArray[np.bool_]:
        """Whether each of m PDQ hashes is close enough to a listed one, bool (m,). PDQ quality is not considered."""
        if not len(self.pdq_distance) or not len(digits):
            return np.zeros(len(digits), bool)
        distances = (np.bitwise_count(self.pdq ^ words[:, None]).sum(axis=0) for words in _words(digits))
        return np.array([(bits <= self.pdq_distance).any() for bits in distances], bool)


def load_known_hashes(files: Iterable[str]) -> KnownHashes:
    """All lists: a line is `KIND HASH`, for pdq with a distance if it is not 31; `#` begins a comment.

    Raises BadInput for a file or line that cannot be used. The error names the line number, never its content.
    """
    exact: dict[str, set[str]] = {kind: set() for kind in DIGITS}
    near: dict[tuple[str, int], None] = {}
    paths = tuple(files)
    for file in paths:
        for kind, value, distance in _entries(file):
            if kind == "pdq":
                near[value, distance] = None
            else:
                exact[kind].add(value)
    pdq_hashes = sorted(near)
    basis = repr(["turned", sorted((kind, sorted(values)) for kind, values in exact.items()), pdq_hashes])
    return KnownHashes(
        files=paths,
        exact={kind: frozenset(values) for kind, values in exact.items()},
        pdq=_turned([value for value, _ in pdq_hashes]),
        pdq_distance=np.array(
            [[distance] + [min(distance, _TURNED_DISTANCE_MAX)] * (_TURNS - 1) for _, distance in pdq_hashes], np.uint8
        ).ravel(),
        digest=hashlib.sha256(basis.encode()).hexdigest(),
    )


def _entries(file: str) -> Iterator[tuple[str, str, int]]:
    try:
        lines = Path(file).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"hash list {file!r} cannot be read ({why_unreadable(error)}); give a text file") from None
    for number, line in enumerate(lines, 1):
        words = [word for word in _SEPARATORS.split(line.partition("#")[0].strip()) if word]
        if words:
            yield _entry(words, f"hash list {file!r}, line {number}")


def _entry(words: list[str], where: str) -> tuple[str, str, int]:
    kind, value = words[0].lower(), words[1].lower() if len(words) > 1 else ""
    if kind not in DIGITS:
        raise BadInput(f"{where}: the first word must be one of {', '.join(DIGITS)}, then the hash")
    if not re.fullmatch(f"[0-9a-f]{{{DIGITS[kind]}}}", value):
        raise BadInput(f"{where}: {kind} needs {DIGITS[kind]} hexadecimal digits")
    distance_words = words[2:]
    if not distance_words:
        return kind, value, PDQ_DISTANCE
    if (
        kind != "pdq"
        or len(distance_words) > 1
        or not distance_words[0].isdecimal()
        or int(distance_words[0]) > PDQ_DISTANCE_MAX
    ):
        raise BadInput(f"{where}: only pdq takes a third word, a distance of 0 to {PDQ_DISTANCE_MAX} bits")
    return kind, value, int(distance_words[0])


def _words(digits: Sequence[str]) -> HashBits:
    """uint64 (n, 4) from n times 64 hexadecimal digits."""
    return np.frombuffer(bytes.fromhex("".join(digits)), ">u8").astype(np.uint64).reshape(len(digits), 4)


def _turned(digits: Sequence[str]) -> HashBits:
    """uint64 (4, 8 n): n PDQ hashes, each also as of the picture turned by quarters and mirrored.

    A bit says whether a coefficient of a cosine transform, of frequencies 16 to 1, is above their median, about 0;
    a mirror changes the sign of the odd frequencies, and a transposed picture has a transposed transform. Hashes of
    turned pictures themselves differ from these in 10 to 14 bits (median).
    """
    bits = np.unpackbits(np.frombuffer(bytes.fromhex("".join(digits)), np.uint8)).reshape(-1, 16, 16)
    odd = np.arange(16, dtype=np.uint8) % 2
    masks = [across ^ down for across in (0 * odd, odd) for down in (0 * odd[:, None], odd[:, None])]
    turned_bits = np.stack([coefficients ^ mask for coefficients in (bits, bits.mT) for mask in masks], axis=1)
    return np.ascontiguousarray(np.packbits(turned_bits.reshape(-1, 256), axis=1).view(">u8").astype(np.uint64).T)


def hold_images(store: Store, names: Iterable[str], cause: QuarantineCause = QuarantineCause.KNOWN_HASH) -> None:
    """Quarantine images by file name, with every log line that shows them. The next call finishes a killed one."""
    store.write_bytes(_UNFINISHED, b"")
    quarantine_rows, parts = store.read("quarantine"), store.parts("sightings")
    image_keys = {quarantine_key(name) for name in names}
    _, kept_parts, held_rows, rejects = hold(store, [], parts, quarantine_rows, cause, images=image_keys)
    of_other_causes = quarantine_rows.filter(pl.col("cause").ne_missing(cause.value))
    store.replace("quarantine", pl.concat([of_other_causes, held_rows]))
    store.append("rejects", rejects)
    store.list_parts("sightings", kept_parts)
    store.fs.rm_file(store.at(_UNFINISHED))


def not_held(store: Store, presets: Sequence[PresetFile]) -> list[PresetFile]:
    """Presets that are not quarantined; only these may be opened."""
    held_keys = set(store.read("quarantine").filter(kind="image")["key"])
    return [preset for preset in presets if PRESET + preset.path not in held_keys]


def purge_flagged(store: Store) -> None:
    """Remove every row about images that were flagged after they were taken in, under all their names."""
    flagged_keys = set(store.read("quarantine").filter(kind="image", cause=QuarantineCause.FLAGGED.value)["key"])
    files = store.read("image_files", ["name", "image_id"])
    flagged_files = files.filter(
        files["name"].map_elements(quarantine_key, return_dtype=pl.String).is_in(sorted(flagged_keys))
    )
    if flagged_files.is_empty():
        return
    ids = set(flagged_files["image_id"].drop_nulls())
    # copies look like one of these: resized, slightly cropped, turned by quarters or mirrored
    image_hashes = store.read("signals/image_hash", ["content_id", "pdq", "pdq_quality"])
    image_hashes = image_hashes.filter(
        pl.col("content_id").is_in(sorted(ids)), pl.col("pdq_quality") >= PDQ_QUALITY_MIN
    )
    hashes = _turned(image_hashes["pdq"].unique().sort().to_list())
    ids |= _near_ids(store, KnownHashes((), {}, hashes, np.full(hashes.shape[1], PDQ_DISTANCE, np.uint8), ""))
    names = {*flagged_files["name"], *files.filter(pl.col("image_id").is_in(sorted(ids)))["name"]}
    hold_images(store, names, QuarantineCause.FLAGGED)
    _purge(store, ids, names)


def apply_lists(store: Store, listed: KnownHashes) -> None:
    """Quarantine images that were taken in before a list named them, and remove every row about them.

    No file is opened: stored digests, image ids and PDQ hashes are compared with the lists.
    """
    logged_names = (part["images"].explode().drop_nulls() for part in store.read_parts("sightings", ["images"]))
    listed_names = {name for names in logged_names for name in names if listed.holds_name(name)}
    if listed_names or store.read_bytes(_UNFINISHED) is not None:
        hold_images(store, listed_names)
    if store.read_bytes(_APPLIED) != listed.digest.encode():
        if listed:
            _apply(store, listed)
        store.write_bytes(_APPLIED, listed.digest.encode())  # also without lists: images taken in now are not checked


def _apply(store: Store, listed: KnownHashes) -> None:
    files = store.read("image_files", ["name", "image_id", *FileDigests._fields])
    by_bytes = pl.any_horizontal(pl.col(kind).is_in(listed.exact[kind]) for kind in FileDigests._fields)
    by_name = files["name"].map_elements(lambda name: listed.holds_name(quarantine_key(name)), return_dtype=pl.Boolean)
    stored = {image_id for part in store.read_parts("images", ["image_id"]) for image_id in part["image_id"]}
    ids = set(files.filter(by_bytes | by_name)["image_id"].drop_nulls())
    ids |= (stored & listed.exact["pixels"]) | _near_ids(store, listed)
    names = set(files.filter(by_bytes | by_name | pl.col("image_id").is_in(sorted(ids)))["name"])
    if names or ids:
        hold_images(store, names)
        _purge(store, ids, names)


def _near_ids(store: Store, listed: KnownHashes) -> set[str]:
    near_ids: set[str] = set()
    for part in store.read_parts("signals/image_hash", ["content_id", "pdq"]):
        near_ids |= set(part["content_id"].filter(pl.Series(listed.near(part["pdq"].to_list()), dtype=pl.Boolean)))
    return near_ids


def _purge(store: Store, images: set[str], names: set[str]) -> None:
    """Remove every row about the images, their redacted copies, their text, and conversations that show them.

    Answers to such prompts, verdicts and votes on them and what was screened of both go, too. What nothing needs any
    longer, such as facts about the texts of these conversations, is swept when ingest ends.
    """
    note_unfinished(store)
    redacted_copies = store.read("redacted_images", ["image_id", "source_image_id"])
    images = images | set(redacted_copies.filter(pl.col("source_image_id").is_in(sorted(images)))["image_id"])
    has_image = pl.col("image_ids").list.set_intersection(sorted(images)).list.len() > 0
    image_texts = store.read("signals/image_text", ["content_id", "text"]).filter(
        pl.col("content_id").is_in(sorted(images))
    )
    gone_ids = images | {text_id(text) for text in image_texts["text"] if text}
    for table in ("conversations", "redacted_conversations"):
        conversations = store.read(table, ["conversation_id", "document_id", "image_ids"]).filter(has_image)
        gone_ids |= {*conversations["document_id"], *conversations["conversation_id"]}
    files = names | {quarantine_key(name) for name in names}
    swept = {"topics"}  # its rows say which topics get another name
    for table in sorted(TABLES.keys() - swept, key=lambda table: _LAST.index(table) if table in _LAST else -1):
        declared = TABLES[table]
        tests = [names_any(table, column, gone_ids) for column in declared.named(*_NAMED)]
        tests += [names_any(table, column, files) for column in declared.named(Held.IMAGE_NAME)]
        if tests:
            store.list_parts(table, rows_without(store, table, store.parts(table), pl.any_horizontal(tests)))
