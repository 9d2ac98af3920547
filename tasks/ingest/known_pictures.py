"""Pictures on the operator's lists, or flagged later on: held with their lines, and what was known of them removed."""

from collections.abc import Iterable, Sequence

import polars as pl

from schemas.reject import QuarantineCause
from schemas.row import arrow_schema
from schemas.tables import TABLES
from tasks.content_id import text_id
from tasks.ingest.formats.embedded import SUFFIX
from tasks.ingest.known_hashes import FileDigests, KnownHashes
from tasks.ingest.presets import PresetFile
from tasks.ingest.quarantine import hold, rows_without
from tasks.tables import Store

PRESET = "preset:"
_APPLIED = "ingest/known_hashes"
_UNFINISHED = "ingest/holding"
_IDS = ("image_id", "source_image_id", "image_a", "image_b", "content_id", "document_id")
_LAST = ("presets", "picture_files", "signals/image_hash")
"""What a killed purge needs to find the same pictures again goes last."""


def key_of(name: str) -> str:
    """The key of a picture in `quarantine`: its logged name without extension, or its preset path as it is."""
    if name.startswith(PRESET):
        return name
    return name.removesuffix(SUFFIX) if name.endswith(SUFFIX) else name.rpartition(".")[0] or name


def hold_pictures(store: Store, names: Iterable[str], cause: QuarantineCause = QuarantineCause.KNOWN_HASH) -> None:
    """Quarantine pictures by file name, with every line that shows them. Killed, it is finished by the next call."""
    store.write_bytes(_UNFINISHED, b"")
    known, parts = store.read("quarantine"), store.parts("sightings")
    pictures = {key_of(name) for name in names}
    _, kept, held, rejects = hold(store, [], parts, known, cause, pictures=pictures)
    others = known.filter(pl.col("cause").ne_missing(cause.value))
    store.replace("quarantine", pl.concat([others, held]))
    store.append("rejects", rejects)
    store.list_parts("sightings", kept)
    store.fs.rm_file(store.at(_UNFINISHED))


def not_held(store: Store, presets: Sequence[PresetFile]) -> list[PresetFile]:
    """Presets that are not quarantined, and so may be opened."""
    held = set(store.read("quarantine").filter(kind="picture")["key"])
    return [preset for preset in presets if PRESET + preset.path not in held]


def purge_flagged(store: Store) -> None:
    """Remove all that is known of pictures that a server flagged after they were taken in, under whatever name."""
    flagged = set(store.read("quarantine").filter(kind="picture", cause=QuarantineCause.FLAGGED.value)["key"])
    files = store.read("picture_files", ["name", "image_id"])
    named = files.filter(files["name"].map_elements(key_of, return_dtype=pl.String).is_in(sorted(flagged)))
    if named.is_empty():
        return
    ids = set(named["image_id"].drop_nulls())
    names = {*named["name"], *files.filter(pl.col("image_id").is_in(sorted(ids)))["name"]}
    hold_pictures(store, names, QuarantineCause.FLAGGED)
    _purge(store, ids, names)


def apply_lists(store: Store, listed: KnownHashes) -> None:
    """Hold what was taken in before a list named it, and remove all that is known of it; logged names first.

    Nothing is opened: files are known by the digests they were taken in with, pixels by their id and PDQ hash.
    """
    named = {name for part in store.read_parts("sightings", ["pictures"]) for name in _listed_names(part, listed)}
    if named or store.read_bytes(_UNFINISHED) is not None:
        hold_pictures(store, named)
    if store.read_bytes(_APPLIED) != listed.digest.encode():
        if listed:
            _apply(store, listed)
        store.write_bytes(_APPLIED, listed.digest.encode())  # also of no list: what comes in now was not checked


def _apply(store: Store, listed: KnownHashes) -> None:
    files = store.read("picture_files", ["name", "image_id", *FileDigests._fields])
    by_bytes = pl.any_horizontal(pl.col(kind).is_in(listed.exact[kind]) for kind in FileDigests._fields)
    by_name = files["name"].map_elements(lambda name: listed.holds_name(key_of(name)), return_dtype=pl.Boolean)
    ids = set(files.filter(by_bytes | by_name)["image_id"].drop_nulls()) | _by_pixels(store, listed)
    names = set(files.filter(by_bytes | by_name | pl.col("image_id").is_in(sorted(ids)))["name"])
    if names or ids:
        hold_pictures(store, names)
        _purge(store, ids, names)


def _listed_names(part: pl.DataFrame, listed: KnownHashes) -> Iterable[str]:
    return filter(listed.holds_name, part["pictures"].explode().drop_nulls().unique())


def _by_pixels(store: Store, listed: KnownHashes) -> set[str]:
    ids = {image_id for part in store.read_parts("images", ["image_id"]) for image_id in part["image_id"]}
    found = ids & listed.exact["pixels"]
    for part in store.read_parts("signals/image_hash", ["content_id", "pdq"]):
        found |= set(part["content_id"].filter(pl.Series(listed.near(part["pdq"].to_list()))))
    return found


def _purge(store: Store, pictures: set[str], names: set[str]) -> None:
    """Remove every row that is about the pictures, what was made of them, their text, or prompts that show them."""
    made = store.read("redacted_images", ["image_id", "source_image_id"])
    pictures = pictures | set(made.filter(pl.col("source_image_id").is_in(sorted(pictures)))["image_id"])
    shown = pl.col("image_ids").list.set_intersection(sorted(pictures)).list.len() > 0
    read = store.read("signals/image_text", ["content_id", "text"]).filter(pl.col("content_id").is_in(sorted(pictures)))
    gone = pictures | {text_id(text) for text in read["text"] if text}
    for table in ("conversations", "redacted_conversations"):
        gone |= set(store.read(table, ["document_id", "image_ids"]).filter(shown)["document_id"])
    for table in sorted(TABLES, key=lambda table: _LAST.index(table) if table in _LAST else -1):
        columns = arrow_schema(TABLES[table].row).names
        tests = [pl.col(name).is_in(sorted(gone)) for name in _IDS if name in columns]
        tests += [pl.col("name").is_in(sorted(names))] if table == "picture_files" else []
        if tests:
            unwanted = pl.any_horizontal(tests)
            needed = sorted(set(unwanted.meta.root_names()))
            store.list_parts(table, rows_without(store, table, store.parts(table), unwanted, needed))
