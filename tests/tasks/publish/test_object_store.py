"""A store on S3-compatible storage is published from as a folder is, and no record of what is on the Hub is lost."""

import json
import multiprocessing
import os
from contextlib import contextmanager
from pathlib import Path
from urllib.request import ProxyHandler, Request, build_opener

import boto3
import pytest
import s3fs

from flows.commands.pages import opened
from schemas.errors import StoreUnwell
from schemas.publication import RepoUpload, UploadPlan
from tasks.publish.records import (
    of_version,
    previous,
    publications,
    record_commits,
    record_publication,
    record_yank,
    unfinished,
)
from tasks.storage.lock import remove_leftovers
from tasks.storage.tables import Store
from tests.builders import NOON
from tests.cut_off import cut_off_at
from tests.looked_store import client
from tests.places import contents
from tests.s3_server import s3_here
from tests.tasks.publish.conftest import REPO, STORE, upload

FIRST, SECOND = f"{STORE}/releases/1.0.0", f"{STORE}/releases/1.1.0"


def objects(client, prefix: str) -> list[str]:
    pages = client.get_paginator("list_objects_v2").paginate(Bucket="published", Prefix=prefix)
    return [each["Key"] for page in pages for each in page.get("Contents", [])]


def test_a_shard_that_was_exchanged_in_the_bucket_is_refused(hub, curate, bucket, made: Path):
    upload(bucket, made / "releases" / "1.0.0", "exchanged/releases/1.0.0")
    shard = "chat/data/train-00000-of-00001.parquet"
    upload(bucket, (made / "releases" / "1.1.0" / shard).parent, f"exchanged/releases/1.0.0/{shard}".rpartition("/")[0])
    exchanged = "s3://published/exchanged/releases/1.0.0"
    code, _, err = curate("publish", exchanged, "--repo", REPO, "--yes")
    assert (code, hub.requests) == (2, [])
    assert err.startswith(f"curate: '{exchanged}' does not verify: {shard}: changed since the release was sealed")


def test_a_takedown_in_the_bucket_lists_what_is_on_the_hub_and_leaves_a_manifest(hub, curate, bucket, made: Path):
    upload(bucket, made, "taken")
    store = "s3://published/taken"
    first = f"{store}/releases/1.0.0"
    assert curate("publish", first, "--repo", REPO, "--yes")[0] == 0
    code, out, err = curate("takedown", "--yes", "c03", "--store", store)
    assert code == 0, err
    assert f"take it back with: curate yank 1.0.0 --repo {REPO} --store {store}\n" in out
    left = [name.rpartition("/")[2] for name in objects(bucket, "taken/releases/1.0.0/")]
    assert sorted(left) == ["manifest.json", "withdrawn.json"]
    assert curate("verify", f"{store}/releases/1.1.0")[0] == 0
    code, _, err = curate("publish", first, "--repo", "org/elsewhere", "--yes")
    assert (code, "was withdrawn" in err) == (2, True)
    assert curate("yank", "1.0.0", "--repo", REPO, "--store", store, "--yes")[0] == 0
    assert hub.repos[REPO].tags == {}
    assert "still on the Hub" not in curate("takedown", "--yes", "c03", "--store", store)[1]


@pytest.mark.parametrize(
    ("moment", "method", "path", "told"),
    [
        ("sending", "POST", "/repos/create", "take it back with: `curate yank 1.0.0 --repo org/arena`"),
        ("checking", "GET", f"/datasets/{REPO}", "was withdrawn; nothing more is published"),
    ],
)
def test_a_takedown_while_a_copy_of_the_bucket_is_sent_can_be_taken_back(
    hub, curate, bucket, made: Path, moment, method, path, told
):
    upload(bucket, made, moment)
    store, outputs = f"s3://published/{moment}", []
    hub.meanwhile(method, path, lambda: outputs.append(curate("takedown", "--yes", "c03", "--store", store)))
    code, out, err = curate("publish", f"{store}/releases/1.0.0", "--repo", REPO, "--yes")
    assert (code, "published" in out, told in err) == (2, False, True), err
    assert (REPO in hub.repos) == ("yank" in told)
    if REPO in hub.repos:
        assert hub.repos[REPO].tags == {}
        assert f"take it back with: curate yank 1.0.0 --repo {REPO}" in outputs[0][1]
        assert curate("yank", "1.0.0", "--repo", REPO, "--store", store, "--yes")[0] == 0


def test_a_store_in_the_bucket_is_looked_at_as_in_a_folder_and_its_export_is_on_record(
    curate, bucket, made: Path, tmp_path
):
    upload(bucket, made, "looked")
    store = "s3://published/looked"
    with opened(store, None) as (source, _), opened(str(made), None) as (local, _):
        ours, theirs = client(source), client(local)
        items = [row for row in source.listing.to_dicts() if row["image_ids"]][:3]
        pages = ["/", "/?q=picture", "/topics", "/boards", "/dropped", *(f"/items/{row['key']}" for row in items)]
        named = {"Store looked": f"Store {made.name}"}  # each by the last part of its address
        shown = [ours.get(page).text.replace(*next(iter(named.items()))) for page in pages]
        assert shown == [theirs.get(page).text for page in pages]
        small = f"/thumbs/{items[0]['image_ids'][0]}"
        assert ours.get(small).content == theirs.get(small).content != b""
        bucket.put_object(Bucket="published", Key="looked/takedown/unfinished", Body=b"")
        assert [visitor.get(pages[-1]).status_code for visitor in (ours, theirs)] == [410, 200]
        bucket.delete_object(Bucket="published", Key="looked/takedown/unfinished")
    with opened(f"{store}/releases/1.0.0", None) as (source, _):
        assert "What is in picture" in client(source).get("/").text
    assert curate("view", f"{store}/releases/1.0.0", "--export", tmp_path / "site")[0] == 0
    assert len(objects(bucket, "looked/exported/")) == 1
    code, out, _ = curate("takedown", "c03", "--store", store, "--dry-run")
    assert (
        code == 0 and f"still in an export of release 1.0.0 (static pages), to be deleted: {tmp_path}/site on " in out
    )


PUBLISH = ("publish", FIRST, "--repo", REPO, "--yes")
YANK = ("yank", "1.0.0", "--repo", REPO, "--store", STORE, "--yes")
RECORD = f"store/published/{REPO}/1.0.0.json"


@pytest.fixture
def s3(bucket):
    """A client of the bucket, whose store says of nothing that it is on the Hub."""
    bucket.delete_object(Bucket="published", Key=RECORD)
    return bucket


@contextmanager
def cut_off_on(request: bytes):
    """The way to the bucket ends for good with such a request, until the block ends."""
    port = int(os.environ["AWS_ENDPOINT_URL"].rpartition(":")[2])
    with cut_off_at(port, request) as way, pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{way}")
        s3fs.S3FileSystem.clear_instance_cache()
        try:
            yield
        finally:
            s3fs.S3FileSystem.clear_instance_cache()


def reader() -> dict[str, str]:
    """A key that may read and not write."""
    rule = {"Effect": "Allow", "Action": ["s3:GetObject", "s3:ListBucket"], "Resource": "*"}
    iam = boto3.client("iam", endpoint_url=os.environ["AWS_ENDPOINT_URL"])
    iam.create_user(UserName="reader")
    document = json.dumps({"Version": "2012-10-17", "Statement": [rule]})
    iam.put_user_policy(UserName="reader", PolicyName="reads", PolicyDocument=document)
    made = iam.create_access_key(UserName="reader")["AccessKey"]
    return {"AWS_ACCESS_KEY_ID": made["AccessKeyId"], "AWS_SECRET_ACCESS_KEY": made["SecretAccessKey"]}


@contextmanager
def with_key(key: dict[str, str]):
    """The server looks at keys, and this is ours, until the block ends."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in key.items():
            patch.setenv(name, value)
        s3fs.S3FileSystem.clear_instance_cache()
        look_at_keys(after=0)
        try:
            yield
        finally:
            look_at_keys(after=float("inf"))
            s3fs.S3FileSystem.clear_instance_cache()


def look_at_keys(after: float) -> None:
    """The server looks at keys after so many requests more."""
    request = Request(
        f"{os.environ['AWS_ENDPOINT_URL']}/moto-api/reset-auth", str(after).encode(), {"content-type": "text/plain"}
    )
    with build_opener(ProxyHandler({})).open(request) as answer:
        assert answer.status == 200


def told(curate, command, what: str) -> None:
    """The command ends with one line that says this."""
    code, _, err = curate(*command)
    assert (code, err.count("\n")) == (2, 1), err
    assert what in err


def completes(hub, curate, made) -> None:
    """The same command again puts the version on the Hub, and once more is refused; yank takes it back."""
    code, out, err = curate(*PUBLISH)
    assert (code, err) == (0, "")
    assert f"published {REPO} at 1.0.0" in out
    assert contents(made / "releases" / "1.0.0").items() <= hub.files(REPO, "1.0.0").items()
    assert hub.repos[REPO].messages.count("Version 1.0.0") == 1
    told(curate, PUBLISH, "has version 1.0.0 already")
    assert curate(*YANK)[0] == 0
    told(curate, YANK, "has no version '1.0.0'; it has none")


def test_a_store_that_is_lost_before_anything_is_sent_leaves_the_hub_as_it_was(hub, curate, s3, made):
    with cut_off_on(b"GET /published?list-type=2&prefix=store%2Fpublished"):
        told(curate, PUBLISH, f"store '{STORE}' cannot be reached (nothing answers at its address)")
    assert (hub.repos, hub.writes()) == ({}, [])
    completes(hub, curate, made)


def test_a_store_that_is_lost_while_files_are_sent_leaves_the_whole_version_and_a_record(hub, curate, s3, made):
    """An attempt before has begun the record, so its end is what cannot be written."""
    hub.fail("POST", "/tag/", 403)
    told(curate, PUBLISH, "403")
    with cut_off_on(b"PUT /published/store/published/"):
        told(curate, PUBLISH, f"store '{STORE}' cannot be written to (nothing answers at its address)")
    assert hub.repos[REPO].tags.keys() == {"1.0.0"}
    assert json.loads(s3.get_object(Bucket="published", Key=RECORD)["Body"].read())["repo"] == REPO
    completes(hub, curate, made)


def test_a_wrong_key_is_told_and_changes_nothing(hub, curate, s3, made):
    with with_key({"AWS_ACCESS_KEY_ID": "unknown", "AWS_SECRET_ACCESS_KEY": "wrong"}):
        told(curate, PUBLISH, f"'{FIRST}' cannot be read (access denied); check the address and the credentials")
        told(curate, YANK, f"store '{STORE}' cannot be read (access denied)")
    assert hub.writes() == []
    completes(hub, curate, made)


def test_a_key_that_may_only_read_publishes_nothing_and_loses_no_record(hub, curate, s3, made):
    key = reader()
    with with_key(key):
        told(curate, PUBLISH, f"store '{STORE}' cannot be written to (access denied)")
        assert hub.writes() == []
    assert curate(*PUBLISH)[0] == 0
    with with_key(key):
        code, out, err = curate(*YANK)
    assert (code, err.count("\n")) == (2, 1)
    assert f"{REPO} has no version 1.0.0 any more" in out
    assert "cannot be written to (access denied)" in err
    assert "the store's record says so now" in curate(*YANK)[1]


def test_a_version_on_the_hub_that_no_record_knows_is_put_on_record(hub, curate, s3):
    """As when a store was made anew, or a copy elsewhere was published."""
    assert curate(*PUBLISH)[0] == 0
    s3.delete_object(Bucket="published", Key=RECORD)
    sent = hub.writes()
    assert curate(*PUBLISH)[0] == 0
    assert hub.writes() == sent
    told(curate, PUBLISH, "has version 1.0.0 already")


WRITERS, EACH = 2, 4
VERSION = "1.0.0"


def plan(*repos: str, version: str = VERSION, tag: str | None = VERSION) -> UploadPlan:
    uploads = [RepoUpload(repo=repo, files={}, sha256={}, size_bytes=0) for repo in repos]
    branch = "main" if tag else f"preview-{version}"
    return UploadPlan(version=version, uploads=uploads, branch=branch, tag=tag, public=False, manifest_sha256="")


@pytest.fixture(scope="module")
def of_records():
    """Address of a bucket; the environment points at its server."""
    with s3_here("records"):
        yield "s3://records"


@pytest.fixture(params=["folder", "object store"])
def root(request, tmp_path):
    """Address of a new store that another process can open as well."""
    if request.param == "folder":
        return str(tmp_path / "store")
    return f"{request.getfixturevalue('of_records')}/{tmp_path.name}"


def publish_many(root: str, number: int, start) -> None:
    """One of those who publish at once: into repositories of its own, and into one that is everybody's."""
    store = Store.open(root)
    start.wait()
    for n in range(EACH):
        for of in (plan(f"org/a{number}-{n}"), plan("org/shared")):
            record_publication(store, of, NOON)
            record_commits(store, of, {upload.repo: "c" * 40 for upload in of.uploads}, NOON)


def test_of_those_who_publish_at_once_nobody_loses_a_record(root):
    context = multiprocessing.get_context("spawn")
    start = context.Barrier(WRITERS)
    writers = [context.Process(target=publish_many, args=(root, number, start)) for number in range(WRITERS)]
    for each in writers:
        each.start()
    for each in writers:
        each.join()
    assert [each.exitcode for each in writers] == [0] * WRITERS
    own = {f"org/a{number}-{n}" for number in range(WRITERS) for n in range(EACH)}
    found = list(publications(Store(root)))
    assert sorted(row.repo for row in found) == sorted([*own, "org/shared"])
    assert {row.commit for row in found} == {"c" * 40}


def test_what_began_is_on_record_until_it_is_taken_back(root):
    store = Store.open(root)
    record_publication(store, plan("org/a", "org/b"), NOON)
    assert unfinished(store, plan("org/a", "org/b")) == {"org/a", "org/b"}
    record_commits(store, plan("org/a"), {"org/a": "c" * 40}, NOON)
    record_publication(store, plan("org/a"), NOON)
    assert unfinished(store, plan("org/a", "org/b")) == {"org/b"}
    assert record_yank(store, VERSION, "org/a", NOON)
    assert not record_yank(store, VERSION, "org/a", NOON)
    assert [row.repo for row in of_version(store, VERSION)] == ["org/b"]
    assert previous(store, ["org/b"], "2.0.0") == VERSION
    assert previous(store, ["org/b"], VERSION) is None


def test_a_preview_and_its_version_are_two_records(root):
    store = Store.open(root)
    record_commits(store, plan("org/a"), {"org/a": "1" * 40}, NOON)
    record_commits(store, plan("org/a", tag=None), {"org/a": "2" * 40}, NOON)
    assert {(row.revision, row.commit) for row in of_version(store, VERSION)} == {
        (VERSION, "1" * 40),
        (f"preview-{VERSION}", "2" * 40),
    }


def test_a_run_that_tidies_the_store_leaves_the_records(root):
    store = Store.open(root)
    record_publication(store, plan("org/a"), NOON)
    remove_leftovers(store)
    assert [row.repo for row in publications(store)] == ["org/a"]


def test_records_stay_when_a_run_tidies_and_half_of_one_is_none(tmp_path):
    store = Store.open(str(tmp_path))
    record_publication(store, plan("org/a"), NOON)
    Path(tmp_path / f"published/org/a/1.0.0.json.{os.getpid()}.tmp").write_text("{")
    assert [row.repo for row in publications(store)] == ["org/a"]
    store = Store.open(str(tmp_path))
    record_publication(store, plan("org/a"), NOON)
    Path(tmp_path / "published/org/a/1.0.0.json").write_text("{}")
    with pytest.raises(StoreUnwell, match=r"'published/org/a/1\.0\.0\.json' cannot be read"):
        of_version(store, VERSION)
