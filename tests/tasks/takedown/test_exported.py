"""A takedown names the exports outside of the store that hold what went, or may hold it."""

import shutil
from pathlib import Path

import pytest

from schemas.publication import ExportKind
from tasks.export.records import begin, exports
from tasks.takedown.releases import still_exported
from tasks.takedown.take_down import take_down
from tests.builders import NOON
from tests.small_store import make_release
from tests.tasks.ingest.logs import conv_id


@pytest.fixture
def exported(curate, store, tmp_path):
    """Folder of each export of the store's release, by what it is; one was refused."""
    release = f"{store.root}/releases/1.0.0"
    made = {name: tmp_path / name for name in ("whole", "sample", "columns", "copied", "refused")}
    shutil.copytree(release, tmp_path / "copy")
    (made["refused"] / "mine").mkdir(parents=True)
    view = {"whole": [release], "sample": [release, "--rows-max", "1"], "copied": [tmp_path / "copy"]}
    for name, arguments in view.items():
        assert curate("view", *arguments, "--export", made[name])[0] == 0
    assert curate("export", "dataset", release, "--out", made["columns"])[0] == 0
    assert curate("view", release, "--export", made["refused"])[0] == 2
    return made


def _told(out: str) -> dict[str, str]:
    """Folder -> how sure the takedown is."""
    lines = [line for line in out.splitlines() if " in an export of release 1.0.0 (" in line]
    return {Path(line.rpartition(": ")[2].partition(" on ")[0]).name: line.partition(" in an ")[0] for line in lines}


def test_a_takedown_names_the_exports_that_hold_it_until_they_are_deleted(curate, store, exported):
    takedown = ("takedown", "--store", store.root, conv_id("ann"))
    expected = {"whole": "still", "sample": "perhaps", "columns": "perhaps"}
    _, out, _ = curate(*takedown, "--dry-run")
    assert _told(out) == expected
    assert "(static pages), to be deleted: " in out and "(columns of a published dataset), look there: " in out
    shutil.rmtree(exported["sample"])
    code, out, _ = curate(*takedown, "--yes")  # the release is withdrawn now, and the exports are still there
    assert (code, _told(out)) == (0, {"whole": "still", "columns": "perhaps"})
    (moved,) = (line for line in out.splitlines() if "not found there" in line)
    assert f"was recorded at {exported['sample']}" in moved
    Path(moved.rpartition(", then ")[2]).unlink()  # it was deleted, and so is its record
    assert "not found there" not in curate(*takedown, "--dry-run")[1]
    assert _told(curate(*takedown, "--yes")[1]) == {"whole": "still", "columns": "perhaps"}
    assert not {"copied", "refused", "sample"} & {Path(row.place).name for row in exports(store)}


def test_a_release_without_it_names_none_and_a_broken_record_is_one_line(curate, store, tmp_path):
    take_down(store, [conv_id("ann")], [], NOON, dry_run=False)
    make_release(store, release="2.0.0")
    begin(store, str(tmp_path), ExportKind.PAGES, "2.0.0", False, NOON)  # a folder that holds something is refused
    begin(store, str(tmp_path / "site"), ExportKind.PAGES, "2.0.0", False, NOON)
    begin(store, "s3://bucket/sft/", ExportKind.SFT, "2.0.0", True, NOON)
    (tmp_path / "site").mkdir()
    assert [row.place for row in exports(store)] == ["s3://bucket/sft", str(tmp_path / "site")]
    assert still_exported(store, []) == []
    assert [certain for _, certain in still_exported(store, ["2.0.0"])] == [False, True]
    store.write_bytes("exported/0123456789abcdef.json", b"{")
    code, _, err = curate("takedown", "--store", store.root, conv_id("bob2"), "--dry-run")
    assert code != 0 and err.count("\n") == 1
    assert "'exported/0123456789abcdef.json' cannot be read, which says where an export is" in err
