"""A release, and `curate export sft` of it."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.places import contents
from tests.small_store import make_release, small_store


@pytest.fixture(scope="session")
def release(tmp_path_factory) -> Iterator[Path]:
    """A release, which no test may change; its store notes what was exported."""
    store = small_store(tmp_path_factory.mktemp("export"))
    make_release(store, release="1.0.0")
    made = Path(store.root) / "releases" / "1.0.0"
    before = contents(made)
    yield made
    assert contents(made) == before, "a test changed the release that all tests share"


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


def shown_by_code_of(folder: Path, cache: Path) -> str:
    """What a new process prints that types the code of an export's card: the classes of the rows' images."""
    code = (folder / "README.md").read_text(encoding="utf-8").split("```python\n")[1].split("```")[0]
    ends = "print({type(image).__name__ for row in train for image in row['images']})"
    environment = os.environ | {"HF_DATASETS_CACHE": str(cache), "HF_HUB_OFFLINE": "1"}
    program = [sys.executable, "-c", f"FOLDER = {str(folder)!r}\n{code}\n{ends}"]
    done = subprocess.run(program, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()
