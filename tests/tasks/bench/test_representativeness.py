"""Coverage and distances of a benchmark, beside random samples."""

import numpy as np
import pytest

from tasks.bench.representativeness import measures


def _pool(sizes, seed=0):
    """Topics of these sizes, each around a direction of its own."""
    generator = np.random.default_rng(seed)
    topics = np.repeat(np.arange(len(sizes)), sizes)
    vectors = np.eye(len(sizes) + 2)[topics] + generator.normal(scale=0.05, size=(len(topics), len(sizes) + 2))
    return topics, (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def _by_name(*given):
    return {row.measure: row for row in measures(*given, seed=0)}


def test_one_prompt_of_every_topic_covers_all_and_is_even():
    topics, vectors = _pool([60, 30, 6, 3, 1])
    found = _by_name(topics, vectors, np.array([0, 60, 90, 96, 99]))
    assert found["topic_coverage"].value == 1
    assert found["distance_to_even_topics"].value == 0
    assert found["topic_coverage"].random_mean < 0.7
    assert found["nearest_cosine"].value > found["nearest_cosine"].random_mean
    assert (found["topic_coverage"].prompts, found["topic_coverage"].pool) == (5, 100)


def test_the_whole_pool_is_at_no_distance_from_itself():
    topics, vectors = _pool([60, 30, 6])
    found = _by_name(topics, vectors, np.arange(96))
    assert found["distance_to_pool_topics"].value == found["distance_to_pool_topics"].random_high == 0
    assert found["energy_distance_to_pool"].value == pytest.approx(0, abs=1e-6)
    assert found["nearest_cosine"].value == pytest.approx(1, abs=1e-6)


def test_prompts_of_one_topic_are_far_from_the_pool():
    topics, vectors = _pool([40, 40, 40])
    found = _by_name(topics, vectors, np.arange(10))
    assert found["topic_coverage"].value == pytest.approx(1 / 3, abs=1e-5)
    assert found["energy_distance_to_pool"].value > 2 * found["energy_distance_to_pool"].random_high


def test_energy_distance_is_that_of_its_definition():
    topics, vectors = _pool([5, 4])
    rows = np.array([0, 1, 6])

    def mean_distance(a, b):
        return np.mean([np.linalg.norm(x.astype(float) - y) for x in a for y in b])

    drawn = vectors[rows]
    expected = 2 * mean_distance(drawn, vectors) - mean_distance(drawn, drawn) - mean_distance(vectors, vectors)
    assert _by_name(topics, vectors, rows)["energy_distance_to_pool"].value == pytest.approx(expected, abs=1e-4)


def test_an_empty_benchmark_has_no_measures():
    assert measures(*_pool([5]), np.array([], np.int64), seed=0) == []
