"""A bucket that keeps earlier versions keeps none of what was taken down."""

import io
import os
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import s3fs

from tasks.storage.tables import Store
from tests.s3_server import s3_client, s3_server
from tests.small_store import make_release, small_store

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
