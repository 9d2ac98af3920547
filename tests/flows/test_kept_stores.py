"""A store and a release of every minor version since 0.1 are migrated, run, verified and taken down on."""

import re
import shutil
import tarfile
import tomllib
from pathlib import Path

import pytest

from tasks.storage.keyed_ids import Tombstones, store_key
from tasks.storage.tables import Store
from tests.places import ROOT, contents

KEPT = ROOT / "tests" / "stores"
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
EARLIER = [f"0.{minor}" for minor in range(1, int(VERSION.split(".")[1]))]


@pytest.fixture(scope="module", params=EARLIER)
def unpacked(request, tmp_path_factory) -> Path:
    """The store of a version, with its logs; do not write to it."""
    folder = tmp_path_factory.mktemp("kept") / "store"
    with tarfile.open(KEPT / request.param / "store.tar.xz") as packed:
        packed.extractall(folder, filter="data")
    return folder


@pytest.fixture
def store(unpacked, tmp_path) -> Store:
    """A copy of it."""
    return Store(str(shutil.copytree(unpacked, tmp_path / "store")))


def test_a_release_of_every_minor_version_is_read_by_verify_diff_and_view(unpacked, curate, tmp_path):
    release = str(unpacked / "releases" / "1.0.0")
    before = contents(unpacked)
    code, out, _ = curate("verify", release)
    assert code == 0 and "is whole" in out
    assert curate("diff", release, release)[1].startswith("chat   added 0  removed 0  changed 0")
    assert curate("view", release, "--export", tmp_path / "pages")[0] == 0
    assert len(list((tmp_path / "pages").rglob("*.html"))) > 10
    added = contents(unpacked).keys() - before.keys()
    assert all(name.startswith(("exported/", "audit/", "secret/")) for name in added), added


def test_a_store_of_every_minor_version_is_migrated_run_and_taken_down_on(store, curate):
    said = {table: store.read(table) for table in ("reviews", "takedowns", "answers", "verdicts", "signals/tokens")}
    assert all(rows.height for rows in said.values())
    code, out, _ = curate("migrate", store.root, "--yes")
    assert code == 0 and _to_measure(out)["text_pii"] == store.height("signals/text_pii"), "it has another version now"
    code, _, err = curate("run", "--logs", store.at("logs"), "--store", store.root, "--release", "2.0.0")
    assert code == 0, err
    left = _to_measure(curate("migrate", store.root, "--dry-run")[1])
    assert left.keys() < _to_measure(out).keys() and left.get("text_pii", 0) <= 1, "but for what is in nothing any more"
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
