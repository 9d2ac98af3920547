"""Night over night: old documents keep their topics, a fit is made only when it is due, and history leaves no trace."""

from datetime import date, timedelta

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.items.reject import TakenDownKind, Tombstone
from schemas.settings import Settings, TopicSettings
from tasks.storage.tables import Store, frame_of
from tasks.topics.cluster import REFERENCE_MAX, assign, reach_of
from tasks.topics.engines import Clustering
from tasks.topics.fit import TABLE, AskedDocuments, TopicDocuments, fit_and_assign, fit_day, largest_step
from tests.builders import NOON

FIRST = date(2024, 9, 1)
CHOSEN = {"members_min": 10, "neighbours": 10}


def planted_documents(counts, seed=0, topics=4):
    """Days, ids and vectors of so many documents a day, in order of id."""
    random = np.random.default_rng(seed)
    total = sum(counts)
    owner = random.integers(0, topics, total)
    vectors = np.eye(32)[owner] + random.normal(scale=0.08, size=(total, 32))
    vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    days = np.repeat([FIRST + timedelta(n) for n in range(len(counts))], counts)
    order = random.permutation(total)
    ids = pl.Series([f"{n:032x}" for n in range(total)])
    return pl.Series("day", list(days[order])), ids, vectors[order]


def _until(documents, day):
    days, ids, vectors = documents
    among = (days <= FIRST + timedelta(day)).to_numpy()
    return days.filter(among), ids.filter(among), vectors[among]


def _find(store, documents, kept=None, decided_by="a", asked=None, redraw=False, seed=0, **chosen):
    """Topics of documents that were asked, of which some are kept; by default all of both."""
    settings = Settings(store=store.root, redraw=redraw, seed=seed, topics=TopicSettings(**CHOSEN | chosen))
    every = np.ones(len(documents[1]), bool)
    kept, asked = (every if some is None else some for some in (kept, asked))
    days = pl.DataFrame({"document_id": documents[1], "day": documents[0]}).filter(pl.Series(asked))
    topics = fit_and_assign(
        store, TopicDocuments(*documents, kept, kept), AskedDocuments(days, decided_by, decided_by), settings
    )
    topics.write(store)
    return topics


@pytest.fixture
def store(tmp_path):
    return Store.open(str(tmp_path / "store"))


def test_a_night_with_few_new_prompts_leaves_every_old_label_and_costs_no_fit(store):
    documents = planted_documents([300, 3])
    before = _find(store, _until(documents, 0))
    after = _find(store, documents)
    assert before.fit.new
    assert not after.fit.new
    old = (documents[0] == FIRST).to_numpy()
    assert (after.found.labels[old] == before.found.labels).all()
    assert (after.found.positions[old] == before.found.positions).all()
    assert (after.found.labels[~old] >= 0).all()


def test_a_new_prompt_joins_the_topic_it_is_nearest_to(store):
    documents = planted_documents([300, 30])
    found = _find(store, documents).found
    old = (documents[0] == FIRST).to_numpy()
    planted = documents[2].argmax(axis=1)
    topic_of = {number: np.bincount(found.labels[old & (planted == number)]).argmax() for number in range(4)}
    joined = ~old & (found.labels >= 0)
    assert joined.sum() >= 28  # of 30; one in a hundred is expected beyond the reach of the fitted ones
    assert [topic_of[number] for number in planted[joined]] == found.labels[joined].tolist()
    assert (found.probabilities[joined] > 0.9).all()


def test_nights_one_by_one_end_where_all_at_once_ends_and_the_kept_fit_is_only_a_cache(store, tmp_path):
    documents = planted_documents([120, 20, 15, 60, 5])
    for day in range(5):
        nightly = _find(store, _until(documents, day))
    for again in (_find(Store.open(str(tmp_path / "fresh")), documents), _find(store, documents)):
        assert (again.found.labels == nightly.found.labels).all()
        assert (again.found.probabilities == nightly.found.probabilities).all()
        assert (again.found.positions == nightly.found.positions).all()


def _without(store, documents, gone):
    """The documents, and the kept fit, after a takedown of some."""
    stays = ~documents[1].is_in(gone)
    store.replace(TABLE, store.read(TABLE).filter(~pl.col("document_id").is_in(gone)))
    store.replace(
        "takedowns", frame_of(Tombstone, [Tombstone(key="k", kind=TakenDownKind.CONVERSATION, taken_down_at=NOON)])
    )
    return documents[0].filter(stays), documents[1].filter(stays), documents[2][stays.to_numpy()]


def _flipped(kept, count, seed):
    """Another policy's choice: so many documents, drawn, come in or go out."""
    flipped = kept.copy()
    flipped[np.random.default_rng(seed).choice(len(kept), count, replace=False)] ^= True
    return flipped


def _places(topics, among):
    return topics.found.labels[among].tolist(), topics.found.positions[among].tolist()


def test_another_policy_moves_no_topic_and_one_that_is_undone_leaves_no_trace(store):
    documents = planted_documents([150, 10])
    kept = _flipped(np.ones(160, bool), 20, seed=9)
    before = _find(store, documents, kept)
    for seed in range(8):
        other = _flipped(kept, 1 + 5 * seed, seed)
        after = _find(store, documents, other, f"policy {seed}")
        assert (after.fit.new, after.fit.about.policy_hash) == (False, "a")
        assert _places(after, kept & other) == _places(before, kept & other)
    undone = _find(store, documents, kept)
    assert (undone.fit.new, undone.fit.stands) == (False, False)
    assert _places(undone, kept) == _places(before, kept)


@pytest.mark.parametrize(
    "changed", ["lines of that day came, too", "a fit is due, too", "the same decided", "redraw", "few are left"]
)
def test_a_fit_is_made_anew_where_more_than_the_policy_changed_or_too_little_of_it_is_left(store, changed):
    documents = planted_documents([150, 50])
    first = (documents[0] == FIRST).to_numpy()
    kept = first & _flipped(np.ones(200, bool), 20, seed=9)
    asked = first if changed != "lines of that day came, too" else first & (np.arange(200) != first.argmax())
    _find(store, documents, kept, asked=asked)
    other = np.arange(200) < 10 if changed == "few are left" else first & _flipped(kept, 5, seed=1)
    if changed == "a fit is due, too":
        first, other = np.ones(200, bool), other | ~first
    decided_by = "a" if changed == "the same decided" else "b"
    after = _find(store, documents, other, decided_by, asked=first, redraw=changed == "redraw")
    assert (after.fit.new, after.fit.about.policy_hash) == (True, decided_by)


@pytest.mark.parametrize("lets_in", [True, False])
def test_what_a_policy_lets_in_or_drops_says_nothing_about_drift(store, lets_in):
    documents = planted_documents([300, 45, 3])
    late = (documents[0] == FIRST + timedelta(1)).to_numpy()
    documents[2][late] = np.roll(documents[2][late], 20, axis=1)  # topics that nobody had heard of
    among = (documents[0] <= FIRST + timedelta(1)).to_numpy()
    one, other = (among & ~late, among) if lets_in else (among, among & ~late)
    before = _find(store, documents, one, asked=among)
    assert len(before.fit.rows) == (300 if lets_in else 345)
    after = _find(store, documents, other, "b", asked=among)
    assert (after.fit.new, after.fit.about.model) == (False, before.fit.about.model)
    assert _places(after, one & other) == _places(before, one & other)


def test_a_policy_in_a_store_with_takedowns_moves_no_topic_either(store):
    documents = planted_documents([150])
    before = _find(store, documents)
    stays = np.arange(150) != 7
    left = _without(store, documents, documents[1][[7]])
    after = _find(store, left, _flipped(np.ones(149, bool), 5, seed=1), "b")
    assert (after.fit.new, after.found.labels.tolist()) == (False, before.found.labels[stays].tolist())


def test_takedowns_leave_the_topics_of_all_other_documents(store):
    documents = planted_documents([200, 40])
    labels = dict(zip(documents[1], _find(store, documents).found.labels, strict=True))
    for gone in (documents[1][[3]], documents[1][[50, 60]]):
        documents = _without(store, documents, gone)
        after = _find(store, documents)
        assert not after.fit.new
        assert dict(zip(documents[1], after.found.labels, strict=True)).items() <= labels.items()
    assert set(store.read(TABLE)["document_id"]) <= set(documents[1])


def test_a_document_that_others_asked_later_stays_where_it_was(store):
    documents = planted_documents([300, 3])
    labels = _find(store, documents).found.labels
    days, ids, vectors = _without(store, documents, [])
    moved = days.scatter((days == FIRST).arg_true()[0], FIRST + timedelta(1))
    after = _find(store, (moved, ids, vectors))
    assert (after.fit.new, len(after.fit.rows)) == (False, 300)
    assert (after.found.labels == labels).all()


@pytest.mark.parametrize("changed", ["a vector", "the seed", "another document went too"])
def test_what_a_takedown_left_of_a_fit_of_something_else_is_not_used(store, changed):
    documents = planted_documents([200])
    _find(store, documents)
    days, ids, vectors = _without(store, documents, documents[1][[3]])
    if changed == "a vector":
        vectors = np.concatenate([-vectors[:1], vectors[1:]])
    elif changed == "another document went too":
        days, ids, vectors = days[1:], ids[1:], vectors[1:]
    assert _find(store, (days, ids, vectors), seed=int(changed == "the seed")).fit.new


@pytest.mark.parametrize("changed", ["a vector", "a document is gone"])
def test_a_kept_fit_of_something_else_is_not_used(store, changed):
    days, ids, vectors = planted_documents([200])
    before = _find(store, (days, ids, vectors))
    if changed == "a vector":
        vectors = vectors.copy()
        vectors[0] = -vectors[0]
    else:  # as after a takedown
        store.replace(TABLE, store.read(TABLE)[1:])
    after = _find(store, (days, ids, vectors))
    assert before.fit.new
    assert after.fit.new
    assert (after.found.labels == before.found.labels).all() == (changed != "a vector")


def test_only_the_first_fitted_documents_vote():
    """The last ones are of another topic, and are those that ask."""
    _, _, asking = planted_documents([30])
    vectors = np.concatenate([np.resize(-asking, (REFERENCE_MAX, asking.shape[1])), asking])
    count = len(vectors)
    labels = np.where(np.arange(count) < REFERENCE_MAX, 0, 1).astype(np.int32)
    model = Clustering(labels, np.ones(count, np.float32), np.zeros((count, 2), np.float32))
    assert set(assign(vectors, model, np.inf, asking)[0].labels.tolist()) == {0}


def _unit(generator: np.random.Generator, count: int, dimension: int) -> np.ndarray:
    vectors = generator.normal(size=(count, dimension))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


@pytest.mark.parametrize(("seed", "dimension"), [(0, 96), (1, 384), (2, 512)])
def test_a_document_is_assigned_with_the_same_bits_whatever_others_are_beside_it(seed, dimension):
    """A night that was killed in the middle has other documents beside it than a calm one."""
    generator = np.random.default_rng(seed)
    fitted, asking = _unit(generator, 301, dimension), _unit(generator, 700, dimension)
    labels, places = generator.integers(-1, 9, 301).astype(np.int32), generator.normal(size=(301, 2))
    model = Clustering(labels, np.ones(301, np.float32), places.astype(np.float32))
    together = assign(fitted, model, np.inf, asking)[0]
    for first in (1, 3, 7, 699):
        alone = assign(fitted, model, np.inf, asking[first:])[0]
        assert np.array_equal(together.positions[first:], alone.positions)
        assert np.array_equal(together.probabilities[first:], alone.probabilities)


def test_votes_weigh_by_cosine_and_the_winners_give_probability_and_place():
    angles = np.deg2rad([0, 20, 60])
    fitted = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
    places = np.array([[100, 100], [10, 0], [20, 0]], np.float32)
    model = Clustering(np.array([1, 0, 0], np.int32), np.ones(3, np.float32), places)
    found = assign(fitted, model, np.inf, fitted[:1])[0]
    near, far = np.cos(angles[1:])
    assert found.labels.tolist() == [0]  # two to one, though the one is nearest
    assert found.probabilities[0] == pytest.approx((near + far) / (1 + near + far))
    assert found.positions[0] == pytest.approx([(10 * near + 20 * far) / (near + far), 0])


def test_reach_is_what_nearly_all_fitted_documents_stay_within_themselves_not_counted():
    _, _, vectors = planted_documents([300])
    cosines = np.sort(vectors @ vectors.T, axis=1)[:, ::-1]
    assert reach_of(vectors, 1) == pytest.approx(np.percentile((1 - cosines[:, 1:16]).mean(axis=1), 99), abs=1e-5)


def test_new_prompts_far_from_all_topics_have_everything_fitted_anew(store):
    days, ids, vectors = planted_documents([300, 40])
    vectors = vectors.copy()
    late = (days > FIRST).to_numpy()
    vectors[late] = np.roll(vectors[late], 20, axis=1)  # topics that nobody had heard of
    drifted = _find(store, (days, ids, vectors))
    assert len(drifted.fit.rows) == 340
    assert drifted.drifted > 0.9
    kept = _find(store, (days, ids, vectors), drift_max=1.0)
    assert len(kept.fit.rows) == 300
    assert (kept.found.labels[late] == -1).all()
    assert (kept.found.probabilities[late] == 0).all()
    again = _find(store, (days, ids, vectors))
    assert (again.found.labels == drifted.found.labels).all()


def test_after_drift_a_night_with_few_new_prompts_costs_no_fit(store):
    days, ids, vectors = planted_documents([300, 50, 3])
    vectors = vectors.copy()
    late = (days > FIRST).to_numpy()
    vectors[late] = np.roll(vectors[late], 20, axis=1)
    drifted = _find(store, _until((days, ids, vectors), 1))
    after = _find(store, (days, ids, vectors))
    assert (drifted.fit.new, after.fit.new, len(after.fit.rows)) == (True, False, 350)
    old = (days <= FIRST + timedelta(1)).to_numpy()
    assert (after.found.labels[old] == drifted.found.labels).all() and (after.found.labels[~old] >= 0).any()


def test_a_few_strange_prompts_are_outliers_and_no_reason_to_fit_anew(store):
    days, ids, vectors = planted_documents([300, 9])
    late = (days > FIRST).to_numpy()
    vectors[late] = np.roll(vectors[late], 20, axis=1)
    assert (_find(store, (days, ids, vectors)).found.labels[late] == -1).all()


def test_beyond_the_most_that_are_fitted_a_sample_is_and_the_rest_is_assigned(store):
    documents = planted_documents([600])
    found = _find(store, documents, fit_max=150)
    assert found.fit.rows.tolist() == list(range(150))  # lowest content ids
    planted = documents[2].argmax(axis=1)
    pairs = {(int(a), int(b)) for a, b in zip(planted, found.found.labels, strict=True) if b >= 0}
    assert len(pairs) == 4
    assert (found.found.labels >= 0).mean() > 0.95


def test_the_ladder_and_the_fit_day_are_as_documented():
    steps = [1, 2, 3, 4, 5, 7, 9, 12, 15, 19, 24]
    assert [n for n in range(1, 25) if largest_step(n, 1.25) == n] == steps
    assert [largest_step(n, 1.25) for n in (6, 14, 18)] == [5, 12, 15]
    days = pl.Series("day", np.repeat([FIRST, FIRST + timedelta(1), FIRST + timedelta(2)], [5, 1, 1]).tolist())
    assert fit_day(days[:6], 1.25) == FIRST  # the step of 6 is 5, which the first day reaches
    assert fit_day(days, 1.25) == FIRST + timedelta(2)  # that of 7 is 7


@given(st.integers(1, 10**7), st.floats(1.01, 10))
def test_at_most_one_growth_step_is_not_fitted(count, growth):
    step = largest_step(count, growth)
    assert step <= count < max(step + 1, growth * step + 1)


@given(st.lists(st.integers(0, 40), min_size=1, max_size=12).filter(any), st.floats(1.05, 3))
def test_enough_documents_were_asked_up_to_the_fit_day_and_not_up_to_the_day_before(counts, growth):
    days = pl.Series("day", [FIRST + timedelta(n) for n, count in enumerate(counts) for _ in range(count)], pl.Date)
    last = fit_day(days, growth)
    assert int((days < last).sum()) < largest_step(len(days), growth) <= int((days <= last).sum())
