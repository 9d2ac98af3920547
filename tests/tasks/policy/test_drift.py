"""A reason that drops another share of what is new than it used to holds the run before its release."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.errors import DriftHeld
from schemas.policy import DriftBand, policy_hash
from schemas.run import DropCounts, StageReport
from schemas.settings import Settings
from tasks.policy.drift import drift_lines, drop_counts
from tasks.policy.policy_file import load_policy
from tasks.policy.steps import watch_drift
from tasks.storage.run_record import RunRecord, earlier_drops
from tests.builders import NOON, conversation, decision, store_with

BAND = DriftBand()


def nights(*each: tuple[int, int], reason: str = "face", policy: str = "p") -> list[DropCounts]:
    """What runs counted that added (new, dropped) conversations each."""
    totals, conversations, dropped = [], 0, 0
    for new, some in each:
        conversations, dropped = conversations + new, dropped + some
        totals.append(DropCounts(policy_hash=policy, conversations=conversations, by_reason={reason: dropped}))
    return totals


USUAL = [(500, 50), (400, 43), (450, 41), (600, 66), (500, 47)]


def lines(*each: tuple[int, int]) -> list[str]:
    *earlier, now = nights(*each)
    assert drift_lines(earlier, now, None) == [], "a policy without a band never holds"
    return drift_lines(earlier, now, BAND)


NO_DRIFT = {
    "a share like the earlier ones": [*USUAL, (500, 55)],
    "too few runs": [*USUAL[:4], (500, 500)],
    "the first run": [(500, 500)],
    "runs that differ much": [(500, 50), (500, 200), (500, 20), (500, 240), (500, 100), (500, 220)],
}


@pytest.mark.parametrize("runs", NO_DRIFT.values(), ids=NO_DRIFT)
def test_no_drift_is_seen_within_the_band_or_without_enough_runs_for_one(runs):
    assert lines(*runs) == []


def test_a_share_far_above_or_below_names_reason_share_and_band():
    (line,) = lines(*USUAL, (500, 200))
    assert line.startswith("face drops 40.0% of 500 new conversations, outside ")
    assert "(5 earlier runs: 10.1%)" in line
    assert lines(*USUAL, (500, 10))


def test_a_filter_that_has_gone_silent_is_drift_although_it_never_dropped_much():
    rare = [(1000, 30), (1000, 28), (1000, 33), (1000, 31), (1000, 29)]
    assert lines(*rare, (1000, 0))
    assert lines(*rare, (1000, 20)) == []


def test_too_few_new_conversations_say_nothing():
    assert lines(*USUAL, (BAND.conversations_min - 1, 99)) == []
    assert lines(*USUAL, (BAND.conversations_min, 99))


def test_a_reason_that_is_new_is_drift():
    *_, last = earlier = nights(*USUAL)
    now = DropCounts(policy_hash="p", conversations=last.conversations + 500, by_reason={"unmeasured_nsfw": 500})
    assert any(line.startswith("unmeasured_nsfw drops 100.0%") for line in drift_lines(earlier, now, BAND))


@given(st.lists(st.tuples(st.integers(0, 400), st.integers(0, 400)).map(lambda t: (max(t), min(t))), max_size=9))
def test_the_same_input_again_is_never_drift(runs):
    totals = nights((1, 0), *runs)
    assert drift_lines(totals, totals[-1], BAND) == []


def _store(folder, faces: int, others: int):
    """A decided store: conversations dropped for a face, and kept ones, under the shipped policy."""
    policy = load_policy("public_release")
    items = [conversation(conversation_id=f"c{n}") for n in range(faces + others)]
    decisions = [decision(item, *(["face"] if n < faces else [])) for n, item in enumerate(items)]
    stamped = [each.model_copy(update={"policy_hash": policy_hash(policy)}) for each in decisions]
    store = store_with(folder, decisions=stamped)
    store.write_bytes(f"policies/{policy_hash(policy)}.json", policy.model_dump_json().encode())
    return store


def _record(store, drops: DropCounts, number: int) -> None:
    report = StageReport(stage="drift", drops=drops)
    RunRecord(store, Settings(store=store.root), NOON + timedelta(days=number)).add(report)


def test_a_run_holds_until_somebody_accepts_and_then_never_again_for_the_same_input(tmp_path):
    store, settings = _store(tmp_path, faces=200, others=2700), Settings(store=str(tmp_path / "store"))
    hashed = policy_hash(load_policy("public_release"))
    for number, drops in enumerate(nights(*USUAL, policy=hashed)):
        _record(store, drops.model_copy(update={"by_reason": {"face": 10 * number}}), number)
    with pytest.raises(DriftHeld, match=r"held before the release: face drops .* with accept_drift"):
        watch_drift.fn(settings)
    accepted = watch_drift.fn(settings.model_copy(update={"accept_drift": True}))
    assert accepted.counts == {"outside_band": 1}
    RunRecord(store, settings, NOON + timedelta(days=9)).add(accepted)
    assert watch_drift.fn(settings).counts == {"outside_band": 0}


def test_runs_under_another_policy_are_no_history(tmp_path):
    store = _store(tmp_path, faces=200, others=2700)
    for number, drops in enumerate(nights(*USUAL, policy="another")):
        _record(store, drops, number)
    assert len(earlier_drops(store)) == len(USUAL)
    assert watch_drift.fn(Settings(store=store.root)).counts == {"outside_band": 0}


def test_only_conversations_are_counted_and_every_reason_that_fired(tmp_path):
    decisions = _store(tmp_path, faces=2, others=3).read("decisions")
    assert drop_counts([decisions]).by_reason == {"face": 2}
    assert drop_counts(decisions.iter_slices(2)).conversations == 5


def test_the_band_decides_nothing_about_a_conversation_so_it_changes_no_policy_hash():
    policy = load_policy("public_release")
    assert policy_hash(policy.model_copy(update={"drift": None})) == policy_hash(policy)
