"""A record of what is on the Hub is never lost, on a folder or on an object store, whoever else publishes or runs."""

import multiprocessing
import os
from pathlib import Path

import pytest

from schemas.errors import StoreUnwell
from schemas.publication import RepoUpload, UploadPlan
from tasks.publish.records import (
    forget,
    of_version,
    previous,
    publications,
    record_commits,
    record_publication,
    unfinished,
)
from tasks.storage.lock import remove_leftovers
from tasks.storage.tables import Store
from tests.builders import NOON
from tests.s3_server import s3_here

WRITERS, EACH = 3, 4
VERSION = "1.0.0"


def plan(*repos: str, version: str = VERSION, tag: str | None = VERSION) -> UploadPlan:
    uploads = [RepoUpload(repo=repo, files={}, sha256={}, size_bytes=0) for repo in repos]
    branch = "main" if tag else f"preview-{version}"
    return UploadPlan(version=version, uploads=uploads, branch=branch, tag=tag, public=False, manifest_sha256="")


@pytest.fixture(scope="module")
def bucket():
    """Address of a bucket; the environment points at its server."""
    with s3_here("records"):
        yield "s3://records"


@pytest.fixture(params=["folder", "object store"])
def root(request, tmp_path):
    """Address of a new store that another process can open as well."""
    if request.param == "folder":
        return str(tmp_path / "store")
    return f"{request.getfixturevalue('bucket')}/{tmp_path.name}"


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


def test_what_began_is_on_record_until_it_is_forgotten(root):
    store = Store.open(root)
    record_publication(store, plan("org/a", "org/b"), NOON)
    assert unfinished(store, plan("org/a", "org/b")) == {"org/a", "org/b"}
    record_commits(store, plan("org/a"), {"org/a": "c" * 40}, NOON)
    record_publication(store, plan("org/a"), NOON)
    assert unfinished(store, plan("org/a", "org/b")) == {"org/b"}
    assert forget(store, VERSION, "org/a")
    assert not forget(store, VERSION, "org/a")
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


def test_a_record_that_cannot_be_read_is_one_line_and_not_a_version_less(tmp_path):
    store = Store.open(str(tmp_path))
    record_publication(store, plan("org/a"), NOON)
    Path(tmp_path / "published/org/a/1.0.0.json").write_text("{}")
    with pytest.raises(StoreUnwell, match=r"'published/org/a/1\.0\.0\.json' cannot be read"):
        of_version(store, VERSION)


def test_half_a_record_of_a_killed_writer_is_none(tmp_path):
    store = Store.open(str(tmp_path))
    record_publication(store, plan("org/a"), NOON)
    Path(tmp_path / f"published/org/a/1.0.0.json.{os.getpid()}.tmp").write_text("{")
    assert [row.repo for row in publications(store)] == ["org/a"]
