"""Takes items into a store: as a Parquet file that ingest reads, and as rows of the tables about written items.

Ingest makes of every item a user-only conversation, so that its images and texts are screened and decided on like any
other. Captions, reference and findings are stored once its content id is known.
"""

import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from errno import ENAMETOOLONG
from hashlib import blake2b
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from schemas.benches.written import PEOPLE, PUBLISHED, SAMPLED, Caption, ItemCheck, Reference, WrittenBy, WrittenItem
from schemas.errors import BadInput, why_unreadable
from schemas.items.review import QueueName
from schemas.row import Row
from tasks.runtime.spelled_paths import as_on_disk
from tasks.storage.content_id import ID_DIGITS, combined_id, text_id
from tasks.storage.parts import rows_without
from tasks.storage.tables import Store, frame_of
from tasks.written_bench.findings import review_of_check
from tasks.written_bench.item_files import DRAFTED_BY, FileItem, id_of_key, name_hashes
from tasks.written_bench.written_items import captions_id, split_of

_BENCH = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}")
_FILE_BYTES_MAX = 64 * 1024 * 1024
"""The limit of image intake; a test holds them equal."""
_ROWS_AT_ONCE = 32
_IMAGE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
_ROWS = pa.schema({
    "item_id": pa.string(), "instruction": pa.string(), "images": pa.list_(_IMAGE),
    "captions": pa.list_(pa.string()), "problem": pa.string(),
})  # fmt: skip


def checked_bench(name: str) -> str:
    """The name of a written benchmark. Raises BadInput for another one than small letters, digits, - and _."""
    if not _BENCH.fullmatch(name) or name == SAMPLED:
        raise BadInput(
            f"bench {name!r}: give a name of at most 40 small letters, digits, - and _, such as recipes-1; {SAMPLED!r} "
            "is what `curate sample` draws"
        )
    return name


def item_id(bench: str, item: FileItem) -> str:
    """Id of an item and of the conversation it becomes: the same whenever its file is collected again."""
    return id_of_key(bench, item.key)


def write_item_rows(items: Sequence[FileItem], bench: str, images: Path, target: Path) -> None:
    """Write the rows that ingest reads; images are found below the folder `images`. Raises BadInput when it is none."""
    if not images.is_dir():
        raise BadInput(f"--images {str(images)!r} is not a folder; give the one that the items' image names are in")
    with pq.ParquetWriter(target, _ROWS) as writer:
        for start in range(0, len(items), _ROWS_AT_ONCE):
            rows = [_row(item, bench, images) for item in items[start : start + _ROWS_AT_ONCE]]
            writer.write_table(pa.Table.from_pylist(rows, _ROWS))


def _row(item: FileItem, bench: str, folder: Path) -> dict[str, Any]:
    item.pictures = []
    images = [] if item.problem else list(_images(item, folder))  # which may find a problem
    about = {"item_id": item_id(bench, item), "instruction": item.instruction, "images": images}
    return {**about, "captions": item.captions or None, "problem": item.problem or None}


def _images(item: FileItem, folder: Path) -> Iterator[dict[str, Any]]:
    """{bytes, path} of an item's images. A missing file has no bytes; one that may not be read is a problem.

    The path is a hash of the content, so that equal files are taken in once.
    """
    for name, content in zip(item.images, item.content, strict=True):
        if content is None:
            content, problem = _read(folder, name)
            item.problem = problem or item.problem
        digest = blake2b(content or name.encode("utf-8", "surrogatepass"), digest_size=ID_DIGITS // 2).hexdigest()
        item.pictures.append(digest)
        yield {"bytes": content, "path": f"{digest}.png"}


def _read(folder: Path, name: str) -> tuple[bytes | None, str]:
    """The content of an image file, None when there is none, and why its name may not be used."""
    file = as_on_disk(folder, name)
    try:
        if not file.resolve().is_relative_to(folder.resolve()):
            return None, "an image path that leads out of the folder"
        if not file.is_file():
            return None, ""
        large = file.stat().st_size > _FILE_BYTES_MAX
        return (None, "an image file of more than 64 MiB") if large else (file.read_bytes(), "")
    except OSError as error:
        if error.errno != ENAMETOOLONG:
            raise BadInput(f"image {name!r} cannot be read ({why_unreadable(error)})") from None
    except (ValueError, RuntimeError):  # a null or half a character, or links in a circle
        pass
    return None, "an image name that no file can have"


def store_members(store: Store, items: Sequence[FileItem], bench: str, validation_share: float) -> None:
    """Make these the items of the benchmark: before ingest, so that none of them is ever taken for a conversation.

    `write_item_rows` has read their images: the split depends on them.
    """
    rows = []
    for item in [file_item for file_item in items if not file_item.problem]:
        content = [" ".join(item.instruction.split()), *item.pictures]  # equal in benchmarks of any name
        rows.append(WrittenItem(
            item_id=item_id(bench, item), bench=bench, family=item.family, images=len(item.images),
            image_names=name_hashes(item.images), licences=item.licences, authors=item.authors, origin=item.origin,
            split=split_of(combined_id("asked", content), validation_share),
        ))  # fmt: skip
    _replace(store, "bench_items", pl.col("bench") == bench, rows)


def store_texts(store: Store, items: Sequence[FileItem], bench: str, now: datetime) -> dict[str, int]:
    """Store captions, references and findings of the items that ingest took in. Returns counts."""
    ids = [item_id(bench, item) for item in items]
    forms = store.read("conversations", ["conversation_id", "document_id"])
    documents: dict[str, str] = dict(forms.filter(pl.col("conversation_id").is_in(ids)).iter_rows())
    taken = [
        (file_item, conversation_id)
        for file_item, conversation_id in zip(items, ids, strict=True)
        if conversation_id in documents and not file_item.problem
    ]
    captions = [
        row
        for item, conversation_id in taken
        for row in _captions(item.captions, conversation_id, documents[conversation_id], now)
    ]
    generic = [
        row
        for item, conversation_id in taken
        for row in _captions(item.generic, conversation_id, documents[conversation_id], now)
    ]
    references = [
        _reference(item, conversation_id, documents[conversation_id], now)
        for item, conversation_id in taken
        if item.reference
    ]
    checks = [
        ItemCheck(
            item_id=conversation_id, reference_id=text_id(item.reference), rater=PUBLISHED, correct=item.found.correct,
            fault=item.found.fault, harmful=False,
        )
        for item, conversation_id in taken if item.found and item.reference
    ]  # fmt: skip
    gone = ~pl.col("item_id").is_in(forms["conversation_id"].implode())
    ours = pl.col("item_id").is_in(ids)
    _replace(store, "bench_items", gone, [])
    _replace(store, "captions", gone | (ours & (pl.col("version") == PEOPLE)), captions)
    _replace(store, "generic_captions", gone | ours, generic)
    _replace(store, "references", gone | (ours & pl.col("version").is_in([PEOPLE, PUBLISHED])), references)
    published = gone | (ours & (pl.col("reviewer") == PUBLISHED))
    of_items = pl.col("queue") == QueueName.WRITTEN.value
    _replace(store, "reviews", of_items & published, [review_of_check(check, now) for check in checks])
    written = {"captions": len(captions), "references": len(references), "checked": len(checks)}
    return {"items": len(taken), **written, **({"generic captions": len(generic)} if generic else {})}


def _captions(captions: Sequence[str], conversation_id: str, document_id: str, now: datetime) -> Iterator[Caption]:
    for place, text in enumerate(captions):
        if text:
            yield Caption(
                item_id=conversation_id, document_id=document_id, place=place, text=text, written_by=WrittenBy.PEOPLE,
                provider=PEOPLE, version=PEOPLE, written_at=now,
            )  # fmt: skip


def _reference(item: FileItem, conversation_id: str, document_id: str, now: datetime) -> Reference:
    people = WrittenBy.PEOPLE, PEOPLE, PEOPLE
    by, provider, version = (WrittenBy.MODEL, DRAFTED_BY, PUBLISHED) if item.drafted else people
    return Reference(
        item_id=conversation_id, document_id=document_id, text=item.reference, captions_id=captions_id(item.captions),
        written_by=by, provider=provider, version=version, written_at=now,
    )  # fmt: skip


def _replace(store: Store, table: str, old: pl.Expr, rows: Sequence[Row]) -> None:
    """Put rows in the place of those that `old` names."""
    parts = rows_without(store, table, store.parts(table), old)
    new = [store.write_part(table, frame_of(type(rows[0]), rows))] if rows else []
    store.list_parts(table, list(dict.fromkeys([*parts, *new])))
