"""An operator's change that was killed at any step is made and in the audit log, or neither."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from schemas.upkeep import ArenaSteering
from tasks.arena.admin.steering import Steering
from tests.killed_changes import BEFORE, CHANGES
from tests.served_arena import ROOT

SEEDS = range(int(os.environ.get("CURATE_KILLS", "2")))
STEPS_LEAST = 15


def logs_killed(place: Path, seed: int, *beside: str) -> list[Path]:
    """Folders of logs, each of an arena that was killed at another step of a change."""
    place.mkdir()
    command = [sys.executable, "-m", "tests.killed_changes", str(place), str(seed), *beside]
    subprocess.run(command, cwd=ROOT, check=True, timeout=300)
    return sorted(place.iterdir())


def made_of(folder: Path, abouts: list[str]) -> ArenaSteering:
    """The state after these changes, in an arena that nobody kills."""
    steering = Steering(folder)
    for about in abouts:
        steering.pause("dog", True) if about == BEFORE else CHANGES[about](steering)
    return steering.now()


@pytest.mark.parametrize("seed", SEEDS)
def test_after_a_kill_at_any_step_the_audit_log_has_exactly_the_changes_that_hold(tmp_path, seed):
    killed, outcomes = logs_killed(tmp_path / "killed", seed), set[tuple[str, int]]()
    for folder in killed:
        steering = Steering(folder)
        abouts = [entry.about for entry in steering.audited()]
        assert steering.now() == made_of(tmp_path / folder.name, abouts), folder.name
        assert sorted({file.name for file in folder.glob("admin*")} - {"admin.json"}) == [], "nothing is left over"
        outcomes.add((folder.name.partition("-")[0], len(abouts)))
        steering.limit(9)
        assert steering.now().usd_a_day_max == 9 and len(list(steering.audited())) == len(abouts) + 1
    assert outcomes == {("first", 0), ("first", 1), ("second", 1), ("second", 2)}
    assert len(killed) > 2 * STEPS_LEAST


@pytest.mark.parametrize("seed", SEEDS)
def test_a_process_beside_a_killed_one_shows_what_the_audit_log_says(tmp_path, seed):
    for folder in logs_killed(tmp_path / "killed", seed, "beside"):
        seen = ArenaSteering.model_validate_json((folder / "seen.json").read_bytes())
        abouts = [entry.about for entry in Steering(folder).audited()]
        assert seen == made_of(tmp_path / folder.name, abouts), folder.name
