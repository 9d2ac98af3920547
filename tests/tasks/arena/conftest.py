"""Arenas with scripted models, the embedded checks, and log folders of their own."""

import json
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from schemas.asked_model import ArenaModel
from tasks.arena.entrance import Admission, Visitors
from tasks.arena.logs import LogFolder
from tasks.arena.rounds import Arena
from tasks.providers import Providers
from tests.built_arena import KEY, Built, Scripted, image_file
from tests.served_arena import NAMES, ROOT, models_file
from tests.waiting import free_port, listens, wait_until


@pytest.fixture(scope="session")
def admission() -> Admission:
    """The embedded checks with the policy's threshold."""
    providers = Providers()
    return Admission(providers["nsfw"], 0.8, providers["moderation"])


@pytest.fixture
def build(tmp_path, admission):
    """A function that makes an arena of models by name."""

    def built(
        models=None,
        *,
        connect=None,
        admission=admission,
        vision=(),
        open_models=(),
        messages_a_minute=1000,
        proxies=0,
        **settings,
    ) -> Built:
        models = models or {"good-model": Scripted(), "second-model": Scripted(("Bye.",))}
        rows = [
            ArenaModel(name=name, base_url="http://127.0.0.1", vision=name in vision, open=name in open_models)
            for name in models
        ]
        folder = LogFolder(tmp_path / "logs")
        visitors = Visitors(KEY, messages_a_minute=messages_a_minute, proxies=proxies)
        arena = Arena(
            rows,
            connect or (lambda row: models[row.name]),
            admission,
            folder,
            visitors,
            version="test",
            rng=Random(1),
            **settings,
        )
        (tmp_path / "logs" / "serve_images").mkdir(parents=True, exist_ok=True)
        return Built(arena, tmp_path / "logs", models)

    return built


@pytest.fixture(scope="module")
def chat_port():
    """A server of models."""
    port = free_port()
    process = subprocess.Popen([sys.executable, "-m", "tests.chat_server", str(port)], cwd=ROOT)
    wait_until(lambda: listens(port), process)
    yield port
    process.kill()
    process.wait()


@pytest.fixture(scope="module")
def place(tmp_path_factory, chat_port) -> Path:
    """A folder with a models file and one example image."""
    folder = tmp_path_factory.mktemp("arena")
    models_file(folder / "models.yaml", chat_port, NAMES)
    (folder / "presets").mkdir()
    (folder / "presets" / "chart_0.png").write_bytes(image_file(seed=9))
    (folder / "presets" / "presets.json").write_text(json.dumps([{"dataset": "Charts", "path": "chart_0.png"}]))
    return folder
