"""The benchmark is drawn uniformly over topics, as far as topics reach; its coverage beside random samples."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.bench import pool
from tasks.bench.draw import draw, proportional_quotas, quotas
from tasks.bench.pool import measures

TOPICS = st.dictionaries(st.integers(0, 50), st.integers(1, 40), max_size=12)
TOTALS = st.integers(0, 300)
SEATS = st.sampled_from([quotas, proportional_quotas])


def _documents(sizes):
    return {topic: [f"{topic}-{number}" for number in range(size)] for topic, size in sizes.items()}


@given(TOPICS, TOTALS, SEATS)
def test_as_many_seats_are_given_as_asked_for_if_there_are_so_many(sizes, total, seats_of):
    assert sum(seats_of(sizes, total).values()) == min(total, sum(sizes.values()))


@given(TOPICS, TOTALS, SEATS)
def test_no_topic_has_more_seats_than_prompts(sizes, total, seats_of):
    seats = seats_of(sizes, total)
    assert seats.keys() == sizes.keys()
    assert all(0 <= seats[topic] <= sizes[topic] for topic in sizes)


@given(TOPICS, TOTALS, SEATS)
def test_a_larger_topic_never_has_fewer_seats(sizes, total, seats_of):
    seats = seats_of(sizes, total)
    by_size = sorted(sizes, key=lambda topic: (-sizes[topic], topic))
    assert [seats[topic] for topic in by_size] == sorted(seats.values(), reverse=True)


@given(TOPICS, TOTALS)
def test_a_topic_has_fewer_seats_than_another_less_one_only_when_it_ran_short(sizes, total):
    seats = quotas(sizes, total)
    most = max(seats.values(), default=0)
    assert all(seats[topic] >= most - 1 for topic in sizes if seats[topic] < sizes[topic])


@pytest.mark.parametrize(
    ("sizes", "total", "expected"),
    [
        ({0: 10, 1: 10, 2: 2}, 10, {0: 4, 1: 4, 2: 2}),
        ({0: 10, 1: 10, 2: 10}, 10, {0: 4, 1: 3, 2: 3}),
        ({0: 3, 1: 1}, 100, {0: 3, 1: 1}),
        ({0: 3, 1: 1}, 0, {0: 0, 1: 0}),
        ({}, 5, {}),
    ],
)
def test_what_a_small_topic_cannot_fill_goes_evenly_to_the_others(sizes, total, expected):
    assert quotas(sizes, total) == expected


@given(TOPICS, TOTALS)
def test_proportional_seats_leave_no_topic_out_while_there_are_as_many(sizes, total):
    assert sum(seats > 0 for seats in proportional_quotas(sizes, total).values()) == min(total, len(sizes))


@pytest.mark.parametrize(
    ("sizes", "total", "expected"),
    [
        ({0: 60, 1: 30, 2: 10}, 10, {0: 6, 1: 3, 2: 1}),
        ({0: 53, 1: 24, 2: 23}, 7, {0: 3, 1: 2, 2: 2}),  # largest remainders would give 4, 2, 1
        ({0: 98, 1: 1, 2: 1}, 10, {0: 8, 1: 1, 2: 1}),
        ({0: 5, 1: 5}, 3, {0: 2, 1: 1}),
        ({}, 5, {}),
    ],
)
def test_proportional_seats_are_those_of_webster(sizes, total, expected):
    assert proportional_quotas(sizes, total) == expected


@given(TOPICS, TOTALS, st.integers(0, 5), st.randoms(use_true_random=False))
def test_a_draw_does_not_depend_on_the_order_of_documents_or_topics(sizes, total, seed, random):
    documents = _documents(sizes)
    topics = list(documents)
    random.shuffle(topics)
    shuffled = {topic: random.sample(documents[topic], len(documents[topic])) for topic in topics}
    assert draw(shuffled, total, seed) == draw(documents, total, seed)


@given(TOPICS, TOTALS)
def test_a_draw_fills_the_seats_of_each_topic(sizes, total):
    drawn = draw(_documents(sizes), total, seed=0)
    assert {topic: len(chosen) for topic, chosen in drawn.items()} == quotas(sizes, total)


@given(TOPICS, TOTALS)
def test_a_draw_takes_no_document_twice(sizes, total):
    drawn = draw(_documents(sizes), total, seed=0)
    assert all(len(set(chosen)) == len(chosen) for chosen in drawn.values())


@given(TOPICS, TOTALS)
def test_a_draw_takes_documents_of_each_topic_for_that_topic(sizes, total):
    documents = _documents(sizes)
    drawn = draw(documents, total, seed=0)
    assert all(set(chosen) <= set(documents[topic]) for topic, chosen in drawn.items())


@pytest.fixture(scope="module")
def grown():
    """A draw of two topics, and one after the first topic got one more document."""
    documents = _documents({0: 40, 1: 40})
    return draw(documents, 20, seed=0), draw(documents | {0: [*documents[0], "new"]}, 20, seed=0)


def test_a_new_document_displaces_none_of_another_topic(grown):
    before, after = grown
    assert before[1] == after[1]


def test_a_new_document_displaces_at_most_one_of_its_topic(grown):
    before, after = grown
    assert len(set(before[0]) - set(after[0])) <= 1


def _pool(sizes, seed=0):
    """Topics of these sizes, each around a direction of its own."""
    generator = np.random.default_rng(seed)
    topics = np.repeat(np.arange(len(sizes)), sizes)
    vectors = np.eye(len(sizes) + 2)[topics] + generator.normal(scale=0.05, size=(len(topics), len(sizes) + 2))
    return topics, (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def _by_name(topics, vectors, drawn):
    return {row.measure: row for row in measures(topics, lambda rows: vectors[rows], drawn, seed=0)}


@pytest.fixture(scope="module")
def one_of_each():
    """Measures of a draw of one prompt of every topic."""
    return _by_name(*_pool([60, 30, 6, 3, 1]), np.array([0, 60, 90, 96, 99]))


def test_one_prompt_of_every_topic_covers_all_topics(one_of_each):
    assert one_of_each["topic_coverage"].value == 1


def test_one_prompt_of_every_topic_is_even_over_topics(one_of_each):
    assert one_of_each["distance_to_even_topics"].value == 0


def test_random_samples_cover_fewer_topics(one_of_each):
    assert one_of_each["topic_coverage"].random_mean < 0.7


def test_one_prompt_of_every_topic_is_nearer_to_the_pool_than_random_samples(one_of_each):
    assert one_of_each["nearest_cosine"].value > one_of_each["nearest_cosine"].random_mean


def test_a_measure_says_how_many_prompts_of_how_large_a_pool_it_is_about(one_of_each):
    assert (one_of_each["topic_coverage"].prompts, one_of_each["topic_coverage"].pool) == (5, 100)


def test_the_whole_pool_is_at_no_distance_of_itself():
    found = _by_name(*_pool([60, 30, 6]), np.arange(96))
    assert found["distance_to_pool_topics"].value == found["distance_to_pool_topics"].random_high == 0
    assert found["energy_distance_to_pool"].value == pytest.approx(0, abs=1e-6)
    assert found["nearest_cosine"].value == pytest.approx(1, abs=1e-6)


@pytest.fixture(scope="module")
def of_one_topic():
    """Measures of a draw of one topic of three alone."""
    return _by_name(*_pool([40, 40, 40]), np.arange(10))


def test_a_draw_of_one_topic_covers_that_topic_alone(of_one_topic):
    assert of_one_topic["topic_coverage"].value == pytest.approx(1 / 3, abs=1e-5)


def test_a_draw_of_one_topic_is_far_from_the_pool(of_one_topic):
    distance = of_one_topic["energy_distance_to_pool"]
    assert distance.value > 2 * distance.random_high


def test_an_empty_draw_has_no_measures():
    assert _by_name(*_pool([5]), np.array([], np.int64)) == {}


@pytest.fixture(scope="module")
def large_pool():
    """Rows of vectors that were asked for, and measures of two prompts of a large pool."""
    topics, vectors = _pool([6000, 4000])
    asked = []
    return asked, measures(topics, lambda rows: asked.append(rows) or vectors[rows], np.array([3, 7000]), seed=0)


def test_of_a_large_pool_only_some_vectors_are_read(large_pool):
    asked, _ = large_pool
    assert len(asked) == 1 and pool.POOL_MAX < len(asked[0]) <= 2 + pool.POOL_MAX + 2 * pool.RANDOM_SAMPLES


def test_a_large_pool_is_counted_whole(large_pool):
    _, found = large_pool
    assert {row.pool for row in found} == {10_000}


def test_energy_distance_is_that_of_its_definition():
    topics, vectors = _pool([5, 4])
    rows = np.array([0, 1, 6])

    def mean_distance(a, b):
        return np.mean([np.linalg.norm(x.astype(float) - y) for x in a for y in b])

    drawn = vectors[rows]
    expected = 2 * mean_distance(drawn, vectors) - mean_distance(drawn, drawn) - mean_distance(vectors, vectors)
    assert _by_name(topics, vectors, rows)["energy_distance_to_pool"].value == pytest.approx(expected, abs=1e-4)
