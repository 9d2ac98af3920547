"""Rows about a person go from every table, and from earlier versions of a bucket; rows about others stay."""

import hashlib
import io
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pyarrow.parquet as pq
import pytest
import s3fs

from schemas.benches.agreement import JudgeVote
from schemas.row import Held, Table
from schemas.tables import TABLES
from tasks.storage.parts import names_any
from tasks.storage.tables import Store, frame_schema
from tasks.takedown.releases import forget_versions
from tasks.takedown.take_down import finish, take_down
from tests.builders import NOON, image_bytes
from tests.s3_server import s3_client, s3_server
from tests.small_store import make_release, small_store
from tests.tasks.ingest.logs import DAY, chat, conv_id, ingested, write
from tests.tasks.takedown.conftest import ANN, LINES, OTHER, OWN

MADE_BY_INGEST = {
    *("sightings", "conversations", "battles", "reactions", "images", "image_files", "rejects", "quarantine"),
}
HASHES = "signals/image_hash"  # `fill` writes true ones, by which near copies are looked for
PLANTED = [
    name
    for name, table in TABLES.items()
    if name not in MADE_BY_INGEST and name != HASHES and (table.holds or table.mentions)
]
NOTHING = {pl.String: "", pl.Int32: 0, pl.Int64: 0, pl.Float32: 0.0, pl.Float64: 0.0, pl.Boolean: False}


def ids_of(store: Store, name: str, image_name: str) -> dict[Held, str]:
    """What a row about one conversation would hold, by kind."""
    told = store.read("conversations").filter(conversation_id=conv_id(name)).row(0, named=True)
    return {
        Held.CONVERSATION: conv_id(name),
        Held.CONTENT: told["document_id"],
        Held.IMAGE: told["image_ids"][0],
        Held.IMAGE_NAME: image_name,
        Held.USER: told["user_id"],
    }


def about(declared: Table, ids: dict[Held, str]) -> pl.DataFrame:
    """One row with these ids in its declared columns and nothing in the others."""
    columns = frame_schema(declared.row)
    held = {column: ids[kind] for column, kind in {**declared.holds, **declared.mentions}.items()}
    cells = {c: [[held[c]]] if columns[c] == pl.List(pl.String) else [held[c]] for c in held}
    return pl.DataFrame({c: cells.get(c, [NOTHING.get(columns[c])]) for c in columns}, schema=columns)


def left_of(store: Store, table: str, ids: dict[Held, str], *but: Held) -> pl.DataFrame:
    """Rows of a table that name one of the ids."""
    columns = [(c, k) for k in ids if k not in but for c in TABLES[table].named(k)]
    return store.read(table).filter(pl.any_horizontal([names_any(table, c, {ids[k]}) for c, k in columns]))


def listed(store: Store, arena: Path, tmp_path: Path) -> None:
    """The operator puts the image on a hash list."""
    hashes = tmp_path / "list.txt"
    hashes.write_text(f"sha256 {hashlib.sha256(image_bytes(0)).hexdigest()}")
    ingested(arena, Path(store.root), known_hashes=[str(hashes)])
    finish(store, NOON)


def flagged(store: Store, arena: Path, tmp_path: Path) -> None:
    """The server flags the image in a later line."""
    logs = tmp_path / "logs"
    write(logs, DAY, *LINES)
    write(logs, "vision-csam-2024-06-21-conv.json", chat("later", images=[OWN]))
    ingested(logs, Path(store.root), images=str(arena / "serve_images"))
    finish(store, NOON)


WAYS: dict[str, Callable[[Store, Path, Path], Any]] = {
    "takedown of a conversation": lambda store, *_: take_down(store, [conv_id("ann")], [], NOON, False),
    "takedown of an image": lambda store, *_: take_down(store, [OWN], [], NOON, False),
    "takedown of a user": lambda store, *_: take_down(store, [], [ANN], NOON, False),
    "hash list": listed,
    "late flag": flagged,
}


@pytest.mark.parametrize("way", WAYS)
def test_rows_about_it_are_gone_from_every_table_and_rows_about_others_stay(way, store, arena, tmp_path):
    hers, his = ids_of(store, "ann", OWN), ids_of(store, "bob2", OTHER)
    for table in PLANTED:
        declared = TABLES[table]
        store.append(table, pl.concat([about(declared, ids) for ids in (hers, his)]))
        assert left_of(store, table, hers).height and left_of(store, table, his).height, table
    WAYS[way](store, arena, tmp_path)
    still_hers = [] if way == "takedown of a user" else [Held.USER]  # she said more than this
    tables = (*PLANTED, HASHES, "conversations", "battles", "reactions", "images", "image_files")
    unseen = (
        {"drawings"} if way in ("takedown of a conversation", "takedown of a user") else set()
    )  # in no conversation
    asked = [table for table in tables if table not in unseen and TABLES[table].named(*hers.keys() - set(still_hers))]
    assert [table for table in asked if left_of(store, table, hers, *still_hers).height] == []
    voters = {"outlier_judges", "suspects"}  # he did not vote
    assert [table for table in PLANTED if table not in voters and not left_of(store, table, his).height] == []


def test_an_id_column_that_nobody_declared_does_not_import():
    with pytest.raises(TypeError, match="JudgeVote: say in `holds` or `mentions` what battle_id, conversation_b names"):
        Table(JudgeVote, ("battle_id",), {"conversation_a": Held.CONVERSATION})


STORE = "s3://versions/store"


@pytest.fixture(scope="module")
def server():
    with s3_server("versions") as own:
        yield own


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Store:
    """A store with a release."""
    store = small_store(tmp_path_factory.mktemp("made"))
    make_release(store, reported=True, release="1.0.0")
    return store


@pytest.fixture
def bucket(server, monkeypatch, made):
    """A bucket with versions, and the store in it: its client."""
    for name, value in server.items():
        monkeypatch.setenv(name, value)
    s3fs.S3FileSystem.clear_instance_cache()  # of the servers of other tests
    client = s3_client(server)
    client.put_bucket_versioning(Bucket="versions", VersioningConfiguration={"Status": "Enabled"})
    for path in (path for path in Path(made.root).rglob("*") if path.is_file()):
        client.put_object(Bucket="versions", Key=f"store/{path.relative_to(made.root)}", Body=path.read_bytes())
    yield client
    s3fs.S3FileSystem.clear_instance_cache()


def versions(client, prefix: str) -> list[dict]:
    pages = client.get_paginator("list_object_versions").paginate(Bucket="versions", Prefix=prefix)
    return [each for page in pages for each in (*page.get("Versions", []), *page.get("DeleteMarkers", []))]


def told(client, version: dict) -> str:
    """All that an object said."""
    got = client.get_object(Bucket="versions", Key=version["Key"], VersionId=version["VersionId"])["Body"].read()
    rows = pq.read_table(io.BytesIO(got)).to_pylist() if version["Key"].endswith(".parquet") else []
    return f"{rows}{got!r}"


def test_no_version_of_any_object_says_what_was_taken_down(curate, bucket):
    assert sum("'c03'" in told(bucket, each) for each in versions(bucket, "store/")) > 2
    for text in (b"one", b"two"):
        bucket.put_object(Bucket="versions", Key="elsewhere/tables/x", Body=text)
    upload = bucket.create_multipart_upload(Bucket="versions", Key="store/tables/conversations/cut-off.parquet")
    bucket.upload_part(
        Bucket="versions", Key=upload["Key"], UploadId=upload["UploadId"], PartNumber=1, Body=b"half a part"
    )
    code, out, err = curate("takedown", "--yes", "c03", "--store", STORE)
    assert (code, err) == (0, ""), out
    left = versions(bucket, "store/")
    assert {each["Key"] for each in left if "Size" in each and "'c03'" in told(bucket, each)} == set()
    assert all(each["IsLatest"] for each in left if each["Key"].startswith("store/tables/"))
    assert bucket.list_multipart_uploads(Bucket="versions").get("Uploads", []) == []
    assert len(versions(bucket, "elsewhere/")) == 2


class _ThreeAPage:
    """The far end of an object store with unfinished uploads, which lists three of them at a time, by key and id."""

    protocol = ("s3",)

    def __init__(self, count: int) -> None:
        self.unfinished = sorted((f"store/tables/x/{n // 2}", f"id{n}") for n in range(count))

    def call_s3(self, method: str, **named: Any) -> dict[str, Any]:
        if method == "abort_multipart_upload":
            self.unfinished.remove((named["Key"], named["UploadId"]))
        if method != "list_multipart_uploads" or not named["Prefix"].startswith("store/tables/"):
            return {}
        after = (named.get("KeyMarker", ""), named.get("UploadIdMarker", ""))
        later = [upload for upload in self.unfinished if upload > after]
        page = {"Uploads": [{"Key": key, "UploadId": upload_id} for key, upload_id in later[:3]]}
        if len(later) <= 3:
            return page
        return page | {"IsTruncated": True, "NextKeyMarker": later[2][0], "NextUploadIdMarker": later[2][1]}


@pytest.mark.parametrize("count", [0, 3, 4, 11])
def test_every_page_of_unfinished_uploads_is_aborted(count):
    far_end = _ThreeAPage(count)
    assert forget_versions(SimpleNamespace(fs=far_end, path="versions/store")) == ""
    assert far_end.unfinished == []


def test_a_bucket_that_may_not_be_asked_is_one_line_that_says_what_to_do(curate, bucket, monkeypatch):
    ask = s3fs.S3FileSystem.call_s3

    def denied(fs: s3fs.S3FileSystem, method: str, *arguments: object, **named: object) -> object:
        if method == "list_object_versions":
            raise PermissionError("Access Denied")
        return ask(fs, method, *arguments, **named)

    monkeypatch.setattr(s3fs.S3FileSystem, "call_s3", denied)
    code, out, err = curate("takedown", "--yes", "c05", "--store", STORE)
    assert (code, err.count("\n"), "  conversations" in out) == (2, 1, True)
    assert "may keep earlier versions of what went (access denied); allow s3:ListBucketVersions" in err
    assert os.environ["AWS_SECRET_ACCESS_KEY"] not in err
