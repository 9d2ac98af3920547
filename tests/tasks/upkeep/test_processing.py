"""The record of processing says what is kept, who receives it and who saw it, and tells nothing of anybody."""

import getpass
import re
from html import unescape
from pathlib import Path

import pytest

from schemas.publication import ExportKind
from schemas.row import Held
from schemas.tables import TABLES
from schemas.upkeep import Audited
from tasks.export.destination import record_export
from tasks.storage.records import add_audit_entry
from tasks.storage.tables import Store
from tests.builders import NOON
from tests.places import ROOT
from tests.small_store import HOSTILE_MODEL, USER, small_store


@pytest.fixture
def store(tmp_path) -> Store:
    """The small store, with actions in its audit log and a backup."""
    store = small_store(tmp_path)
    for number in (2, 3):
        add_audit_entry(store, Audited.LOOKED, {"conversations": number}, by="Erika")
    add_audit_entry(store, Audited.TOOK_DOWN, {"rows": 7})
    record_export(store, str(tmp_path / "backup"), ExportKind.BACKUP, "", False, NOON)
    (tmp_path / "curate.yaml").write_text("store: store\nretention: {keep_releases: 3, runs_days: 90}\n")
    return store


def _page(curate, store: Store, tmp_path: Path) -> str:
    code, _, err = curate("processing", store.root, "--out", str(tmp_path / "record.html"))
    assert code == 0 and "Traceback" not in err
    return unescape((tmp_path / "record.html").read_text("utf-8"))


def test_it_says_what_is_kept_how_long_and_who_saw_it(curate, store, tmp_path):
    page = _page(curate, store, tmp_path)
    cells = [cell.partition("</bdi>")[0] for cell in page.split("<td><bdi>")[1:]]
    for table, declared in TABLES.items():
        named = {*declared.holds.values(), *declared.mentions.values()} - {Held.PLACE, Held.WITHHELD}
        if named and store.height(table):
            assert cells[cells.index(table) + 2] == f"{store.height(table):,}"
    assert "the newest 3 and those that are or were on the Hub, or in use" in cells and "90 days" in cells
    assert "2 times: conversations 5" in cells and "looked" in cells
    took_down = cells.index("took down")
    assert cells[took_down - 1 : took_down + 2] == [getpass.getuser(), "took down", "1 times: rows 7"]
    assert "backup" in cells


def test_every_folder_of_a_store_has_a_row_and_so_have_the_logs_of_runs(curate, store, tmp_path):
    store.write_bytes("exports/1.0.0-visionarena/chat/data/train-00000-of-00001.parquet", b"")
    store.write_bytes("batches/one.json", b"{}")
    for number in (1, 2):
        store.write_bytes(f"reviews/waiting/{number}.json", b"{}")
    page = _page(curate, store, tmp_path)
    rows = [re.findall("<bdi>(.*?)</bdi>", row) for row in page.split("<tr>")]
    kept = {row[0]: row[1:] for row in rows if len(row) == 4}
    inside = (ROOT / "docs" / "concepts.md").read_text("utf-8").partition("## Inside a store")[2].partition("##")[0]
    folders = re.findall(r"(\w+/) {2,}", inside)
    assert len(folders) > 10 and not [folder for folder in folders if folder not in " ".join(kept).split()]
    assert [kept[f"store, {name}/"][1] for name in ("exports", "batches", "reviews")] == [
        "1 exports",
        "1 records",
        "2 verdicts",
    ]
    assert all(row[2] for row in kept.values()) and kept["log of the worker"][2].startswith("what keeps it decides")


def test_it_tells_no_id_no_text_no_place_and_nothing_of_a_log_steers_it(curate, store, tmp_path):
    page = _page(curate, store, tmp_path)
    assert USER not in page and str(tmp_path) not in page and HOSTILE_MODEL not in page
    ids = store.read("conversations", ["conversation_id"])["conversation_id"]
    assert not [each for each in ids if f">{each}<" in page]


def test_it_follows_the_store_and_replaces_an_earlier_page(curate, store, tmp_path):
    before = _page(curate, store, tmp_path)
    add_audit_entry(store, Audited.YANKED, {"repositories": 1}, "1.0.0 of a/b")
    after = _page(curate, store, tmp_path)
    assert ">yanked<" not in before and ">yanked<" in after


def test_no_store_is_one_line(curate, tmp_path):
    code, said, err = curate("processing", str(tmp_path / "none"), "--out", str(tmp_path / "record.html"))
    assert (code, said, err.count("\n")) == (2, "", 1) and not (tmp_path / "record.html").exists()


@pytest.mark.parametrize("place", ["none/record.html", ".", "store/tables/layout.json/record.html"])
def test_a_place_that_cannot_be_written_is_one_line(curate, store, tmp_path, place):
    code, said, err = curate("processing", store.root, "--out", str(tmp_path / place))
    assert (code, said, err.count("\n")) == (2, "", 1) and "cannot be written" in err
