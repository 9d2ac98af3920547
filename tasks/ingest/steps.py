"""The Prefect tasks of ingest: read log lines, take images in, assemble conversations and battles."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path

import polars as pl

from schemas.errors import BadInput
from schemas.items.image import Preset
from schemas.run import StageReport
from schemas.settings import Settings
from tasks.ingest.assemble import assemble_store
from tasks.ingest.formats.published import BENCH_ITEMS
from tasks.ingest.image_files import (
    INDEX,
    STARTERS,
    ImageSource,
    PresetFile,
    embedded_images,
    find_files,
    find_presets,
    image_folders,
    logged_name,
    not_taken_in,
    preset_files,
    rejects_of_others,
    store_image_rejects,
)
from tasks.ingest.known_images import KnownHashes, apply_lists, hold_images, load_known_hashes, not_held, purge_flagged
from tasks.ingest.log_files import LogFile, files_in_words, files_left_out, source_files
from tasks.ingest.made_images import record_drawings, sight_items, sources_of, waiting_drawings
from tasks.ingest.quarantine import EMBEDDED_SUFFIX, PRESET, keep_names_out
from tasks.ingest.read_new import read_new
from tasks.ingest.shrunk import shrunk_files
from tasks.ingest.take_in import ImageObserver, ImageReader, ImageShard, take_in_files
from tasks.runtime.parallel import shard_runner
from tasks.runtime.progress import report, tell
from tasks.runtime.steps import step
from tasks.storage.keyed_ids import Tombstones, store_key
from tasks.storage.tables import Store, frame_of


@step
def read_log_lines(settings: Settings) -> StageReport:
    """Read the new lines of the log files in the window into `sightings`, `rejects` and `quarantine`."""
    store = Store.open(settings.store)
    if settings.source is not None:
        return StageReport(stage="read_logs", counts=_read_database(settings, store), notes=_shrunk_notes(store))
    logs = _log_folder(settings)
    files = _data_files(settings)
    tell(files_in_words(files, settings.format))
    if (left_out := files_left_out(logs, files)) is not None:
        tell(left_out)
    of_people = settings.format == BENCH_ITEMS.name  # who may take items out of their file
    counts = read_new(store, files, logs, settings.workers, settings.accept_shrunk or of_people)
    return StageReport(stage="read_logs", counts=counts, notes=_shrunk_notes(store))


def _read_database(settings: Settings, store: Store) -> dict[str, int]:
    """Read the days of the database in the window that have changed; counts as those of `read_new`."""
    from tasks.ingest.database import database_days, days_in_window, read_days  # the driver is loaded for it alone

    assert settings.source is not None
    all_days = database_days(settings.source, settings.format)
    days = days_in_window(all_days, settings.since, settings.until)
    row_count = sum(day.row_count for day in days)
    tell(f"the database has {row_count:,} rows of {len(days):,} days; days that changed since they were read are read")
    return read_days(store, days, all_days, settings.workers, settings.accept_shrunk)


def _shrunk_notes(store: Store) -> list[str]:
    return [f"{file}" for file in shrunk_files(store)]


@step
def take_in_images(settings: Settings, observer: ImageObserver) -> StageReport:
    """Read the image files that the sightings name, and the presets, into `images`, `image_files` and `rejects`.

    Images on a list of known hashes go to `quarantine` instead, with their lines. `observer` measures every new image
    while it is decoded.
    """
    store = Store.open(settings.store)
    listed = load_known_hashes(settings.known_hashes)
    purge_flagged(store)
    apply_lists(store, listed)
    beside_logs = None if settings.source is not None else find_presets(_log_folder(settings))
    folder = Path(settings.presets) if settings.presets else beside_logs
    folders = [preset_folder for preset_folder in (folder, _starter_folder(settings)) if preset_folder]
    presets = not_held(store, [preset for preset_folder in folders for preset in preset_files(preset_folder)])
    # image names in the sightings, of all files or of one, as first shown: a release reads those shown together
    source = _items_file(settings)
    of_file = pl.lit(True) if source is None else pl.col("source") == source
    parts = (rows.filter(of_file) for rows in store.read_parts("sightings", ["source", "images"]))
    name_columns = (rows["images"].explode().drop_nulls().unique(maintain_order=True) for rows in parts)
    logged_names = pl.concat([store.empty("sightings")["images"].explode(), *name_columns]).unique(maintain_order=True)
    named_files, missing = find_files(_image_folders(settings), logged_names)
    new_sources, names_in_rows = _new_sources(store, named_files, presets, missing)
    held_keys = set(store.read("quarantine").filter(kind="image")["key"])
    sources = chain(new_sources, embedded_images(_data_files(settings), names_in_rows, held_keys))
    outcome = _taken_in(settings, store, sources, len(new_sources) + len(names_in_rows), listed, observer)
    taken_in = store.read("image_files").unique("name", keep="last")
    kept_presets = [preset for preset in not_held(store, presets) if f"{PRESET}{preset.path}" not in outcome.taken_down]
    _store_presets(store, kept_presets, taken_in)
    carried_names = {name for name in taken_in["name"] if name.endswith(EMBEDDED_SUFFIX)}
    missing = missing.filter(~(pl.col("source") + EMBEDDED_SUFFIX).is_in(list(carried_names)))
    # a run that takes items in looks for no other image of the store: what is known of those stays
    known_rejects = [rejects_of_others(store, logged_names)] if _items_file(settings) else []
    rejects = pl.concat([missing, *known_rejects])
    store_image_rejects(store, rejects, [*carried_names, *(source.name for source in named_files)], taken_in)
    counts = {"named": len(logged_names), **_counts(outcome), "missing": missing.height}
    counts |= {"taken_down": len(outcome.taken_down)} if outcome.taken_down else {}
    return report("take_in_images", outcome.measured, counts)


def _new_sources(
    store: Store, named_files: Sequence[ImageSource], presets: Sequence[PresetFile], missing: pl.DataFrame
) -> tuple[list[ImageSource], set[str]]:
    """(files and presets that were not taken in yet, names of missing files that rows of a dataset may hold)."""
    known_files = store.read("image_files")
    preset_sources = [ImageSource(f"{PRESET}{preset.path}", preset.file) for preset in presets]
    new_sources = not_taken_in([*named_files, *preset_sources], known_files)
    return new_sources, set(missing["source"]) - {name.removesuffix(EMBEDDED_SUFFIX) for name in known_files["name"]}


def _items_file(settings: Settings) -> str | None:
    """The file of a run that takes items in; other images of the store are then not looked for."""
    return Path(settings.logs or "").name if settings.format == BENCH_ITEMS.name else None


def _taken_in(
    settings: Settings,
    store: Store,
    sources: Iterable[ImageSource],
    count: int,
    listed: KnownHashes,
    observer: ImageObserver,
) -> ImageShard:
    """Take images in; those on a list are quarantined, and new names of those taken down are taken down."""
    key = store_key(store)
    reader = ImageReader(store, listed, key, observer)
    outcome = take_in_files(store, sources, count, reader, settings.workers, shard_runner(settings))
    if outcome.known:
        hold_images(store, outcome.known)
    if outcome.taken_down:
        keep_names_out(store, outcome.taken_down, Tombstones(store, key), datetime.now(UTC))
    return outcome


def _counts(done: ImageShard) -> dict[str, int]:
    return {"files": done.files, "images": len(done.image_ids), "known": len(done.known)}


@step
def take_in_drawings(settings: Settings, observer: ImageObserver) -> StageReport:
    """Take in what an image model drew, as every image. Writes `generated_images`, empties `drawings`."""
    store = Store.open(settings.store)
    drawings = waiting_drawings(store)
    known_files = set(store.read("image_files", ["name"])["name"])
    sources = [source for source in sources_of(drawings) if source.name not in known_files]
    listed = load_known_hashes(settings.known_hashes)
    outcome = _taken_in(settings, store, sources, len(sources), listed, observer)
    record_drawings(store, drawings)
    return report("take_in_drawings", outcome.measured, _counts(outcome))


@step
def take_in_items(settings: Settings) -> StageReport:
    """Items of benchmarks made on demand become conversations of one question, without an answer."""
    store = Store.open(settings.store)
    new_count = sight_items(store, Tombstones(store, store_key(store)))
    return StageReport(stage="take_in_items", counts={"new": new_count, **assemble_store(store, settings.workers)})


@step
def assemble(settings: Settings) -> StageReport:
    """`sightings` and `image_files` -> `conversations` and `battles`."""
    return StageReport(stage="assemble", counts=assemble_store(Store.open(settings.store), settings.workers))


def _log_folder(settings: Settings) -> Path:
    if settings.logs is None:
        raise BadInput("no logs are given; use --logs DIR, or --source ADDRESS of a database")
    return Path(settings.logs)


def _data_files(settings: Settings) -> list[tuple[LogFile, str]]:
    """Files in which rows may hold pictures; a database has none."""
    if settings.source is not None:
        return []
    return source_files(_log_folder(settings), settings.format, settings.since, settings.until)


def _starter_folder(settings: Settings) -> Path | None:
    """The pictures of starter prompts that our own arena keeps beside its logs; None where there are none."""
    folder = None if settings.source is not None else _log_folder(settings) / STARTERS
    return folder if folder and (folder / INDEX).is_file() else None


def _image_folders(settings: Settings) -> list[Path]:
    if settings.images is None:
        return [] if settings.source is not None else image_folders(_log_folder(settings))
    if not Path(settings.images).is_dir():
        raise BadInput(f"image folder {settings.images!r} does not exist or is not a folder")
    return [Path(settings.images)]


def _store_presets(store: Store, presets: Sequence[PresetFile], taken_in: pl.DataFrame) -> None:
    image_ids = dict(taken_in.select("name", "image_id").iter_rows())
    rows = [
        Preset(
            path=preset.path,
            dataset=preset.dataset,
            logged_name=logged_name(preset.file),
            image_id=image_ids.get(f"{PRESET}{preset.path}"),
        )
        for preset in presets
    ]
    if rows:
        store.replace("presets", frame_of(Preset, rows))
