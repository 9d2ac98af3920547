"""Batches that end early, are late, refused or too large, and failing vendors."""

import pytest

pytest.importorskip("openai", reason="production extra")
from tasks.providers.production.batches.api import BatchApi

COUNT = 6


def signal_values(night):
    return dict(night.store.read("signals/categories").select("content_id", "ocr").iter_rows())


def records(night):
    return [path for path in night.store.fs.find(night.store.at("batches")) if path.endswith(".json")]


@pytest.mark.parametrize("ends", ["expired", "failed", "cancelled"])
def test_a_batch_that_ends_early_gives_what_it_has_and_the_rest_costs_nothing(night, server, ends):
    good, server.ends = server.lines, ends
    server.lines = lambda rows: good(rows[:2])
    report = night()
    answered = 0 if ends == "failed" else 2
    assert report.failures == {f"categories: batch_{ends}": COUNT - answered}
    (use,) = report.use.values()
    assert (len(signal_values(night)), use.usd_unconfirmed) == (answered, 0)
    server.ends, server.lines = "completed", good
    assert night().failures == {}
    assert len(signal_values(night)) == COUNT


def test_a_night_that_does_not_want_to_wait_leaves_the_batch_to_the_next(night, server):
    server.hold = True
    report = night(hours=0.0)
    assert report.failures == {"categories: batch_unfinished": COUNT}
    (use,) = report.use.values()
    assert use.usd_unconfirmed > 0
    assert len(records(night)) == 1
    server.hold = False
    report = night()
    assert report.failures == {}
    assert [use.usd > 0 for use in report.use.values()] == [True]
    assert (len(server.batches), len(server.requests), records(night)) == (1, COUNT, [])


def test_a_lost_answer_to_the_making_of_a_batch_does_not_make_two(night, server):
    server.lose_creates = 1
    assert night().failures == {}
    assert len(server.batches) == 1


def test_a_refused_batch_is_a_failure_that_costs_nothing(night, server):
    server.refuse_create = 1
    report = night()
    assert report.failures == {"categories: http_400": COUNT}
    (use,) = report.use.values()
    assert (use.usd, use.usd_unconfirmed) == (0, 0)
    assert records(night) == []
    assert night().failures == {}


def test_a_vendor_that_is_down_for_a_while_and_a_cut_download_are_survived(night, server):
    server.fail_polls, server.cut_downloads = 7, 1
    assert night().failures == {}
    assert len(server.batches) == 1


def test_only_what_the_budget_has_room_for_is_uploaded(night, server):
    night(budget=0.0)
    assert server.batches == {}
    most = 0.03
    report = night(budget=most)
    left = report.failures["categories: budget_reached"]
    assert 0 < left < COUNT
    assert len(server.requests) == COUNT - left == len(signal_values(night))
    assert sum(use.usd for use in report.use.values()) <= most
    night()
    assert (len(server.requests), len(signal_values(night))) == (COUNT, COUNT)


def test_questions_are_split_to_the_limits_of_the_vendor(night, server, monkeypatch):
    for api in BatchApi.__subclasses__():
        monkeypatch.setattr(api, "requests_max", 4)
    assert night().failures == {}
    assert sorted(len(server.files[batch["file"]].splitlines()) for batch in server.batches.values()) == [2, 4]
    night.store.replace("signals/categories", night.store.empty("signals/categories"))
    for api in BatchApi.__subclasses__():
        monkeypatch.setattr(api, "requests_max", 50_000)
        monkeypatch.setattr(api, "bytes_max", 2 * max(map(len, server.files["f0"].splitlines())) + 100)
    assert night().failures == {}
    assert [len(server.files[batch["file"]].splitlines()) for batch in list(server.batches.values())[2:]] == [2, 2, 2]


@pytest.mark.parametrize("night", ["gemini"], indirect=True)
def test_answers_that_come_with_the_state_are_read_too(night, server):
    server.inline = True
    assert night().failures == {}
    assert sorted(signal_values(night).values()) == [False] * 3 + [True] * 3
