"""`curate backup` brings nothing back that was taken down since; what retention removes, and what never."""

import json
import os
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from schemas.benches.bench import CaseReference
from schemas.errors import BadInput
from schemas.items.conversation import LogFileRead
from schemas.items.reject import Reject, RejectReason
from schemas.items.review import Review
from schemas.publication import Publication
from schemas.run import StageReport
from schemas.settings import RetentionSettings, Settings
from tasks.release.fetched import fetched, read_manifest
from tasks.storage.keyed_ids import KEY_VARIABLE, UNFINISHED
from tasks.storage.records import audit_entries
from tasks.storage.reviews import add_reviews, reviews_of
from tasks.storage.tables import Store, frame_of
from tasks.takedown.releases import still_exported
from tasks.upkeep.retention import RUNS_MIN, removable, remove
from tasks.upkeep.standing import waiting_questions
from tests.builders import NOON
from tests.disk_steps import full_at
from tests.s3_server import s3_here
from tests.small_store import small_store
from tests.tasks.ingest.logs import conv_id
from tests.tasks.takedown.conftest import SECRET, everything, files_with


@pytest.fixture
def folder(store, tmp_path, curate) -> Path:
    """A backup of the store."""
    assert curate("backup", tmp_path / "backup", "--store", store.root)[0] == 0
    return tmp_path / "backup"


def test_a_restored_store_is_the_store_and_proves_itself(store, folder, tmp_path, curate):
    before = dict(everything(store))
    code, out, err = curate("backup", folder, tmp_path / "new", "--store", store.root)
    assert code == 0, out + err
    assert f"release {tmp_path / 'new'}/releases/1.0.0 is whole" in out and "is whole, as it was at" in out
    after = dict(everything(Store(str(tmp_path / "new"))))
    assert {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)} == {
        "audit/00000002.json"  # says that it was restored
    }
    assert (folder / "secret").stat().st_mode & 0o077 == 0 and folder.stat().st_mode & 0o077 == 0


@pytest.fixture(params=["in folders", "in a bucket"])
def places(request, store, tmp_path) -> Iterator[tuple[Store, str, str]]:
    """A store, and where its backup and the restored store will be."""
    if request.param == "in folders":
        yield store, str(tmp_path / "backup"), str(tmp_path / "new")
        return
    with s3_here("arena"):
        bucket = Store("s3://arena/store")
        bucket.fs.put(f"{store.path}/", f"{bucket.path}/", recursive=True)
        yield bucket, "s3://arena/backup", "s3://arena/new"


def test_what_was_taken_down_since_does_not_come_back(places, curate):
    store, backup, restored = places
    assert curate("backup", backup, "--store", store.root)[0] == 0
    verdict = Review(conversation_id=conv_id("bob"), content_id="7" * 32, reasons=["y"], verdict="drop", reviewer="R")
    add_reviews(store, [verdict])
    code, out, _ = curate("takedown", "--yes", "--store", store.root, conv_id("ann"))
    assert code == 0 and "still in the backup until it is made again (curate backup); a restore takes it down" in out
    code, out, err = curate("backup", backup, restored, "--store", store.root)
    assert code == 0, out + err
    new = Store(restored)
    assert "conversations" in out and files_with(new, conv_id("ann"), f"{SECRET} one") == []
    assert new.read_bytes("releases/1.0.0/withdrawn.json") is not None
    assert new.read("takedowns").equals(store.read("takedowns")) and new.read_bytes(UNFINISHED) is None
    assert reviews_of(new).equals(reviews_of(store))  # what people said since is kept
    assert [each.what for each in audit_entries(new)] == ["backed_up", "took_down", "took_down", "restored"]


def test_a_reference_that_a_person_wrote_since_is_in_the_restored_store(store, folder, tmp_path, curate):
    written = CaseReference(document_id="d" * 32, conversation_id=conv_id("bob"), text="A bridge.", written_at=NOON)
    store.append("case_references", frame_of(CaseReference, [written]))
    assert curate("backup", folder, tmp_path / "new", "--store", store.root)[0] == 0
    assert "A bridge." in Store(str(tmp_path / "new")).read("case_references")["text"].to_list()


def test_questions_that_were_sent_in_a_batch_since_are_known_to_the_restored_store(store, folder, tmp_path, curate):
    store.write_bytes("batches/sent.json", b'{"service": "s", "names": ["q"]}')
    assert curate("backup", folder, tmp_path / "new", "--store", store.root)[0] == 0
    assert waiting_questions(Store(str(tmp_path / "new"))) == {"s": 1}, "their answers are paid for"


def test_a_backup_that_is_made_again_loses_what_was_taken_down(store, folder, curate):
    letter = f"{SECRET} one".encode()
    assert any(letter in file.read_bytes() for file in folder.rglob("*") if file.is_file())
    kept = {file.name: file.stat().st_mtime_ns for file in folder.rglob("*")}
    assert curate("takedown", "--yes", "--store", store.root, conv_id("ann"))[0] == 0
    assert curate("backup", folder, "--store", store.root)[0] == 0
    left = {file.name: file for file in folder.rglob("*") if file.is_file()}
    assert not any(letter in file.read_bytes() for file in left.values())
    same = [name for name, file in left.items() if kept.get(name) == file.stat().st_mtime_ns]
    assert len(same) > 20  # and is not written again as a whole


def test_a_store_that_is_lost_is_restored_only_when_somebody_says_that_nothing_was_taken_down(
    store, folder, tmp_path, curate, refused
):
    lost, new = str(tmp_path / "lost"), tmp_path / "new"
    Path(store.root).rename(tmp_path / "elsewhere")
    assert "is not known; give it as --store, or say --yes" in refused("backup", folder, new, "--store", lost)
    assert not new.exists()
    assert curate("backup", folder, new, "--store", lost, "--yes")[0] == 0


def test_what_cannot_be_used_is_one_line_and_changes_nothing(store, folder, tmp_path, refused, monkeypatch):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter.txt").write_text("dear")
    small_store(tmp_path / "other")
    other, new = str(tmp_path / "other" / "store"), tmp_path / "new"
    before = {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    assert "backup of another store" in refused("backup", folder, "--store", other)
    assert "holds no backup" in refused("backup", tmp_path / "full", "--store", store.root)
    assert "is not empty; give a new folder" in refused("backup", folder, tmp_path / "full", "--store", store.root)
    assert "holds no backup" in refused("backup", tmp_path / "empty", new, "--store", store.root)
    assert "backup of another store than" in refused("backup", folder, new, "--store", other)
    monkeypatch.setenv(KEY_VARIABLE, "another key than before")
    assert "user key differs" in refused("backup", folder, new, "--store", store.root)
    assert not new.exists() and {file: file.read_bytes() for file in before} == before


@pytest.mark.parametrize("name", ["notes.txt", "files/thesis.txt", "files/ab/letter", "secret/passwords"])
@pytest.mark.parametrize("is_new", [True, False], ids=["before the first backup", "beside a backup"])
def test_a_folder_with_files_of_somebody_is_refused(store, folder, tmp_path, refused, name, is_new):
    place = tmp_path / "theirs" if is_new else folder
    file = place / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("dear")
    assert "is not empty and holds no backup" in (line := refused("backup", place, "--store", store.root)) or (
        f"holds '{name}', which no backup wrote" in line
    )
    assert file.read_text() == "dear"


def test_a_backup_that_finds_no_room_leaves_the_earlier_one_whole(store, folder, tmp_path, refused, curate):
    store.append(
        "rejects", frame_of(Reject, [Reject(source="new", line=1, reason=RejectReason.BLANK_LINE, evidence="")])
    )
    with full_at(f"^{folder}/files/"):
        assert "has no room left" in refused("backup", folder, "--store", store.root)
    assert curate("backup", folder, tmp_path / "new", "--store", store.root)[0] == 0
    assert "new" not in Store(str(tmp_path / "new")).read("rejects")["source"]


def test_a_damaged_backup_and_a_damaged_store_are_told(store, folder, tmp_path, refused):
    (part,) = store.parts("battles")
    place = Path(store.at(f"tables/battles/{part}"))
    content = place.read_bytes()
    place.write_bytes(content[:-40] + b"x" + content[-39:])
    assert "a part of table 'battles' has other bytes" in refused("backup", tmp_path / "second", "--store", store.root)
    place.unlink()
    assert f"{part}' is lost" in refused("backup", tmp_path / "third", "--store", store.root)
    place.write_bytes(content)
    victim = next(file for file in sorted((folder / "files").rglob("*")) if file.is_file() and file.stat().st_size > 99)
    victim.write_bytes(b"?")
    assert "is damaged" in refused("backup", folder, tmp_path / "new", "--store", store.root)
    assert Store(str(tmp_path / "new")).read_bytes(UNFINISHED) is not None  # nothing is released from it


def test_a_store_whose_list_of_parts_is_lost_is_not_backed_up_as_if_the_table_were_empty(store, folder, refused):
    backup = (folder / "backup.json").read_bytes()
    Path(store.at("tables/battles/parts.json")).unlink()
    assert "table 'battles' has parts and no parts.json" in refused("backup", folder, "--store", store.root)
    assert (folder / "backup.json").read_bytes() == backup


def test_a_backup_beside_a_writing_run_is_of_one_moment(tmp_path, curate):
    """The writer stores lines before it notes their file as read, as ingest does, and replaces a table all the time."""
    root, ended = tmp_path / "store", threading.Event()
    writer = Store.open(str(root))

    def write() -> None:
        for number in range(1_000):
            row = Reject(source=f"f{number}", line=1, reason=RejectReason.BLANK_LINE, evidence="")
            writer.append("rejects", frame_of(Reject, [row]))
            read = LogFileRead(
                source=row.source,
                format="f",
                size_bytes=1,
                modified_ns=1,
                offset=1,
                lines=1,
                tail_lines=0,
                end_digest="",
            )
            writer.replace("log_files", frame_of(LogFileRead, [read]))
            if ended.wait(0.03):
                return

    thread = threading.Thread(target=write)
    thread.start()
    try:
        for _ in range(12):
            code, _, err = curate("backup", tmp_path / "backup", "--store", root)
            assert code == 0, err
    finally:
        ended.set()
        thread.join()
    assert curate("backup", tmp_path / "backup", tmp_path / "new", "--store", tmp_path / "lost", "--yes")[0] == 0
    new = Store(str(tmp_path / "new"))
    (noted,) = new.read("log_files")["source"]
    lines = set(new.read("rejects")["source"])
    assert len(lines) > 1 and noted in lines and int(noted[1:]) + 1 >= len(lines) - 1


NOW = datetime(2026, 11, 24, 3, tzinfo=UTC)
VERSIONS = ("1.0.0", "1.1.0", "1.2.0", "1.10.0")


@pytest.fixture
def years(store):
    """The store with four releases, the second one published, and a record of each night of two months; no verdicts."""
    for version in VERSIONS[1:]:
        store.fs.copy(store.at("releases/1.0.0"), store.at(f"releases/{version}"), recursive=True)
    about = {"public": True, "commit": "c", "published_at": NOW}
    published = Publication(repo="org/data", version="1.1.0", revision="1.1.0", **about)
    store.write_bytes("published/org/data/1.1.0.json", published.model_dump_json().encode())
    store.replace("verdicts", store.empty("verdicts"))  # some are on the first release, which they would keep
    store.fs.rm(store.at("runs"), recursive=True)
    for night in range(60):
        started = NOW - timedelta(days=60 - night)
        made = f"releases/{VERSIONS[night // 15]}"
        record = {
            "started_at": started.isoformat(),
            "finished_at": started.isoformat(),
            "state": "completed",
            "stages": [StageReport(stage="release", result=made).model_dump(mode="json")],
        }
        store.write_bytes(f"runs/{started:%Y%m%dT%H%M%S}Z.json", json.dumps(record).encode())
    store.write_bytes("canaries/tables/layout.json", b"{}")
    os.utime(store.at("canaries/tables/layout.json"), (NOW.timestamp() - 40 * 86400,) * 2)
    return store


def _kept(**keys) -> Settings:
    return Settings(store="", retention=RetentionSettings(**keys))


def test_nothing_goes_unasked_and_manifests_published_releases_and_what_people_wrote_stay(years):
    assert removable(years, _kept(), NOW).counts == {}
    found = removable(years, _kept(keep_releases=1, runs_days=7, probes_days=30), NOW)
    assert found.releases == ["1.0.0", "1.2.0"]  # the second is on the Hub, the last is the newest
    assert len(found.runs) == 60 - RUNS_MIN - 1 and found.probes  # one is the last that made the published release
    before = dict(everything(years))
    remove(years, found)
    left = dict(everything(years))
    gone = before.keys() - left.keys()
    assert {name.split("/")[0] for name in gone} == {"releases", "runs", "canaries"}
    assert {name for name in left if name.startswith("releases/1.0.0")} == {
        "releases/1.0.0/manifest.json",
        "releases/1.0.0/withdrawn.json",
    }
    assert not any(name.startswith(("releases/1.1.0", "releases/1.10.0")) for name in gone)
    assert removable(years, _kept(keep_releases=1, runs_days=7, probes_days=30), NOW).counts == {}
    (said,) = audit_entries(years)
    assert (said.what, said.counts) == ("removed", {"releases": 2, "run records": 29, "probes": 1})
    with fetched(f"{years.root}/releases/1.0.0") as folder, pytest.raises(BadInput, match="retention did not keep"):
        read_manifest(folder)


def test_of_a_release_that_was_not_kept_a_takedown_says_that_its_export_may_hold_it(years, curate, tmp_path):
    exported = tmp_path / "sft"
    assert curate("export", "sft", f"{years.root}/releases/1.0.0", "--out", exported)[0] == 0
    remove(years, removable(years, _kept(keep_releases=1), NOW))
    code, out, _ = curate("takedown", "--yes", "--store", years.root, conv_id("ann"))
    assert code == 0 and f"perhaps in an export of release 1.0.0 (training data), look there: {exported}" in out
    assert [certain for _, certain in still_exported(years, [])] == [False]
