"""Built releases go with what they hold; a killed takedown is finished by the next; nobody writes meanwhile."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import polars as pl
import pytest

from flows.commands.pipeline import export_released
from flows.products import problems_of
from schemas.errors import BadInput
from schemas.items.reject import Quarantined
from schemas.publication import Compat, ExportKind
from schemas.run import StageReport
from schemas.settings import Settings
from schemas.tables import TABLES
from tasks.export.destination import exports, record_export
from tasks.images.decode import open_image
from tasks.release.build import MANIFEST, WITHDRAWN
from tasks.storage.keyed_ids import UNFINISHED
from tasks.storage.queries.explain import removal_reasons
from tasks.storage.tables import Store, frame_of
from tasks.takedown.releases import still_exported, withdraw_known
from tasks.takedown.take_down import take_down
from tests.builders import NOON, image_bytes
from tests.chaos.commands import killed
from tests.disk_steps import Killed, Step, heard, killed_after
from tests.small_store import make_release, small_store
from tests.tasks.ingest.logs import conv_id
from tests.tasks.takedown.conftest import SECRET, everything, files_with, take, user_of

OWN_IMAGE, SHARED_IMAGE = open_image(image_bytes(0)), open_image(image_bytes(1))


def test_a_built_release_that_holds_it_is_withdrawn_and_its_version_stays_taken(store):
    folder = Path(store.root) / "releases" / "1.0.0"
    assert take(store, conv_id("ann")).releases == ["1.0.0"]
    assert sorted(path.name for path in folder.iterdir()) == ["manifest.json", "withdrawn.json"]
    with pytest.raises(BadInput, match="was withdrawn"):
        problems_of(folder)
    assert make_release(store).result != "releases/1.0.0"
    assert take(store, conv_id("ann")).releases == []


def test_a_release_without_it_stays_as_it_is(store):
    take(store, conv_id("ann"))
    made = Path(store.root) / make_release(store, release="2.0.0").result
    assert problems_of(made) == []
    assert take(store, conv_id("ann"), dry_run=True).releases == []
    assert take(store, conv_id("bob2")).releases == ["2.0.0"]


def test_a_difference_says_that_a_row_was_taken_down(store):
    ann, bob = (store.read("conversations").filter(conversation_id=conv_id(name)) for name in ("ann", "bob2"))
    take(store, conv_id("ann"))
    why = removal_reasons(store)
    ids = [ann["conversation_id"].item(), "f" * 32, bob["conversation_id"].item()]
    taken, unknown, kept = (why("chat", ids)[each] for each in ids)
    assert (taken, unknown) == (["taken down"], ["not in the store"])
    assert kept not in (taken, unknown)


def test_a_takedown_killed_anywhere_is_finished_without_naming_the_ids_again(store):
    undisturbed = Store(f"{store.root}-undisturbed")
    store.fs.put(store.root, undisturbed.root, recursive=True)
    take(undisturbed, user_of(store, "ann"))
    expected = {table: undisturbed.read(table).sort(pl.all()) for table in TABLES}
    user, number = user_of(store, "ann"), 0
    while True:
        own = Store(f"{store.root}-{number}")
        store.fs.put(store.root, own.root, recursive=True)
        try:
            with killed_after(number, own.path):
                take(own, user)
            break
        except Killed:
            begun = store.fs.exists(own.at("takedown/unfinished"))
            if begun:
                with pytest.raises(BadInput, match="a takedown was interrupted"):
                    make_release(own)
            take(own, *([] if begun else [user]))
            for table in TABLES:
                assert own.read(table).sort(pl.all()).equals(expected[table]), (number, table)
            assert files_with(own, SECRET, user) == [], number
        number += 1 if number < 4 else 101
    assert number > 100


def test_a_backup_forgets_by_the_tombstones_of_its_store(store):
    backup = Store(f"{store.root}-backup")
    store.fs.put(store.root, backup.root, recursive=True)
    take(store, user_of(store, "ann"))
    backup.replace("takedowns", store.read("takedowns"))
    backup.write_bytes(UNFINISHED, b"")
    take(backup)
    assert files_with(backup, SECRET) == []
    for table in TABLES:
        assert backup.read(table).sort(pl.all()).equals(store.read(table).sort(pl.all())), table


def test_a_release_that_was_copied_in_part_goes_too(store):
    half = Path(store.root) / "releases" / "2.0.0" / "chat" / "data" / "train-00000-of-00001.parquet"
    half.parent.mkdir(parents=True)
    half.write_bytes(SECRET.encode())
    take(store, conv_id("ann"))
    assert not half.exists()
    assert (Path(store.root) / "releases" / "1.0.0" / "manifest.json").exists()


def test_a_killed_writers_leftovers_go_too(store):
    leftover = Path(store.root) / "tables" / "conversations" / "0000.parquet.77.tmp"
    leftover.write_bytes(SECRET.encode())
    building = Path(store.root) / "releases" / ".building" / "chat.parquet"
    building.parent.mkdir()
    building.write_bytes(SECRET.encode())
    take(store, conv_id("ann"))
    assert not leftover.exists()
    assert not building.exists()


def held(store, key: str, cause: str) -> None:
    rows = [Quarantined(kind="conversation", key=key, cause=cause)]
    store.replace("quarantine", frame_of(Quarantined, rows))


def files(store) -> set[str]:
    return {path.rsplit("/releases/v1/", 1)[1] for path in store.fs.find(store.at("releases/v1"))}


@pytest.mark.parametrize("cause", ["known_hash", "flagged"])
def test_a_release_with_an_image_that_is_quarantined_by_now_keeps_only_its_manifest(tmp_path, cause):
    store = small_store(tmp_path)
    make_release(store, release="v1")
    held(store, "c03", cause)
    assert withdraw_known(store) == ["v1"]
    assert files(store) == {MANIFEST, WITHDRAWN}
    assert withdraw_known(store) == []


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
    # A folder that holds something is refused.
    record_export(store, str(tmp_path), ExportKind.PAGES, "2.0.0", False, NOON)
    record_export(store, str(tmp_path / "site"), ExportKind.PAGES, "2.0.0", False, NOON)
    record_export(store, "s3://bucket/sft/", ExportKind.SFT, "2.0.0", True, NOON)
    (tmp_path / "site").mkdir()
    assert [row.place for row in exports(store)] == ["s3://bucket/sft", str(tmp_path / "site")]
    assert still_exported(store, []) == []
    assert [certain for _, certain in still_exported(store, ["2.0.0"])] == [False, True]
    store.write_bytes("exported/0123456789abcdef.json", b"{")
    code, _, err = curate("takedown", "--store", store.root, conv_id("bob2"), "--dry-run")
    assert code != 0 and err.count("\n") == 1
    assert "'exported/0123456789abcdef.json' cannot be read, which says where an export is" in err


ROOT = Path(__file__).parents[3]
HOLD = """
import sys
from tasks.storage.lock import writing
with writing(sys.argv[1]):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def start():
    """Start a process that holds a store until its input ends."""
    started = []

    def run(root: str) -> subprocess.Popen[str]:
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        started.append(subprocess.Popen([sys.executable, "-c", HOLD, root], cwd=ROOT, text=True, **pipes))
        return started[-1]

    yield run
    for process in started:
        process.communicate()


@contextmanager
def said_at(place: str, start, store) -> Iterator[list[str]]:
    """What another process says that writes to the store at the first change of a file whose path begins so."""
    lines, begun = [], []

    def start_another(step: Step) -> None:
        if not begun and step.kind != "read" and step.path.startswith(place):
            begun.append(step)
            lines.append(start(store.root).communicate()[1])

    with heard(start_another):
        yield lines


def test_a_takedown_is_refused_while_another_process_writes_and_goes_through_when_it_has_ended(
    start, store, curate, refused
):
    other = start(store.root)
    assert other.stdout.readline() == "held\n"
    before = dict(everything(store))
    err = refused("takedown", "--yes", "--store", store.root, conv_id("ann"))
    assert "another run has been writing to store" in err
    assert dict(everything(store)) == before
    assert curate("takedown", "--yes", "--store", store.root, conv_id("ann"), "--dry-run")[0] == 0
    other.communicate()
    assert curate("takedown", "--yes", "--store", store.root, conv_id("ann"))[0] == 0
    assert files_with(store, conv_id("ann"), f"{SECRET} one") == []


def test_another_process_is_refused_while_a_takedown_is_under_way(start, store, curate):
    with said_at(store.at("takedown/"), start, store) as lines:
        assert curate("takedown", "--yes", "--store", store.root, conv_id("ann"))[0] == 0
    assert "StoreBusy: another run has been writing to store" in lines[0]


def test_a_release_is_exported_while_the_store_is_held(start, store):
    reports = [StageReport(stage="release", result="releases/1.0.0")]
    with said_at(store.at("exports/1.0.0-visionarena"), start, store) as lines:
        export_released(Settings(store=store.root), reports, Compat.VISIONARENA)
    assert "StoreBusy: another run has been writing to store" in lines[0]


@pytest.mark.parametrize("kind", ["review", "takedown", "migrate", "compact"])
def test_nothing_acknowledged_is_lost_by_a_kill(store, kind):
    times, acknowledged, lost = killed(kind, store, times=1, seed=1, seconds_max=0.3)
    assert acknowledged >= times and lost == set()
