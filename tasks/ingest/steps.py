"""The Prefect skin of ingest: read log lines, take pictures in, assemble conversations and battles."""

from collections.abc import Callable, Sequence
from pathlib import Path

import polars as pl
from prefect import task
from prefect.cache_policies import NO_CACHE

from schemas.conversation import Sighting
from schemas.errors import BadInput
from schemas.image import Image, PictureFile, Preset
from schemas.reject import Quarantined, Reject
from schemas.run import StageReport
from schemas.settings import Settings
from tasks.ingest.assemble import battles, conversations, with_conversation_ids
from tasks.ingest.log_files import log_files
from tasks.ingest.people import store_pseudonyms
from tasks.ingest.picture_files import PictureSource, find_files, not_taken_in
from tasks.ingest.presets import PresetFile, find_presets, logged_name, preset_files
from tasks.ingest.read_logs import quarantine, read_logs
from tasks.ingest.take_in import Seen, take_in
from tasks.pictures import Picture
from tasks.progress import progress
from tasks.tables import Store, frame_of
from tasks.timing import timed

IMAGES_A_PART = 512


@task(cache_policy=NO_CACHE)
@timed
def read_log_lines(settings: Settings) -> StageReport:
    """Log files of the window -> `sightings`, `rejects`, `quarantine`. Files read before are read anew."""
    store = Store.open(settings.store)
    files = log_files(_log_folder(settings), settings.since, settings.until)
    with progress("log files", len(files)) as advance:
        content = read_logs(files, store_pseudonyms(store), advance)
    known = [Quarantined(**row) for row in store.read("quarantine").iter_rows(named=True)]
    read_now = [file.source for file in files]
    earlier = store.read("sightings").filter(~pl.col("source").is_in(read_now))
    content.sightings += [Sighting(**row) for row in earlier.iter_rows(named=True)]
    remaining, withdrawn, held = quarantine(content, known)
    old_rejects = store.read("rejects").filter(pl.col("line").is_not_null() & ~pl.col("source").is_in(read_now))
    store.replace("quarantine", frame_of(Quarantined, held))
    store.replace("sightings", frame_of(Sighting, remaining))
    store.replace("rejects", pl.concat([old_rejects, frame_of(Reject, [*content.rejects, *withdrawn])]))
    counts = {"files": len(files), "lines": content.line_count, "rejected": len(content.rejects) + len(withdrawn)}
    return StageReport(stage="read_logs", counts=counts)


@task(cache_policy=NO_CACHE)
@timed
def take_in_pictures(
    settings: Settings,
    look: Callable[[Sequence[Picture]], Seen],
    keep: Callable[[Sequence[Seen]], None],
) -> StageReport:
    """Picture files that the sightings name -> `images`, `picture_files`, `rejects`; and the presets.

    `look` sees every new picture on the decode that gives it its identity; `keep` stores what was seen
    before the pictures are listed, so that a killed run measures again rather than leaves a gap.
    """
    store = Store.open(settings.store)
    preset_folder = _preset_folder(settings)
    presets = preset_files(preset_folder) if preset_folder else []
    preset_sources = [PictureSource(f"preset:{preset.path}", preset.file) for preset in presets]
    logged = set(store.read("sightings", ["pictures"])["pictures"].explode().drop_nulls())
    found, rejects = find_files(_picture_folder(settings), logged)
    new = not_taken_in([*found, *preset_sources], store.read("picture_files"))
    known_ids = {image_id for part in store.read_parts("images", ["image_id"]) for image_id in part["image_id"]}
    images: list[Image] = []
    files: list[PictureFile] = []
    seen: list[Seen] = []
    counts = {"named": len(logged), "files": len(new), "images": 0}

    def store_part() -> None:
        keep(seen)
        store.append("images", frame_of(Image, images))
        store.append("picture_files", frame_of(PictureFile, files))
        counts["images"] += len(images)
        for waiting in (images, files, seen):
            waiting.clear()

    with progress("pictures", len(new)) as advance:
        for batch in take_in(new, known_ids, look, settings.workers):
            images += batch.images
            files += batch.files
            seen += batch.seen
            advance(len(batch.files))
            if len(images) >= IMAGES_A_PART:
                store_part()
    store_part()
    taken_in = store.read("picture_files").unique("name", keep="last")
    _store_presets(store, presets, taken_in)
    _store_picture_rejects(store, rejects, [source.name for source in found], taken_in)
    return StageReport(stage="take_in_pictures", counts=counts | {"missing": len(rejects)})


@task(cache_policy=NO_CACHE)
@timed
def assemble(settings: Settings) -> StageReport:
    """`sightings` and `picture_files` -> `conversations` and `battles`."""
    store = Store.open(settings.store)
    identified = with_conversation_ids(store.read("sightings"))
    assembled = conversations(identified, store.read("picture_files").unique("name", keep="last"))
    voted = battles(identified, assembled)
    store.replace("conversations", assembled)
    store.replace("battles", voted)
    return StageReport(stage="assemble", counts={"conversations": assembled.height, "battles": voted.height})


def _log_folder(settings: Settings) -> Path:
    if settings.logs is None:
        raise BadInput("no log folder given; use --logs DIR")
    return Path(settings.logs)


def _picture_folder(settings: Settings) -> Path:
    folder = Path(settings.images) if settings.images else _log_folder(settings) / "serve_images"
    if settings.images and not folder.is_dir():
        raise BadInput(f"picture folder {settings.images!r} does not exist or is not a folder")
    return folder


def _preset_folder(settings: Settings) -> Path | None:
    return Path(settings.presets) if settings.presets else find_presets(_log_folder(settings))


def _store_presets(store: Store, presets: Sequence[PresetFile], taken_in: pl.DataFrame) -> None:
    image_ids = dict(taken_in.select("name", "image_id").iter_rows())
    rows = [
        Preset(
            path=p.path, dataset=p.dataset, logged_name=logged_name(p.file), image_id=image_ids.get(f"preset:{p.path}")
        )
        for p in presets
    ]
    if rows:
        store.replace("presets", frame_of(Preset, rows))


def _store_picture_rejects(
    store: Store, missing: Sequence[Reject], present: Sequence[str], taken_in: pl.DataFrame
) -> None:
    broken = taken_in.filter(pl.col("name").is_in(present) & pl.col("problem").is_not_null())
    rows = [
        Reject(source=row["name"], line=None, reason=row["problem"], evidence=row["evidence"])
        for row in broken.iter_rows(named=True)
    ]
    of_lines = store.read("rejects").filter(pl.col("line").is_not_null())
    store.replace("rejects", pl.concat([of_lines, frame_of(Reject, [*missing, *rows])]))
