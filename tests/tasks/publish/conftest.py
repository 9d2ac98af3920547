"""A release that production providers made, as its manifest says, and a loopback Hub for the real client."""

import io
import os
import shutil
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import polars as pl
import pytest

from flows.products import parts_of_release
from tasks.publish.hub import hub_api
from tasks.publish.plan import plan_upload
from tasks.publish.push import publish_release
from tasks.release.fetched import store_of
from tasks.storage.tables import Store
from tests.builders import NOON
from tests.hub_server import TOKEN
from tests.s3_server import s3_client, s3_here
from tests.small_store import make_release, small_store
from tests.tampered_release import as_production

REPO = "org/arena"
STORE = "s3://published/store"
"""Address of the store in the fixture `bucket`."""


@pytest.fixture(scope="session")
def made(tmp_path_factory) -> Path:
    """A store with releases 1.0.0 and 1.1.0. Do not write to it."""
    store = small_store(tmp_path_factory.mktemp("published"))
    for version in ("1.0.0", "1.1.0"):
        make_release(store, reported=version == "1.1.0", release=version)
        as_production(Path(store.root) / "releases" / version)
        kept = pl.col("keep") & (pl.col("item_id") != "c03")
        store.replace("decisions", store.read("decisions").with_columns(keep=kept))
    return Path(store.root)


@pytest.fixture
def store(made, tmp_path) -> Store:
    """A copy of the store."""
    return Store(str(shutil.copytree(made, tmp_path / "store")))


@pytest.fixture
def release(store) -> Path:
    """Its first release."""
    return Path(store.root) / "releases" / "1.0.0"


@pytest.fixture(autouse=True)
def waited(monkeypatch) -> list[float]:
    """Seconds that were waited for an unwell Hub, instead of waiting."""
    seconds: list[float] = []
    monkeypatch.setattr("tasks.publish.hub.time", SimpleNamespace(sleep=seconds.append))
    return seconds


@pytest.fixture
def publish(hub, release, waited):
    """Publish a release as the command does."""

    def run(folder=release, repo=REPO, public=False, per_config=False, preview=False, hours=0):
        plan = plan_upload(folder, repo, parts_of_release, public, per_config, preview)
        return publish_release(hub_api(), folder, plan, store_of(str(folder)), NOON + timedelta(hours=hours))

    return run


@pytest.fixture
def curate(curate):
    """Run a command: (exit status, stdout, stderr), which never hold the token."""

    def run(*arguments: object) -> tuple[int, str, str]:
        status, out, err = curate(*arguments)
        assert TOKEN not in out + err
        return status, out, err

    return run


def reader_environment(hub, folder: Path) -> dict[str, str]:
    """The environment of another process that asks this Hub, with a cache of its own."""
    kept = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
    own = {"HF_ENDPOINT": hub.endpoint, "HF_HOME": str(folder / "hf"), "HF_TOKEN": TOKEN, "HF_HUB_DISABLE_XET": "1"}
    return kept | own


def reader(hub, folder: Path, *command: object) -> subprocess.CompletedProcess:
    """A command of somebody who reads the Hub, in a process of its own."""
    done = [str(part) for part in command]
    return subprocess.run(done, env=reader_environment(hub, folder), capture_output=True, text=True)


@pytest.fixture
def answering(monkeypatch):
    """Somebody at a terminal, who types this."""

    def sit(answer: str) -> None:
        terminal = io.StringIO(f"{answer}\n")
        terminal.isatty = lambda: True
        monkeypatch.setattr(sys, "stdin", terminal)

    return sit


@pytest.fixture(scope="module")
def bucket(made):
    """A bucket with the store and its two releases; the environment points at its server."""
    with s3_here("published", CURATE_USER_KEY="the key of every store here"):
        client = s3_client(os.environ)
        upload(client, made, "store")
        yield client


def upload(client, folder: Path, name: str) -> None:
    """Put a folder into the bucket."""
    for path in (path for path in folder.rglob("*") if path.is_file()):
        client.put_object(Bucket="published", Key=f"{name}/{path.relative_to(folder)}", Body=path.read_bytes())
