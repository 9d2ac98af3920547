"""A store on S3-compatible storage has the same content as a store in a folder."""

import io
import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import s3fs

from schemas.settings import Settings
from tasks.storage.lock import Terms
from tests.builders import USER_KEY
from tests.counted_way import counted_way
from tests.cut_off import cut_off_at
from tests.flows.conftest import take_over_probes
from tests.s3_server import s3_client, s3_here

pytestmark = pytest.mark.timeout(1800)  # three runs on a machine that may be busy

SLOW_SECONDS = 0.01
BUCKET, STORE = "arena", "s3://arena/store"
CUT_AT = b"PUT /arena/store/tables/signals/text_pii/"
"""When the first texts have been measured, after the images."""


@pytest.fixture(scope="module", autouse=True)
def bucket() -> Iterator[None]:
    """A moto server with an empty bucket, which is the one of this process."""
    with s3_here(BUCKET, CURATE_USER_KEY=USER_KEY):
        yield


def _port() -> int:
    return int(os.environ["AWS_ENDPOINT_URL"].rpartition(":")[2])


@contextmanager
def _through(port: int) -> Iterator[None]:
    """The way to the bucket is that of a port, until the block ends."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
        s3fs.S3FileSystem.clear_instance_cache()
        yield
    s3fs.S3FileSystem.clear_instance_cache()


@contextmanager
def _cut_off_at(words: bytes) -> Iterator[None]:
    """The way to the bucket ends for good with a request that has these words, until the block ends."""
    with cut_off_at(_port(), words) as way, _through(way):
        yield


def _objects(prefix: str = "") -> dict[str, bytes]:
    client = s3_client(os.environ)
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=f"store/{prefix}")
    keys = [each["Key"] for page in pages for each in page.get("Contents", [])]
    read = {key: client.get_object(Bucket=BUCKET, Key=key)["Body"].read() for key in keys}
    return {key.removeprefix("store/"): content for key, content in read.items()}


@dataclass
class Runs:
    """The same logs curated into a folder and into the bucket; the bucket's first run lost its connection midway."""

    local: Path
    status: object
    printed: str
    """What the run that lost its connection wrote to stderr."""
    left: set[str]
    """Objects in the bucket after it."""
    asked: list[dict[str, int]]
    """Requests by method of the two runs after it, each of which waited ten milliseconds."""


@pytest.fixture(scope="module")
def runs(backfilled: Settings) -> Runs:
    from flows.commands import main
    from flows.curate import curate

    take_over_probes(backfilled, STORE)
    printed = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, _cut_off_at(CUT_AT), redirect_stderr(printed):
        patch.setattr("sys.argv", ["curate", "run", "--logs", backfilled.logs, "--store", STORE])
        with pytest.raises(SystemExit) as stopped:
            main()
    left = set(_objects())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Terms.__new__, "__defaults__", (60.0, 0.0, 0.1))  # nobody waits ten minutes for a lease to end
        asked = []
        for _ in range(2):
            with counted_way(_port(), SLOW_SECONDS) as way, _through(way.port):
                curate(backfilled.model_copy(update={"store": STORE, "workers": 2}))
            asked.append(way.by_method())
    return Runs(Path(backfilled.store), stopped.value.code, printed.getvalue(), left, asked)


def test_a_run_that_loses_its_store_in_the_middle_ends_with_one_line_and_the_next_one_goes_on(runs):
    assert runs.status == 2, runs.printed
    last = runs.printed.strip().splitlines()[-1]
    assert re.fullmatch(
        r"curate: store 's3://arena/store' cannot be reached \([A-Za-z ]+\); what was stored stays\..*", last
    )
    assert "Traceback" not in runs.printed
    assert any(name.startswith("tables/signals/nsfw/") for name in runs.left)
    assert not any(name.startswith("releases/") for name in runs.left)


def test_the_release_in_the_bucket_is_the_release_in_the_folder(runs):
    files = [path for path in sorted(runs.local.glob("releases/**/*")) if path.is_file()]
    expected = {str(path.relative_to(runs.local)): path.read_bytes() for path in files}
    assert expected
    assert _objects("releases/") == expected


def test_a_second_run_measures_nothing_leaves_no_lock_and_asks_a_slow_store_little(runs):
    objects = _objects()
    cut_off, first, second = (json.loads(objects[name]) for name in sorted(objects) if name.startswith("runs/"))
    assert [cut_off["state"], first["state"], second["state"]] == ["killed", "completed", "completed"]
    calls = [sum(sum(stage["model_calls"].values()) for stage in record["stages"]) for record in (first, second)]
    assert calls[0] > 0 and calls[1] == 0
    assert "writing.lock" not in objects
    asked = runs.asked[-1]
    total = sum(asked.values())
    assert total < 500 and asked.get("HEAD", 0) < 0.05 * total, asked


def test_a_conversation_is_forgotten_in_the_bucket_though_it_was_lost_midway(runs, refused, curate):
    assert "'nonsense' is no conversation" in refused("takedown", "--yes", "nonsense", "--store", STORE)
    asked = _conversation(_objects("tables/conversations/"))
    assert asked in _conversations()
    forget = ("takedown", "--yes", asked, "--store", STORE)
    with _cut_off_at(b"PUT /arena/store/tables/conversations"):
        code, _, err = curate(*forget)
    assert (code, err.count("\n")) == (2, 1), err
    assert "cannot be reached (nothing answers at its address); what was stored stays" in err
    held, _, err = curate("release", "--store", STORE)
    assert (held, "its hold ends by itself 10 minutes after it" in err) == (2, True), err
    s3_client(os.environ).delete_object(Bucket=BUCKET, Key="store/writing.lock")  # ten minutes later
    early, _, err = curate("release", "--store", STORE)
    assert (early, "a takedown was interrupted" in err) == (2, True), err
    code, out, err = curate(*forget)
    assert code == 0, out + err
    assert asked not in _conversations()


def _conversations() -> list[str]:
    """conversation_id of every row of every Parquet object that has one."""
    tables = [pq.read_table(io.BytesIO(o)) for n, o in _objects().items() if n.endswith(".parquet")]
    return [
        str(each) for table in tables if "conversation_id" in table.column_names for each in table["conversation_id"]
    ]


def _conversation(table: dict[str, bytes]) -> str:
    part = next(content for name, content in table.items() if name.endswith(".parquet"))
    return str(pq.read_table(io.BytesIO(part))["conversation_id"][0].as_py())
