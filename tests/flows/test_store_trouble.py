"""An object store that refuses or is lost, and a full disk, are one clear line, and the next run goes on."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager

import polars as pl
import pytest
import s3fs

from flows.running.checked_flow import one_writer
from schemas.errors import StoreUnwell
from schemas.layout import LAYOUT, StoreLayout
from schemas.run import StageReport
from schemas.settings import Settings
from tasks.storage.lock import Terms
from tasks.storage.queries.signals import on_disk
from tasks.storage.tables import Store
from tests.cut_off import cut_off_at, room_for
from tests.http_server import Serving
from tests.older_store import make_older
from tests.places import ROOT
from tests.s3_server import s3_client, s3_here, s3_server
from tests.small_store import small_store
from tests.tasks.ingest.logs import DAY, chat, write

SECRET, KEY_ID = "the secret access key", "AKIAOFATEST"
STORE = "s3://arena/store"
RELEASE = f"{STORE}/releases/1.0.0"
COMMANDS = {
    "run": ("run", "--logs", "{logs}", "--store", STORE), "release": ("release", "--store", STORE),
    "takedown": ("takedown", "--yes", "--store", STORE, "someid"), "explain": ("explain", "someid", "--store", STORE),
    "migrate": ("migrate", "--yes", STORE), "verify": ("verify", RELEASE), "diff": ("diff", RELEASE, RELEASE),
    "export": ("export", "dataset", RELEASE, "--out", "{logs}/out"),
}  # fmt: skip


class _Denies(Serving):
    """What S3 says to a wrong key; its text repeats the key's id."""

    methods = ("GET", "HEAD", "PUT", "POST", "DELETE")

    def respond(self, handler) -> None:
        handler.rfile.read(int(handler.headers.get("content-length") or 0))
        code, text = "InvalidAccessKeyId", f"{KEY_ID} does not exist in our records"
        self.send(handler, f"<Error><Code>{code}</Code><Message>{text}</Message></Error>".encode(), 403)


@pytest.fixture(scope="module")
def denying():
    """The address of a server that denies everything."""
    with closing(_Denies()) as server:
        yield server.url


@pytest.fixture(scope="module")
def bucket():
    """A moto server with one bucket: its environment."""
    with s3_server("another") as own:
        yield own


@pytest.fixture
def arguments(monkeypatch, tmp_path):
    """The arguments of a command, with logs that can be read; the environment has credentials."""
    write(tmp_path / "logs", DAY, chat("ann", "Where?", "At sea."))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY_ID)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("HOME", str(tmp_path))
    s3fs.S3FileSystem.clear_instance_cache()  # of the servers of other tests
    yield lambda command: [each.format(logs=tmp_path / "logs") for each in COMMANDS[command]]
    s3fs.S3FileSystem.clear_instance_cache()


def _refused(curate, arguments) -> str:
    code, out, err = curate(*arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert SECRET not in err and KEY_ID not in err
    return err


@pytest.mark.parametrize("command", COMMANDS)
def test_a_wrong_key_is_one_line(curate, arguments, denying, monkeypatch, command):
    monkeypatch.setenv("AWS_ENDPOINT_URL", denying)
    assert "(access denied)" in _refused(curate, arguments(command))


@pytest.mark.parametrize("command", COMMANDS)
def test_no_credentials_are_one_line(curate, arguments, denying, monkeypatch, command):
    monkeypatch.setenv("AWS_ENDPOINT_URL", denying)
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    assert "(no credentials in the environment)" in _refused(curate, arguments(command))


@pytest.mark.parametrize("command", COMMANDS)
def test_a_bucket_that_does_not_exist_is_one_line_and_is_not_made(curate, arguments, bucket, monkeypatch, command):
    monkeypatch.setenv("AWS_ENDPOINT_URL", bucket["AWS_ENDPOINT_URL"])
    said = {"run": "(no such bucket)", "verify": "is not a release", "diff": "is not a release"}
    assert said.get(command, "is not a") in _refused(curate, arguments(command))
    names = {each["Name"] for each in s3_client(bucket).list_buckets()["Buckets"]}
    assert names == {"another"}


def test_a_store_that_is_lost_while_a_command_reads_it_is_one_line(curate, arguments, bucket, monkeypatch):
    client = s3_client(bucket)
    client.put_object(Bucket="another", Key="store/tables/decisions/parts.json", Body=b"[]")
    said = StoreLayout(layout=LAYOUT, written_by=[]).model_dump_json().encode()
    client.put_object(Bucket="another", Key="store/tables/layout.json", Body=said)
    port = int(bucket["AWS_ENDPOINT_URL"].rpartition(":")[2])
    with cut_off_at(port, b"GET /another/store/tables/decisions") as cut:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{cut}")
        line = _refused(curate, ["review", "out", "held", "--store", "s3://another/store"])
    assert "the object store cannot be reached any more (nothing answers at its address)" in line


KILL = """
import os, signal, sys
from flows.commands import main
from tasks.storage.tables import Store
Store.purge = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
main()
"""


@pytest.fixture
def older(bucket, tmp_path, monkeypatch, arguments) -> Store:
    """A store as an earlier version left it, in the bucket; the environment is that of its server."""
    for name, value in bucket.items():
        monkeypatch.setenv(name, value)
    s3fs.S3FileSystem.clear_instance_cache()
    local, store = make_older(small_store(tmp_path)), Store(f"s3://another/{tmp_path.name}")
    store.fs.put(local.path, store.path, recursive=True)
    store.any_layout = True
    return store


def test_a_migration_in_a_bucket_is_killed_goes_on_and_stops_when_another_run_took_it_over(
    older, bucket, curate, monkeypatch
):
    rows = {table: older.read(table) for table in ("battles", "conversations", "redacted_conversations", "ratings")}
    bring_on = ("migrate", older.root, "--yes")
    killed = subprocess.run([sys.executable, "-c", KILL, *bring_on], cwd=ROOT, capture_output=True)
    assert killed.returncode == -signal.SIGKILL
    code, _, err = curate(*bring_on)
    assert (code, err.count("curate: "), "its hold ends by itself 10 minutes after it" in err) == (2, 1, True)
    monkeypatch.setattr(Terms.__new__, "__defaults__", (60.0, 0.0, 0.1))  # nobody waits ten minutes for a lease to end
    with monkeypatch.context() as patch, _taken_over(older, bucket, patch) as endpoint:
        patch.setenv("AWS_ENDPOINT_URL", endpoint)
        s3fs.S3FileSystem.clear_instance_cache()
        code, _, err = curate(*bring_on)
    s3fs.S3FileSystem.clear_instance_cache()
    assert (code, err.count("curate: "), "was taken over by another run" in err) == (2, 1, True)
    assert curate(*bring_on)[0] == 0
    assert all(Store.existing(older.root).read(table).equals(of_table) for table, of_table in rows.items())


@contextmanager
def _taken_over(store: Store, bucket: dict[str, str], patch: pytest.MonkeyPatch) -> Iterator[str]:
    """An address of the bucket: at the first part that is deleted, another run takes the store over.

    This one stands still for hours meanwhile, as a machine that is suspended.
    """
    now, begun = time.clock_gettime, []
    lock = {"Bucket": "another", "Key": store.at("writing.lock").partition("/")[2]}

    def hear(content: bytes) -> None:
        if not begun and re.match(rb"DELETE \S+\.parquet", content):
            begun.append(content)
            s3_client(bucket).put_object(**lock, Body=b"2024-06-20 00:00:00 UTC another")
            patch.setattr(time, "clock_gettime", lambda kind: now(kind) + 1e6)

    with cut_off_at(int(bucket["AWS_ENDPOINT_URL"].rpartition(":")[2]), b"no server says this", hear) as port:
        yield f"http://127.0.0.1:{port}"
    assert begun


def _rejects(source: str, count: int) -> pl.DataFrame:
    rows = {"source": [source] * count, "line": range(count), "reason": "not_json", "evidence": ""}
    return pl.DataFrame(rows | {"evidence": [os.urandom(16).hex() for _ in range(count)]})


@one_writer
def _stage(settings: Settings) -> list[StageReport]:
    """Adds a small part and then a large one."""
    store = Store.open(settings.store)
    if not store.parts("rejects"):
        store.append("rejects", _rejects("small", 3))
    store.append("rejects", _rejects("large", 20_000))
    return [StageReport(stage="ingest")]


def test_a_full_disk_is_one_line_and_loses_nothing_and_the_next_run_goes_on(tmp_path):
    settings, store = Settings(store=str(tmp_path / "store")), Store(str(tmp_path / "store"))
    with (
        room_for(64 * 1024),
        pytest.raises(StoreUnwell, match=r"^store '.*' has no room left \(File too large\); [^\n]*$"),
    ):
        _stage(settings)
    assert set(store.read("rejects")["source"]) == {"small"}
    assert list(tmp_path.rglob("*.tmp")) == []
    _stage(settings)
    assert store.read("rejects").height == 20_003


def test_a_temporary_folder_without_room_for_vectors_is_one_line(tmp_path):
    @one_writer
    def topics(_: Settings) -> list[StageReport]:
        on_disk(1_000, 512)
        return []

    with (
        room_for(64 * 1024),
        pytest.raises(StoreUnwell, match=r"the temporary folder '.*' \(TMPDIR\) has no room left; [^\n]*$"),
    ):
        topics(Settings(store=str(tmp_path / "store")))


def test_a_store_that_goes_out_of_reach_is_one_line():
    @one_writer
    def cut_off(settings: Settings) -> list[StageReport]:
        store = Store.open(settings.store)
        store.append("rejects", _rejects("first", 3))
        server.kill()
        server.wait()
        store.append("rejects", _rejects("second", 3))
        return []

    with (
        s3_here("arena") as server,
        pytest.raises(StoreUnwell, match=r"^store 's3://arena/store' cannot be reached \([A-Za-z ]+\); [^\n]*$"),
    ):
        cut_off(Settings(store="s3://arena/store"))
