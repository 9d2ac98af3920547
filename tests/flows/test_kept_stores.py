"""Releases since 0.1 are read. Stores since 0.2 are migrated, run, verified and taken down on."""

import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path

import pytest

from tasks.storage.keyed_ids import Tombstones, store_key
from tasks.storage.tables import Store
from tests.places import ROOT, contents
from tests.stores.make import make

KEPT = ROOT / "tests" / "stores"
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
EARLIER = [f"0.{minor}" for minor in range(1, int(VERSION.split(".")[1]))]
TODAY = "today"
"""Stands for the store of this checkout, as long as none of 0.2 is kept."""


def unpacked(version: str, folder: Path) -> Path:
    """The store of a version, with its logs, in a folder."""
    if version == TODAY:
        make(folder)
        return folder
    with tarfile.open(KEPT / version / "store.tar.xz") as packed:
        packed.extractall(folder, filter="data")
    return folder


@pytest.mark.parametrize("version", EARLIER)
def test_a_release_of_every_minor_version_is_read_by_verify_diff_and_view(version, curate, tmp_path):
    folder = unpacked(version, tmp_path / "store")
    release = str(folder / "releases" / "1.0.0")
    before = contents(folder)
    code, out, _ = curate("verify", release)
    assert code == 0 and "is whole" in out
    assert curate("diff", release, release)[1].startswith("chat   added 0  removed 0  changed 0")
    assert curate("view", release, "--export", tmp_path / "pages")[0] == 0
    assert len(list((tmp_path / "pages").rglob("*.html"))) > 10
    added = contents(folder).keys() - before.keys()
    assert all(name.startswith(("exported/", "audit/", "secret/")) for name in added), added


def test_the_store_of_0_1_is_refused_in_one_line_and_a_new_one_begins_with_its_takedowns(curate, tmp_path):
    folder, new = unpacked("0.1", tmp_path / "store"), tmp_path / "new"
    before = contents(folder)
    for command in (("migrate", folder, "--yes"), ("run", "--logs", folder / "logs", "--store", folder)):
        code, out, err = curate(*command)
        assert (code, out, err.count("\n")) == (2, "", 1) and "Make a new store of its logs" in err
    assert contents(folder) == before
    for kept in ("secret", "tables/takedowns"):
        shutil.copytree(folder / kept, new / kept)
    own = [sys.executable, "-c", "from flows.commands import main; main()", "ingest", "--store", str(new), "--logs"]
    done = subprocess.run([*own, str(folder / "logs")], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    left, gone = Store(str(new)), Store(str(folder)).read("takedowns")
    assert gone.height and left.read("takedowns").equals(gone)
    assert left.height("conversations") == Store(str(folder)).height("conversations"), "what was taken down stays gone"


@pytest.mark.parametrize("version", EARLIER[1:] or [TODAY])
def test_a_store_of_every_minor_version_is_migrated_run_and_taken_down_on(version, curate, tmp_path):
    store = Store(str(unpacked(version, tmp_path / "store")))
    said = {table: store.read(table) for table in ("reviews", "takedowns", "answers", "verdicts", "signals/tokens")}
    assert all(rows.height for rows in said.values())
    code, out, _ = curate("migrate", store.root, "--yes")
    assert code == 0
    code, _, err = curate("run", "--logs", store.at("logs"), "--store", store.root, "--release", "2.0.0")
    assert code == 0, err
    left = _to_measure(curate("migrate", store.root, "--dry-run")[1])
    assert left.keys() <= _to_measure(out).keys() and left.get("text_pii", 0) <= 1, "only what is in nothing any more"
    for table, rows in said.items():
        assert store.read(table).join(rows, on=rows.columns, how="semi", nulls_equal=True).height == rows.height, table
    assert curate("verify", store.at("releases/2.0.0"))[0] == 0
    (gone,) = store.read("bench", ["conversation_id"])["conversation_id"][:1]
    assert curate("takedown", gone, "--yes", "--store", store.root)[0] == 0
    assert Tombstones(Store(store.root), store_key(store)).conversations([gone]) == {gone}
    assert not list(Path(store.at("releases")).glob("*/chat")) and curate("doctor", "--store", store.root)[0] == 0


def _to_measure(printed: str) -> dict[str, int]:
    """Signal -> how many values `curate migrate` says are measured anew."""
    counted = re.findall(r"(\w+) (\d+)(?=[,)])", printed.partition("to be measured anew")[2])
    return {name: int(count) for name, count in counted}
