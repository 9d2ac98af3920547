"""Withdraws built releases with removed content, and what an S3 bucket keeps of replaced or deleted objects.

The data of a release is deleted; its manifest stays, so that no version is reused.
"""

import hashlib
import json
import shutil
from collections.abc import Iterator
from typing import Any

import polars as pl

from schemas.errors import why_unreadable
from schemas.publication import Compat, Exported
from schemas.release import ROW_KEYS
from tasks.export.destination import exports
from tasks.publish.records import publications
from tasks.release.build import MANIFEST, WITHDRAWN, staging_folder
from tasks.storage.keyed_ids import Tombstones
from tasks.storage.tables import Store

TAKEDOWN = "takedown"
_CHECKED = "ingest/known_withdrawn"
_FOLDERS = ("tables", "releases", "exports")
"""Folders of a store with texts and images."""
_WITHOUT_VERSIONS = {"NotImplemented", "MethodNotAllowed"}
"""Error codes of object stores without versioning."""
_RELEASED_IDS = """
    -- a row is one id in one release, of no conversation that stays
    SELECT DISTINCT version, id FROM released_ids ANTI JOIN (
        SELECT conversation_id AS id FROM conversations ANTI JOIN gone ON conversation_id = gone.id
    ) AS staying USING (id)
"""


def withdraw_known(store: Store) -> list[str]:
    """Withdraw releases with quarantined conversations, if the quarantine has changed; returns the versions."""
    state = hashlib.sha256(json.dumps(store.parts("quarantine")).encode()).hexdigest().encode()
    if store.read_bytes(_CHECKED) == state:
        return []
    versions, quarantined_keys = set[str](), store.read("quarantine").filter(kind="conversation")["key"]
    if len(quarantined_keys):
        versions.update(_half_withdrawn(store))
        stem = pl.col("id").str.replace(r"-[0-9a-f]{8}$", "")  # a conversation id may be a conv_id with a suffix
        is_held = pl.col("id").is_in(quarantined_keys.implode()) | stem.is_in(quarantined_keys.implode())
        for rows in _released_ids(store):
            versions.update(rows.filter(is_held)["version"])
    withdraw_releases(store, sorted(versions))
    store.write_bytes(_CHECKED, state)
    return sorted(versions)


def releases_with(store: Store, tombstones: Tombstones, gone: pl.Series) -> list[str]:
    """Versions with something taken down, or half withdrawn. Keyed hashes are computed of ids that do not stay alone.

    `gone`: conversations that do not stay.
    """
    versions = set(_half_withdrawn(store))
    for rows in store.batches(_RELEASED_IDS, released_ids=_released_ids(store), gone=gone.to_frame("id")):
        taken = tombstones.conversations(rows["id"])
        versions.update(rows.filter(pl.col("id").is_in(sorted(taken)))["version"])
    return sorted(versions)


def withdraw_releases(store: Store, versions: list[str], why: str = TAKEDOWN) -> None:
    """Delete everything but the manifests of some versions, their exports in the store, and what killed builds left.

    Killed builds leave the staging folder, and on an object store a partly copied release without a manifest.
    """
    for version in versions:
        mark_withdrawn(store, version, why)
        for exported in (store.at(compat.folder(version)) for compat in Compat):
            if store.fs.exists(exported):
                store.fs.rm(exported, recursive=True)
        for path in store.fs.ls(store.at(f"releases/{version}"), detail=False, refresh=True):
            if path.rsplit("/", 1)[-1] not in (MANIFEST, WITHDRAWN):
                store.fs.rm(path, recursive=True)
    shutil.rmtree(staging_folder(store), ignore_errors=True)
    for path in set(_folders(store)) - {store.at(f"releases/{version}") for version in _versions(store)}:
        store.fs.rm(path, recursive=True)


def mark_withdrawn(store: Store, version: str, why: str) -> None:
    """Say why the data of a release goes; from then on nobody publishes it."""
    store.write_bytes(f"releases/{version}/{WITHDRAWN}", json.dumps({"why": why}).encode())


def unmark_withdrawn(store: Store, version: str) -> None:
    """Take the mark back, before anything was deleted."""
    store.fs.rm_file(store.at(f"releases/{version}/{WITHDRAWN}"))


def still_published(store: Store, versions: list[str]) -> list[tuple[str, str]]:
    """(repository, revision) of publications of these versions, and of versions withdrawn earlier."""
    gone = {*versions, *_withdrawn(store)}
    return [(row.repo, row.revision) for row in publications(store) if row.version in gone]


def still_exported(store: Store, versions: list[str]) -> list[tuple[Exported, bool]]:
    """Exports of these versions and of versions withdrawn earlier (True), or only perhaps with the content (False).

    Perhaps: an export that has only some items of such a version, or whose release is not in the store any more.
    """
    gone, known_versions = {*versions, *_withdrawn(store)}, set(_known(store))
    rows = (row for row in exports(store) if row.version in gone or row.version not in known_versions)
    return [(row, row.version in gone and not row.part) for row in rows]


def perhaps_published(store: Store) -> list[tuple[str, str]]:
    """(repository, revision) of publications of versions that are not in the store any more."""
    known_versions = set(_known(store))
    return [(row.repo, row.revision) for row in publications(store) if row.version not in known_versions]


def _withdrawn(store: Store) -> Iterator[str]:
    return (version for version in _versions(store) if withdrawn_by(store, version) == TAKEDOWN)


def _known(store: Store) -> Iterator[str]:
    """Versions of which it is known whether they held what was taken down; not those that were not kept."""
    return (version for version in _versions(store) if withdrawn_by(store, version) in ("", TAKEDOWN))


def withdrawn_by(store: Store, version: str) -> str:
    """The reason for which the data of a release was removed, `takedown` or `retention`; empty when it was not."""
    content = store.read_bytes(f"releases/{version}/{WITHDRAWN}")
    return "" if content is None else str(json.loads(content)["why"])


def _versions(store: Store) -> Iterator[str]:
    for path in _folders(store):
        if store.fs.exists(f"{path}/{MANIFEST}"):
            yield path.rsplit("/", 1)[-1]


def _folders(store: Store) -> Iterator[str]:
    if store.fs.isdir(store.at("releases")):
        for path in store.fs.ls(store.at("releases"), detail=False, refresh=True):
            yield path.rstrip("/")


def _half_withdrawn(store: Store) -> Iterator[str]:
    for version in _versions(store):
        data = store.at(f"releases/{version}")
        is_withdrawn = store.fs.exists(f"{data}/{WITHDRAWN}")
        if is_withdrawn and any(not path.endswith((MANIFEST, WITHDRAWN)) for path in store.fs.find(data)):
            yield version


def _released_ids(store: Store) -> Iterator[pl.DataFrame]:
    """Version and id of the rows of releases that are not withdrawn, one file at a time, after an empty frame."""
    yield pl.DataFrame(schema={"version": pl.String, "id": pl.String})
    for version in _versions(store):
        data = store.at(f"releases/{version}")
        if store.fs.exists(f"{data}/{WITHDRAWN}"):
            continue
        for config, key in ROW_KEYS.items():
            for path in store.fs.glob(f"{data}/{config}/data/*.parquet"):
                ids = store.read_loose(path.removeprefix(f"{store.path}/"), [key])[key]
                yield pl.DataFrame({"version": version, "id": ids})


def forget_versions(store: Store) -> str:
    """Remove all earlier versions of a store's objects on S3, and its unfinished uploads.

    All are removed because it is unknown which of them contain what was taken down. Returns the reason why some could
    not be removed; empty on success and for stores elsewhere.
    """
    if "s3" not in store.fs.protocol:
        return ""
    bucket, _, prefix = store.path.partition("/")
    places = [f"{prefix}/{folder}/".lstrip("/") for folder in _FOLDERS]
    try:
        for place in places:
            _abort_uploads(store.fs, bucket, place)
        refused = [code for place in places for code in _forget_earlier(store.fs, bucket, place)]
    except Exception as error:  # every object store has its own errors
        error_code = getattr(error.__cause__, "response", {}).get("Error", {}).get("Code")
        return "" if error_code in _WITHOUT_VERSIONS else why_unreadable(error)
    return f"{len(refused):,} of them: {refused[0]}" if refused else ""


def _abort_uploads(fs: Any, bucket: str, prefix: str) -> None:
    """Abort unfinished uploads, one page of the listing at a time."""
    after: dict[str, str] = {}
    while True:
        page = fs.call_s3("list_multipart_uploads", Bucket=bucket, Prefix=prefix, **after)
        for upload in page.get("Uploads", []):
            fs.call_s3("abort_multipart_upload", Bucket=bucket, Key=upload["Key"], UploadId=upload["UploadId"])
        if not page.get("IsTruncated"):
            return
        after = {"KeyMarker": page["NextKeyMarker"], "UploadIdMarker": page["NextUploadIdMarker"]}


def _forget_earlier(fs: Any, bucket: str, prefix: str) -> Iterator[str]:
    """Remove noncurrent versions and delete markers, one page of the listing at a time.

    Yields the error codes of those that the server does not remove.
    """
    after: dict[str, str] = {}
    while True:
        page = fs.call_s3("list_object_versions", Bucket=bucket, Prefix=prefix, **after)
        earlier = [version for version in page.get("Versions", []) if not version["IsLatest"]]
        objects = [{"Key": e["Key"], "VersionId": e["VersionId"]} for e in [*earlier, *page.get("DeleteMarkers", [])]]
        if objects:
            done = fs.call_s3("delete_objects", Bucket=bucket, Delete={"Objects": objects, "Quiet": True})
            yield from (str(error["Code"]) for error in done.get("Errors", []))
        if not page.get("IsTruncated"):
            return
        after = {"KeyMarker": page["NextKeyMarker"], "VersionIdMarker": page["NextVersionIdMarker"]}
