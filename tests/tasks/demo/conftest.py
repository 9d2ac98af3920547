from pathlib import Path

import pytest

from tasks.demo.arena import generate_arena


@pytest.fixture(scope="session")
def arena(tmp_path_factory) -> Path:
    """A small arena with every problem: 40 direct chats and 20 battles of ordinary traffic."""
    folder = tmp_path_factory.mktemp("arena") / "demo"
    generate_arena(folder, conversations=40, battles=20, seed=5)
    return folder


@pytest.fixture(scope="session")
def clean_arena(tmp_path_factory) -> Path:
    """The same without problems."""
    folder = tmp_path_factory.mktemp("clean") / "demo"
    generate_arena(folder, conversations=40, battles=20, seed=5, problems=False)
    return folder
