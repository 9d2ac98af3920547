"""A store on S3-compatible storage is the store a folder would be."""

import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tasks.demo.arena import generate_arena
from tests.s3_server import s3_client, s3_server

ROOT = Path(__file__).parents[2]
CURATE = [sys.executable, "-c", "from flows.commands import main; main()"]
BUCKET, STORE = "arena", "s3://arena/store"


@pytest.fixture(scope="module")
def environment() -> Iterator[dict[str, str]]:
    """A moto server with an empty bucket, and what tells clients where it is."""
    with s3_server(BUCKET) as own:
        yield os.environ | own | {"CURATE_USER_KEY": "one key for both stores of this test"}


def _objects(environment: dict[str, str], prefix: str = "") -> dict[str, bytes]:
    client = s3_client(environment)
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=f"store/{prefix}")
    keys = [each["Key"] for page in pages for each in page.get("Contents", [])]
    read = {key: client.get_object(Bucket=BUCKET, Key=key)["Body"].read() for key in keys}
    return {key.removeprefix("store/"): content for key, content in read.items()}


def _curate(environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*CURATE, *arguments], cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=500
    )


@pytest.fixture(scope="module")
def runs(environment, tmp_path_factory) -> tuple[Path, dict[str, str]]:
    """The same small arena curated into a folder, and twice into the bucket."""
    folder = tmp_path_factory.mktemp("bucket")
    generate_arena(folder, conversations=20, battles=5, seed=9, pictures_max=8, problems=False)
    for store in (str(folder / "store"), STORE, STORE):
        done = _curate(environment, "run", "--logs", str(folder / "logs"), "--store", store)
        assert done.returncode == 0, done.stdout + done.stderr
    return folder / "store", environment


def test_the_release_in_the_bucket_is_the_release_in_the_folder(runs):
    local, environment = runs
    expected = {str(p.relative_to(local)): p.read_bytes() for p in sorted(local.glob("releases/**/*")) if p.is_file()}
    assert expected
    assert _objects(environment, "releases/") == expected


def test_a_second_run_measures_nothing_and_leaves_no_lock(runs):
    objects = _objects(runs[1])
    first, second = (json.loads(objects[name]) for name in sorted(objects) if name.startswith("runs/"))
    calls = [sum(sum(stage["model_calls"].values()) for stage in record["stages"]) for record in (first, second)]
    assert calls[0] > 0 and calls[1] == 0
    assert "writing.lock" not in objects


def test_a_conversation_is_forgotten_in_the_bucket(runs):
    environment = runs[1]
    unknown = _curate(environment, "takedown", "nonsense", "--store", STORE)
    assert unknown.returncode == 2 and "'nonsense' is no conversation" in unknown.stderr
    asked = _conversation(_objects(environment, "tables/conversations/"))
    assert asked in _conversations(environment)
    done = _curate(environment, "takedown", asked, "--store", STORE)
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
