"""Nearest neighbours: of all pairs, and of many vectors by the cells around them."""

import numpy as np
import pytest

from tasks.sample import cells
from tasks.sample.cells import cell_means, nearest_others
from tasks.sample.neighbours import nearest


def _unit(rows):
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


@pytest.fixture(scope="module")
def planted():
    """2,000 unit vectors in 24 dimensions: nineteen twentieths around ten directions, the others anywhere."""
    random = np.random.default_rng(3)
    near = random.normal(size=(10, 24))[random.integers(0, 10, 1_900)] + random.normal(scale=0.5, size=(1_900, 24))
    return _unit(random.permutation(np.vstack([near, random.normal(size=(100, 24))])))


def _all_pairs(vectors, count):
    cosines = vectors @ vectors.T
    np.fill_diagonal(cosines, -np.inf)
    return np.argsort(-cosines, axis=1, kind="stable")[:, :count]


def _recall(rows, exact):
    return np.mean([len(set(a) & set(b)) / exact.shape[1] for a, b in zip(rows, exact, strict=True)])


def test_neighbours_are_those_of_all_pairs_in_order_with_their_distances(planted):
    rows, distances = nearest(planted, planted, 14, exclude_self=True, workers=2)
    assert _recall(rows, _all_pairs(planted, 14)) == 1
    assert (np.diff(distances, axis=1) >= 0).all()
    assert distances == pytest.approx(1 - np.einsum("nd,nkd->nk", planted, planted[rows]), abs=1e-5)


def test_queries_of_their_own_may_find_themselves_and_are_many_blocks(planted):
    rows, distances = nearest(planted, planted[300:1500], 3)
    assert rows[:, 0].tolist() == list(range(300, 1500))
    assert distances[:, 0] == pytest.approx(0, abs=1e-6)


def test_more_columns_than_a_block_has_are_all_searched(monkeypatch, planted):
    monkeypatch.setattr("tasks.sample.neighbours.COLUMNS", 300)
    rows, _ = nearest(planted, planted, 14, exclude_self=True)
    assert _recall(rows, _all_pairs(planted, 14)) == 1


def test_of_equally_near_ones_the_lower_row_is_taken():
    rows, distances = nearest(np.ones((9, 1), np.float32), np.ones((2, 1), np.float32), 4)
    assert rows.tolist() == [[0, 1, 2, 3]] * 2
    assert (distances == 0).all()


def test_fewer_vectors_than_neighbours_have_as_many_as_there_are(planted):
    assert nearest(planted[:5], planted[:5], 14, exclude_self=True)[0].shape == (5, 4)
    assert nearest(planted[:5], planted[:7], 14)[0].shape == (7, 5)


def test_cells_find_nearly_all_neighbours_and_all_of_whoever_is_alone(planted, monkeypatch):
    exact = _all_pairs(planted, 14)
    alone = np.argsort(np.sort(planted @ planted.T)[:, -15])[:100]  # those whose fourteenth is farthest
    monkeypatch.setattr(cells, "EXACT_MAX", 1_000)
    monkeypatch.setattr(cells, "PROBES", 2)
    monkeypatch.setattr(cells, "FAR_SHARE", 0.0)
    rows, _ = nearest_others(planted, 14)
    assert 0.8 < _recall(rows, exact) < 1
    assert _recall(rows[alone], exact[alone]) < 0.8
    monkeypatch.undo()
    monkeypatch.setattr(cells, "EXACT_MAX", 1_000)
    rows, distances = nearest_others(planted, 14, workers=2)
    assert _recall(rows, exact) > 0.98
    assert _recall(rows[alone], exact[alone]) == 1
    assert (np.diff(distances, axis=1) >= 0).all()
    assert distances == pytest.approx(1 - np.einsum("nd,nkd->nk", planted, planted[rows]), abs=1e-5)
    assert not (rows == np.arange(len(rows))[:, None]).any()


def test_threads_and_the_number_of_parts_do_not_change_what_cells_find(planted, monkeypatch):
    monkeypatch.setattr(cells, "EXACT_MAX", 1_000)
    monkeypatch.setattr(cells, "PART", 300)
    alone, together = (nearest_others(planted, 14, workers=workers) for workers in (1, 3))
    assert (alone[0] == together[0]).all()
    assert (alone[1] == together[1]).all()


def test_up_to_ten_thousand_vectors_are_compared_with_all(planted):
    assert cells.EXACT_MAX == 10_000
    assert (nearest_others(planted, 14)[0] == nearest(planted, planted, 14, exclude_self=True)[0]).all()


def test_one_whose_cells_hold_too_few_is_compared_with_all(planted, monkeypatch):
    monkeypatch.setattr(cells, "EXACT_MAX", 1_000)
    monkeypatch.setattr(cells, "PROBES", 1)
    rows, _ = nearest_others(planted, 60)
    assert (rows >= 0).all()
    sizes = np.bincount((planted @ cell_means(planted, 44).T).argmax(axis=1))
    assert sizes.min() <= 60  # so some had to look elsewhere


@pytest.mark.parametrize("far_share", [0.1, 1.0])
def test_equal_vectors_have_neighbours_too(monkeypatch, far_share):
    monkeypatch.setattr(cells, "EXACT_MAX", 100)
    monkeypatch.setattr(cells, "FAR_SHARE", far_share)
    rows, distances = nearest_others(_unit(np.ones((150, 3))), 14)
    assert not (rows == np.arange(150)[:, None]).any()
    assert distances == pytest.approx(0, abs=1e-6)
    assert all(len(set(row)) == 14 for row in rows.tolist())
