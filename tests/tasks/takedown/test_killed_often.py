"""What was acknowledged outlives SIGKILL; `python -m tests.killed_often` kills fifty times, and more kinds of work."""

import pytest

from tests.killed_often import killed


@pytest.mark.parametrize("kind", ["review", "takedown", "migrate", "compact"])
def test_nothing_acknowledged_is_lost_by_a_kill(store, kind):
    times, acknowledged, lost = killed(kind, store, times=1, seed=1, seconds_max=0.3)
    assert acknowledged >= times and lost == set()
