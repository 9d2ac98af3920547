"""A release on S3-compatible storage is verified, compared, exported and refused as one in a folder."""

import os
import re

import pytest
import s3fs

from tests.places import contents
from tests.s3_server import s3_client, s3_here

REMOTE = "s3://arena/store/releases/first"

pytestmark = pytest.mark.usefixtures("bucket")


@pytest.fixture(scope="module")
def bucket(release):
    """The release, uploaded."""
    with s3_here("arena"):
        client = s3_client(os.environ)
        for path in (path for path in release.rglob("*") if path.is_file()):
            key = f"store/releases/first/{path.relative_to(release).as_posix()}"
            client.put_object(Bucket="arena", Key=key, Body=path.read_bytes())
        yield


def test_it_is_verified_compared_and_rated_as_the_folder_and_what_is_none_is_refused(curate, release):
    code, out, err = curate("verify", REMOTE)
    assert (code, err) == (0, "")
    assert re.fullmatch(rf"{re.escape(REMOTE)} is whole; its manifest is [0-9a-f]{{12}}\n", out)
    code, out, _ = curate("diff", release, REMOTE)
    assert code == 0
    assert out.endswith("suggested version bump: none\n")
    boards = [curate("rate", place, "--json") for place in (release, REMOTE)]
    assert boards[0] == boards[1] and boards[0][0] == 0 and boards[0][1].count("\n") >= 2
    code, _, err = curate("rate", "s3://arena/votes.csv")
    assert (code, "'s3://arena/votes.csv' is not a release" in err) == (2, True), err


def test_it_is_exported_as_from_the_folder(curate, release, tmp_path):
    for place, out in ((release, "local"), (REMOTE, "remote")):
        assert curate("export", "dataset", place, "--out", tmp_path / out)[0] == 0
    one, other = (
        {p.relative_to(tmp_path / out): p.read_bytes() for p in (tmp_path / out).rglob("*.parquet")}
        for out in ("local", "remote")
    )
    assert one == other != {}


@pytest.mark.parametrize("what", [("sft", "--example-format", "llava"), ("dataset",)])
def test_an_export_goes_to_a_bucket_as_to_a_folder_and_never_over_another(curate, release, tmp_path, what):
    kind, *options = what
    address, local = f"s3://arena/exports/{kind}", tmp_path / kind
    for out in (local, address):
        assert curate("export", kind, release, "--out", out, *options)[0] == 0
    there = s3fs.S3FileSystem().find(f"arena/exports/{kind}")
    read = {path.removeprefix(f"arena/exports/{kind}/"): s3fs.S3FileSystem().cat_file(path) for path in there}
    assert read == contents(local) != {}
    code, _, err = curate("export", kind, release, "--out", address, *options)
    assert (code, err) == (2, f"curate: '{address}' exists already; give a folder that does not\n")


def test_what_cannot_be_exported_or_must_not_be_published_is_one_line_under_its_own_name(curate, refused, release):
    err = refused("export", "sft", release, "--out", "nothing://bucket/sft")
    assert err.startswith("curate: --out 'nothing://bucket/sft' cannot be written")
    code, _, err = curate("publish", REMOTE, "--repo", "org/arena", "--dry-run")
    assert code == 2
    assert err.startswith(f"curate: '{REMOTE}' was built with embedded stand-ins")


@pytest.mark.parametrize(
    "place", ["s3://arena/store/releases/none", "s3://nowhere/1.0.0", "nothing://x/1.0.0", "s3://arena"]
)
def test_an_address_without_a_release_is_one_clear_line(refused, place):
    assert refused("verify", place).startswith(f"curate: '{place}' ")
