"""A store on S3-compatible storage has the same content as a store in a folder."""

import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import s3fs

from schemas.settings import Settings
from tasks.storage.lock import Terms
from tests.builders import USER_KEY
from tests.cut_off import cut_off_at
from tests.s3_server import s3_client, s3_server

pytestmark = pytest.mark.timeout(1800)  # three runs on a machine that may be busy

ROOT = Path(__file__).parents[2]
CURATE = [sys.executable, "-c", "from flows.commands import main; main()"]
BUCKET, STORE = "arena", "s3://arena/store"
CUT_AT = b"PUT /arena/store/tables/signals/text_pii/"
"""When the first texts have been measured, after the images."""


@pytest.fixture(scope="module")
def environment() -> Iterator[dict[str, str]]:
    """A moto server with an empty bucket, and the environment variables of its clients."""
    with s3_server(BUCKET) as own:
        yield os.environ | own | {"CURATE_USER_KEY": USER_KEY}


def _objects(environment: dict[str, str], prefix: str = "") -> dict[str, bytes]:
    client = s3_client(environment)
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=f"store/{prefix}")
    keys = [each["Key"] for page in pages for each in page.get("Contents", [])]
    read = {key: client.get_object(Bucket=BUCKET, Key=key)["Body"].read() for key in keys}
    return {key.removeprefix("store/"): content for key, content in read.items()}


def _curate(environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*CURATE, *arguments], cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=1200
    )


@dataclass
class Runs:
    """The same logs curated into a folder and into the bucket; the bucket's first run lost its connection midway."""

    local: Path
    environment: dict[str, str]
    cut_off: subprocess.CompletedProcess[str]
    left: set[str]
    """Objects in the bucket after the run that lost its connection."""


@pytest.fixture(scope="module")
def runs(backfilled: Settings, environment) -> Runs:
    from flows.curate import curate

    port = int(environment["AWS_ENDPOINT_URL"].rpartition(":")[2])
    with cut_off_at(port, CUT_AT) as cut:
        way = environment | {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{cut}"}
        cut_off = _curate(way, "run", "--logs", backfilled.logs, "--store", STORE)
    left = set(_objects(environment))
    with pytest.MonkeyPatch.context() as patch:
        for name in ("CURATE_USER_KEY", *(name for name in environment if name.startswith("AWS_"))):
            patch.setenv(name, environment[name])
        patch.setattr(Terms.__new__, "__defaults__", (60.0, 0.0, 0.1))  # nobody waits ten minutes for a lease to end
        s3fs.S3FileSystem.clear_instance_cache()  # of the servers of other tests
        for _ in range(2):
            curate(backfilled.model_copy(update={"store": STORE, "workers": 2}))
    return Runs(Path(backfilled.store), environment, cut_off, left)


def test_a_run_that_loses_its_store_in_the_middle_ends_with_one_line_and_the_next_one_goes_on(runs):
    assert runs.cut_off.returncode == 2, runs.cut_off.stderr
    last = runs.cut_off.stderr.strip().splitlines()[-1]
    assert re.fullmatch(
        r"curate: store 's3://arena/store' cannot be reached \([A-Za-z ]+\); what was stored stays\..*", last
    )
    assert "Traceback" not in runs.cut_off.stderr
    assert any(name.startswith("tables/signals/nsfw/") for name in runs.left)
    assert not any(name.startswith("releases/") for name in runs.left)


def test_the_release_in_the_bucket_is_the_release_in_the_folder(runs):
    files = [path for path in sorted(runs.local.glob("releases/**/*")) if path.is_file()]
    expected = {str(path.relative_to(runs.local)): path.read_bytes() for path in files}
    assert expected
    assert _objects(runs.environment, "releases/") == expected


def test_a_second_run_measures_nothing_and_leaves_no_lock(runs):
    objects = _objects(runs.environment)
    cut_off, first, second = (json.loads(objects[name]) for name in sorted(objects) if name.startswith("runs/"))
    assert [cut_off["state"], first["state"], second["state"]] == ["killed", "completed", "completed"]
    calls = [sum(sum(stage["model_calls"].values()) for stage in record["stages"]) for record in (first, second)]
    assert calls[0] > 0 and calls[1] == 0
    assert "writing.lock" not in objects


def test_a_conversation_is_forgotten_in_the_bucket_though_it_was_lost_midway(runs):
    environment = runs.environment
    unknown = _curate(environment, "takedown", "--yes", "nonsense", "--store", STORE)
    assert unknown.returncode == 2 and "'nonsense' is no conversation" in unknown.stderr
    asked = _conversation(_objects(environment, "tables/conversations/"))
    assert asked in _conversations(environment)
    port = int(environment["AWS_ENDPOINT_URL"].rpartition(":")[2])
    with cut_off_at(port, b"PUT /arena/store/tables/conversations") as cut:
        lost = _curate(
            environment | {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{cut}"}, "takedown", "--yes", asked, "--store", STORE
        )
    assert (lost.returncode, lost.stderr.count("\n")) == (2, 1), lost.stderr
    assert "cannot be reached (nothing answers at its address); what was stored stays" in lost.stderr
    held = _curate(environment, "release", "--store", STORE)
    assert (held.returncode, "its hold ends by itself 10 minutes after it" in held.stderr) == (2, True), held.stderr
    s3_client(environment).delete_object(Bucket=BUCKET, Key="store/writing.lock")  # ten minutes later
    early = _curate(environment, "release", "--store", STORE)
    assert (early.returncode, "a takedown was interrupted" in early.stderr) == (2, True), early.stderr
    done = _curate(environment, "takedown", "--yes", asked, "--store", STORE)
    assert done.returncode == 0, done.stdout + done.stderr
    assert asked not in _conversations(environment)


def _conversations(environment: dict[str, str]) -> list[str]:
    """conversation_id of every row of every Parquet object that has one."""
    tables = [pq.read_table(io.BytesIO(o)) for n, o in _objects(environment).items() if n.endswith(".parquet")]
    return [
        str(each) for table in tables if "conversation_id" in table.column_names for each in table["conversation_id"]
    ]


def _conversation(table: dict[str, bytes]) -> str:
    part = next(content for name, content in table.items() if name.endswith(".parquet"))
    return str(pq.read_table(io.BytesIO(part))["conversation_id"][0].as_py())
