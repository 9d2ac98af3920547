"""A release, and `curate export sft` of it."""

import json
from pathlib import Path

import pytest

from tests.small_store import make_release, small_store


@pytest.fixture(scope="session")
def release(tmp_path_factory) -> Path:
    """A release. Do not write to it."""
    store = small_store(tmp_path_factory.mktemp("export"))
    make_release(store, release="1.0.0")
    return Path(store.root) / "releases" / "1.0.0"


@pytest.fixture
def sft(curate, release, tmp_path):
    """Run the command: (exit status, stderr, folder)."""
    runs = []

    def run(*options: object, out=None, of=release):
        out = out or tmp_path / f"out{len(runs)}"
        runs.append(out)
        code, _, err = curate("export", "sft", of, "--out", out, *options)
        return code, err, out

    return run


def limits(**numbers: int) -> list[str]:
    """The options that limit the draw."""
    return [word for name, number in numbers.items() for word in ("--set", f"{name}={number}")]


def examples(out):
    """Rows of train.jsonl."""
    return [json.loads(line) for line in (out / "train.jsonl").read_text(encoding="utf-8").splitlines()]
