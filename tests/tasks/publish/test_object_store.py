"""A release on S3-compatible storage goes to the Hub, is compared and is taken down as one in a folder."""

import json
from pathlib import Path

import pytest

from flows.commands.view import opened
from tasks.publish.push import Push
from tests.hub_server import LoopbackHub
from tests.looked_store import client
from tests.tasks.publish.conftest import REPO, STORE, upload
from tests.tasks.publish.test_publish import contents

FIRST, SECOND = f"{STORE}/releases/1.0.0", f"{STORE}/releases/1.1.0"


def objects(client, prefix: str) -> list[str]:
    pages = client.get_paginator("list_objects_v2").paginate(Bucket="published", Prefix=prefix)
    return [each["Key"] for page in pages for each in page.get("Contents", [])]


def test_what_is_published_is_what_lies_in_the_bucket(hub: LoopbackHub, curate, bucket, made: Path):
    code, out, err = curate("publish", FIRST, "--repo", REPO, "--yes")
    assert code == 0, err
    assert f"published {REPO} at 1.0.0" in out
    assert contents(made / "releases" / "1.0.0").items() <= hub.files(REPO, "1.0.0").items()
    code, _, err = curate("publish", FIRST, "--repo", REPO, "--yes")
    assert (code, "has version 1.0.0 already" in err) == (2, True)


def test_the_approval_shows_what_changed_since_the_version_that_the_bucket_remembers(hub, curate, bucket):
    assert curate("publish", FIRST, "--repo", REPO, "--yes")[0] == 0
    code, out, _ = curate("publish", SECOND, "--repo", REPO)
    assert code == 2  # nobody is there to ask
    assert "since version 1.0.0:" in out
    assert "chat removed 1" in out


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
    ("moment", "told"),
    [
        ("_make_repository", "take it back with: `curate yank 1.0.0 --repo org/arena`"),
        ("check", "was taken down; nothing more is published"),
    ],
)
def test_a_takedown_while_a_copy_of_the_bucket_is_sent_can_be_taken_back(
    hub, curate, bucket, made: Path, monkeypatch, moment, told
):
    upload(bucket, made, moment)
    store, heard, step = f"s3://published/{moment}", [], getattr(Push, moment)

    def meanwhile(push: Push):
        if not heard:
            heard.append(True)
            heard.append(curate("takedown", "--yes", "c03", "--store", store))
        return step(push)

    monkeypatch.setattr(Push, moment, meanwhile)
    code, out, err = curate("publish", f"{store}/releases/1.0.0", "--repo", REPO, "--yes")
    assert (code, "published" in out, told in err) == (2, False, True), err
    assert (REPO in hub.repos) == ("yank" in told)
    if REPO in hub.repos:
        assert hub.repos[REPO].tags == {}
        assert f"take it back with: curate yank 1.0.0 --repo {REPO}" in heard[1][1]
        assert curate("yank", "1.0.0", "--repo", REPO, "--store", store, "--yes")[0] == 0


def test_two_addresses_are_compared(curate, bucket):
    code, out, _ = curate("diff", FIRST, SECOND, "--store", STORE, "--json")
    assert code == 0
    *rows, found = [json.loads(line) for line in out.splitlines()]
    assert [(row["id"], row["config"], row["change"]) for row in rows] == [("c03", "chat", "removed")]
    assert found["rows"]["chat removed"] == 1


def test_a_store_in_the_bucket_is_looked_at_as_in_a_folder_and_its_export_is_on_record(
    curate, bucket, made: Path, tmp_path
):
    upload(bucket, made, "looked")
    store = "s3://published/looked"
    with opened(store, None) as (source, _), opened(str(made), None) as (local, _):
        ours, theirs = client(source), client(local)
        items = [row for row in source.listing.to_dicts() if row["image_ids"]][:3]
        pages = ["/", "/?q=picture", "/topics", "/boards", "/dropped", *(f"/items/{row['key']}" for row in items)]
        assert [ours.get(page).text for page in pages] == [theirs.get(page).text for page in pages]
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
