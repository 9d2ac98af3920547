"""A store on S3-compatible storage is the store a folder would be."""

import io
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pyarrow.parquet as pq
import pytest

from tasks.demo.arena import generate_arena

ROOT = Path(__file__).parents[2]
CURATE = [sys.executable, "-c", "from flows.commands import main; main()"]
BUCKET, STORE = "arena", "s3://arena/store"


def _free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


@pytest.fixture(scope="module")
def environment() -> Iterator[dict[str, str]]:
    """A moto server with an empty bucket, and what tells clients where it is."""
    port = _free_port()
    own = {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ACCESS_KEY_ID": "nobody",
        "AWS_SECRET_ACCESS_KEY": "nothing",
        "AWS_DEFAULT_REGION": "us-east-1",
        "CURATE_USER_KEY": "one key for both stores of this test",
    }
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        for _ in range(300):
            with socket.socket() as knocking:
                if knocking.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        _client(own).create_bucket(Bucket=BUCKET)
        yield os.environ | own
        server.terminate()


def _client(environment: dict[str, str]) -> Any:
    return boto3.client(
        "s3",
        endpoint_url=environment["AWS_ENDPOINT_URL"],
        aws_access_key_id=environment["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=environment["AWS_SECRET_ACCESS_KEY"],
        region_name=environment["AWS_DEFAULT_REGION"],
    )


def _objects(environment: dict[str, str], prefix: str = "") -> dict[str, bytes]:
    client = _client(environment)
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


@pytest.fixture(scope="module")
def released(runs) -> tuple[str, str]:
    """The release in the folder, and in the bucket."""
    (version,) = [path.name for path in (runs[0] / "releases").iterdir() if (path / "manifest.json").exists()]
    return str(runs[0] / "releases" / version), f"{STORE}/releases/{version}"


def test_a_release_in_the_bucket_is_verified_compared_exported_and_refused_as_one_in_a_folder(runs, released, tmp_path):
    local, remote = released
    environment = runs[1] | {"HF_TOKEN": "unused"}
    verified = _curate(environment, "verify", remote)
    assert (verified.returncode, verified.stdout) == (0, f"{remote} is whole\n"), verified.stderr
    assert "suggested version bump: none" in _curate(environment, "diff", local, remote).stdout
    exports = [tmp_path / name for name in ("local", "remote")]
    for place, out in zip(released, exports, strict=True):
        done = _curate(environment, "export", "dataset", place, "--out", str(out))
        assert done.returncode == 0, done.stderr
    one, other = ({p.relative_to(out): p.read_bytes() for p in out.rglob("*.parquet")} for out in exports)
    assert one == other != {}
    refused = _curate(environment, "publish", remote, "--repo", "org/arena", "--dry-run")
    assert refused.returncode == 2
    assert refused.stderr.startswith(f"curate: '{remote}' was built with embedded stand-ins")


def test_an_address_without_a_release_is_one_clear_line(runs):
    for place in (f"{STORE}/releases/none", "s3://nowhere/1.0.0", "nothing://x/1.0.0"):
        refused = _curate(runs[1], "verify", place)
        assert refused.returncode == 2
        assert refused.stderr.startswith(f"curate: '{place}' ") and refused.stderr.count("\n") == 1, refused.stderr


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
