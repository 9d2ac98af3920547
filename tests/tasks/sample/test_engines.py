"""Engines share one interface; ours needs no compiling, and finds what umap-learn finds."""

import subprocess
import sys

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from flows.commands.options import settings_of
from schemas.errors import BadInput, MissingProvider
from schemas.settings import TopicSettings
from tasks.sample.clusters import cluster
from tasks.sample.engines import ENGINES, engine

SETTINGS = TopicSettings(members_min=10)


@pytest.fixture(scope="module")
def planted():
    """600 unit vectors in 160 dimensions around ten directions, and whose each is."""
    random = np.random.default_rng(3)
    owner = random.integers(0, 10, 600)
    vectors = random.normal(size=(10, 160))[owner] / np.sqrt(160) + random.normal(scale=0.04, size=(600, 160))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32), owner


@pytest.mark.parametrize("name", ["core", "bertopic"])
def test_every_engine_finds_the_planted_topics(planted, name):
    if name == "bertopic":
        pytest.importorskip("bertopic")
    found = cluster(planted[0], SETTINGS.model_copy(update={"engine": name}), seed=0)
    assert adjusted_rand_score(planted[1], found.labels) > 0.95
    assert found.labels.dtype == np.int32
    assert found.probabilities.dtype == found.positions.dtype == np.float32
    assert found.positions.shape == (600, 2)
    sizes = np.bincount(found.labels[found.labels >= 0])
    assert (np.diff(sizes) <= 0).all()


def test_threads_do_not_change_what_is_found(planted):
    alone, together = (cluster(planted[0], SETTINGS, seed=0, workers=workers) for workers in (1, 3))
    assert (alone.labels == together.labels).all()
    assert (alone.positions == together.positions).all()


def test_an_engine_that_is_not_installed_says_how_to_get_it():
    with pytest.raises(
        MissingProvider, match=r"topic engine 'cuml' cannot be loaded \(cuml\); it needs a CUDA machine"
    ):
        engine("cuml")


def test_the_core_engine_loads_neither_umap_learn_nor_bertopic():
    code = "import sys, tasks.sample.core_engine; print([m for m in ('umap', 'bertopic') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout.strip() == b"[]"


def test_every_engine_that_settings_allow_exists():
    allowed = TopicSettings.model_fields["engine"].annotation.__args__
    assert set(allowed) == set(ENGINES)


def test_the_command_line_chooses_an_engine_and_refuses_an_unknown_one():
    assert settings_of(store="s", topic_engine="umap").topics.engine == "umap"
    with pytest.raises(BadInput, match="unknown engine 'bertopik'"):
        settings_of(store="s", topic_engine="bertopik")
