"""Topics of document vectors: found, numbered by size, the same for the same seed, and defined for any number."""

import numpy as np
import pytest

from schemas.errors import BadInput
from schemas.settings import TopicSettings
from tasks.topics.cluster import cluster, members_min

SIZES = (40, 25, 15)
SETTINGS = TopicSettings(members_min=5, neighbours=8, dimensions=3)


@pytest.fixture(scope="module")
def blobs():
    """Three tight directions of falling size, in mixed order, and which one each row belongs to."""
    random = np.random.default_rng(0)
    centres = np.linalg.qr(random.normal(size=(16, 3)))[0].T
    owner = random.permutation(np.repeat(np.arange(3), SIZES))
    vectors = centres[owner] + random.normal(scale=0.03, size=(len(owner), 16))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32), owner


@pytest.fixture(scope="module")
def found(blobs):
    return cluster(blobs[0], SETTINGS, seed=1)


def test_topics_are_the_planted_groups_by_size_and_the_same_for_the_same_seed(blobs, found):
    clustered = found.labels >= 0
    assert clustered.mean() > 0.9
    assert (found.labels[clustered] == blobs[1][clustered]).all()
    again = cluster(blobs[0], SETTINGS, seed=1)
    assert (again.labels == found.labels).all()
    assert (again.probabilities == found.probabilities).all()
    assert (again.positions == found.positions).all()


@pytest.mark.parametrize("count", [0, 1, 2, 3, 14])
def test_too_few_documents_to_tell_apart_are_one_topic(count):
    vectors = np.eye(20, dtype=np.float32)[:count]
    few = cluster(vectors, SETTINGS, seed=0)
    assert few.labels.tolist() == [0] * count
    assert few.probabilities.tolist() == [1.0] * count
    assert few.positions.shape == (count, 2)
    assert np.isfinite(few.positions).all()


@pytest.mark.parametrize("dimension", [1, 2, 16])
def test_any_number_of_identical_documents_is_one_topic(dimension):
    vectors = np.ones((200, dimension), np.float32) / np.sqrt(dimension).astype(np.float32)
    alike = cluster(vectors, SETTINGS, seed=0)
    assert set(alike.labels) == {0}
    assert np.isfinite(alike.positions).all()


@pytest.mark.parametrize("bad", [np.nan, np.inf, 0.0])
def test_a_broken_vector_is_refused_and_not_clustered(blobs, bad):
    vectors = blobs[0].copy()
    vectors[3] = bad
    with pytest.raises(
        BadInput, match=r"1 of 80 document vectors are zero or not finite \(the first is row 3\); remove"
    ):
        cluster(vectors, SETTINGS, seed=0)


@pytest.mark.parametrize(("count", "expected"), [(0, 5), (1199, 5), (1400, 7), (20_000, 100), (10**6, 100)])
def test_the_smallest_topic_is_a_two_hundredth_of_the_documents_within_bounds(count, expected):
    assert members_min(count, TopicSettings()) == expected
    assert members_min(count, SETTINGS) == 5
