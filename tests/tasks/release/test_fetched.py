"""A release on S3-compatible storage is verified, compared, exported and refused as one in a folder."""

import os
import sys

import pytest
import s3fs

from flows.commands import main
from tests.s3_server import s3_client, s3_server

REMOTE = "s3://arena/store/releases/first"


@pytest.fixture(scope="module")
def bucket(release):
    """The release, uploaded."""
    with s3_server("arena") as own, pytest.MonkeyPatch.context() as patch:
        for name, value in (own | {"no_proxy": "127.0.0.1"}).items():
            patch.setenv(name, value)
        s3fs.S3FileSystem.clear_instance_cache()  # of the servers of other tests
        client = s3_client(os.environ)
        for path in (path for path in release.rglob("*") if path.is_file()):
            key = f"store/releases/first/{path.relative_to(release).as_posix()}"
            client.put_object(Bucket="arena", Key=key, Body=path.read_bytes())
        yield
        s3fs.S3FileSystem.clear_instance_cache()


@pytest.fixture
def curate(bucket, monkeypatch, capsys):
    """Run the command: (exit status, stdout, stderr)."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["curate", *map(str, arguments)])
        with pytest.raises(SystemExit) as stopped:
            main()
        return (int(stopped.value.code or 0), *capsys.readouterr())

    return run


def test_it_is_verified(curate):
    assert curate("verify", REMOTE) == (0, f"{REMOTE} is whole\n", "")


def test_it_differs_in_nothing_from_the_folder_it_was_copied_from(curate, release):
    code, out, _ = curate("diff", release, REMOTE)
    assert code == 0
    assert out.endswith("suggested version bump: none\n")


def test_it_is_exported_as_from_the_folder(curate, release, tmp_path):
    for place, out in ((release, "local"), (REMOTE, "remote")):
        assert curate("export", "dataset", place, "--out", tmp_path / out)[0] == 0
    one, other = (
        {p.relative_to(tmp_path / out): p.read_bytes() for p in (tmp_path / out).rglob("*.parquet")}
        for out in ("local", "remote")
    )
    assert one == other != {}


def test_what_must_not_be_published_is_refused_under_its_own_name(curate):
    code, _, err = curate("publish", REMOTE, "--repo", "org/arena", "--dry-run")
    assert code == 2
    assert err.startswith(f"curate: '{REMOTE}' was built with embedded stand-ins")


@pytest.mark.parametrize(
    "place", ["s3://arena/store/releases/none", "s3://nowhere/1.0.0", "nothing://x/1.0.0", "s3://arena"]
)
def test_an_address_without_a_release_is_one_clear_line(curate, place):
    code, out, err = curate("verify", place)
    assert (code, out) == (2, "")
    assert err.startswith(f"curate: '{place}' ")
    assert err.count("\n") == 1
