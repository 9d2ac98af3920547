"""Engines share one interface, find planted topics, give the same for the same seed, and work on few documents."""

import hashlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score, completeness_score

from schemas.errors import MissingProvider
from schemas.settings import TopicSettings
from tasks.topics.cluster import cluster
from tasks.topics.engines import engine, nearest, nearest_to_each

SETTINGS = TopicSettings(members_min=10)
ROOT = Path(__file__).parents[3]
LOCAL = ("umap", "evoc", "bertopic")


def _unit(rows):
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


@pytest.fixture(scope="module")
def planted():
    """600 unit vectors in 160 dimensions around ten directions, and whose each is."""
    random = np.random.default_rng(3)
    owner = random.integers(0, 10, 600)
    return _unit(random.normal(size=(10, 160))[owner] + random.normal(scale=0.5, size=(600, 160))), owner


@pytest.mark.parametrize("name", LOCAL)
def test_every_engine_finds_the_planted_topics(planted, name):
    if name == "bertopic":
        pytest.importorskip("bertopic")
    found = cluster(planted[0], SETTINGS.model_copy(update={"engine": name}), seed=0)
    agreement = completeness_score if name == "evoc" else adjusted_rand_score  # evoc may merge topics
    assert agreement(planted[1], found.labels) > 0.9
    assert found.labels.dtype == np.int32
    assert found.probabilities.dtype == found.positions.dtype == np.float32
    assert found.positions.shape == (600, 2)
    sizes = np.bincount(found.labels[found.labels >= 0])
    assert (np.diff(sizes) <= 0).all()


def _fits(workers):
    """A hash of what each engine of the core install finds."""
    vectors = np.random.default_rng(0).normal(size=(150, 20))
    vectors[:, 0] += np.repeat([-6, 0, 6], 50)
    hashes = []
    for name in ("umap", "evoc"):
        found = cluster(_unit(vectors), TopicSettings(engine=name), seed=1, workers=workers)
        hashes.append(hashlib.sha256(found.labels.tobytes() + found.positions.tobytes()).hexdigest())
    return " ".join(hashes)


def test_another_process_finds_the_same_whatever_its_threads():
    code = "from tests.tasks.topics.test_engines import _fits; print(_fits(3))"
    other = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert other.stdout.strip() == _fits(1)


@pytest.mark.parametrize("name", ["umap", "evoc"])
@pytest.mark.parametrize(("count", "dimension"), [(6, 3), (7, 2), (16, 40)])
def test_fewer_documents_than_neighbours_or_dimensions_are_fitted(name, count, dimension):
    vectors = _unit(np.random.default_rng(count).normal(size=(count, dimension)))
    found = cluster(vectors, TopicSettings(engine=name, members_min=2), seed=0)
    assert found.labels.shape == (count,)
    assert found.positions.shape == (count, 2)
    assert np.isfinite(found.positions).all()


@pytest.mark.parametrize("name", ["umap", "evoc"])
def test_many_equal_documents_among_others_are_fitted(planted, name):
    vectors = np.concatenate([planted[0][:100], np.repeat(planted[0][:1], 80, axis=0)])
    found = cluster(vectors, TopicSettings(engine=name, members_min=5), seed=0)
    assert np.isfinite(found.positions).all()
    if name == "umap":  # EVoC may split them
        assert len(set(found.labels[100:].tolist())) == 1


def test_neighbours_are_those_of_all_pairs_in_order_with_their_distances(planted, monkeypatch):
    monkeypatch.setattr("tasks.topics.engines.COSINES_A_THREAD", 6_000)  # blocks of ten rows
    vectors = planted[0]
    rows, distances = nearest(vectors, vectors[:95], 14, workers=2)
    exact = np.sort(1 - vectors[:95] @ vectors.T, axis=1)[:, :14]
    assert distances == pytest.approx(exact, abs=1e-5)
    assert distances == pytest.approx(1 - np.einsum("nd,nkd->nk", vectors[:95], vectors[rows]), abs=1e-5)
    assert rows[:, 0].tolist() == list(range(95))
    assert (distances[:, 0] == 0).all()


def test_neighbours_of_each_are_those_of_all_pairs_with_the_first_of_equal_rows_in_front(planted):
    vectors = np.concatenate([planted[0][:80], np.repeat(planted[0][:1], 40, axis=0)])
    rows, distances = nearest_to_each(vectors, vectors[:95], 14)
    _, slow_distances = nearest(vectors, vectors[:95], 14)
    assert distances == pytest.approx(slow_distances, abs=1e-5)
    assert rows[0].tolist() == [0, *range(80, 93)]
    assert (rows[1:80, 0] == np.arange(1, 80)).all()


@pytest.mark.parametrize("queries", [5, 0])
def test_neighbours_of_each_are_as_many_as_there_are(planted, queries):
    assert nearest_to_each(planted[0][:5], planted[0][:queries], 15)[0].shape == (queries, 5)


def test_neighbours_are_as_many_as_there_are_and_a_missing_engine_says_how_to_get_it(planted):
    assert nearest(planted[0][:5], planted[0][:5], 15)[0].shape == (5, 5)
    assert nearest(planted[0][:5], planted[0][:0], 15)[0].shape == (0, 5)
    with pytest.raises(
        MissingProvider, match=r"topic engine 'cuml' cannot be loaded \(cuml\); it needs a CUDA machine"
    ):
        engine("cuml")


def test_a_night_without_a_fit_imports_no_engine():
    code = """
import sys, tasks.topics.steps, tasks.topics.engines
tasks.topics.engines.engine("umap"), tasks.topics.engines.engine("evoc")
print([name for name in ("umap", "hdbscan", "evoc", "bertopic") if name in sys.modules])
"""
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout.strip() == b"[]"
