"""The share of failures of a chosen provider that holds a release."""

import pytest

from tasks.release.checks.failing import failing_lines

CHOSEN = {"categories": "openai"}


def run(asked: int, released: bool = False, stage: str = "measure_documents", **failed: int) -> dict:
    """The record of a run that asked for the categories of some items."""
    failures = {f"categories: {reason}": count for reason, count in failed.items()}
    stages = [{"stage": stage, "model_calls": {"categories": asked}, "failures": failures}]
    return {"funnel": {"lines": 1} if released else None, "stages": stages, "settings": {"providers": CHOSEN}}


def lines(*records: dict, share_max: float = 0.02) -> list[str]:
    return failing_lines(records, CHOSEN, share_max)


@pytest.mark.parametrize(("failed", "held"), [(2, False), (3, True)])
def test_a_larger_share_than_allowed_is_a_line(failed, held):
    assert bool(lines(run(100, timed_out=failed))) is held


def test_the_line_names_the_cause_before_what_follows_from_it():
    (line,) = lines(run(100, service_down=60, connection_failed=20))
    assert line == "categories=openai failed for 80 of 100 items, 80.0% (connection_failed 20, service_down 60)"


def test_items_over_the_budget_are_no_failure_and_do_not_dilute_one():
    assert lines(run(100, budget_reached=90)) == []
    (line,) = lines(run(100, budget_reached=90, connection_failed=10))
    assert "failed for 10 of 10 items" in line


def test_only_the_last_run_that_measured_counts():
    assert lines(run(100, timed_out=100), run(100)) == []
    assert lines(run(100), run(50, timed_out=50)) != []


def test_items_that_failed_before_the_last_release_do_not_hold_the_next():
    accepted = run(100, released=True, refused=2)
    assert lines(accepted, run(52, refused=2)) == []
    assert lines(accepted, run(52, refused=2, timed_out=20)) != []


def test_images_that_a_second_try_measured_did_not_fail():
    record = run(100, stage="take_in_images", timed_out=50)
    record["stages"] += run(50, stage="catch_up_images")["stages"]
    assert lines(record) == []
