"""Models are released, rated and reported under the names of the policy; ingest's tables keep those of the log."""

from datetime import UTC, datetime, timedelta

import pytest

from schemas.errors import BadPolicy
from schemas.items.conversation import UNDATED_BEFORE, Battle
from schemas.policy import Rename
from tasks.policy.policy_file import load_policy
from tasks.storage.queries.released import released_names, renamed
from tasks.storage.tables import frame_of
from tests.builders import NOON, battle, sides, store_with

SECOND = timedelta(seconds=1)


def _named(model: str, *renames: Rename, at: datetime = NOON) -> tuple[str, str]:
    votes = frame_of(Battle, [battle(*sides("b"), model_a=model, model_b="other", tstamp=at)])
    return renamed(votes, renames).select("model_a", "model_b").row(0)


def test_a_model_has_its_new_name_and_others_theirs():
    assert _named("bard", Rename(model="bard", to="palm-2")) == ("palm-2", "other")
    assert _named("bard-2", Rename(model="bard", to="palm-2")) == ("bard-2", "other")


@pytest.mark.parametrize(("seconds", "name"), [(-1, "gpt-4-0314"), (0, "gpt-4-0613"), (1, "gpt-4-0613")])
def test_a_date_tells_which_of_two_names_it_is(seconds, name):
    change = datetime(2024, 5, 1, 7, tzinfo=UTC)
    both = Rename(model="gpt-4", to="gpt-4-0314", until=change), Rename(model="gpt-4", to="gpt-4-0613", since=change)
    assert _named("gpt-4", *both, at=change + timedelta(seconds=seconds))[0] == name


def test_a_row_without_a_time_keeps_a_name_that_changed_some_day():
    undated = UNDATED_BEFORE - timedelta(minutes=59)
    assert _named("gpt-4", Rename(model="gpt-4", to="gpt-4-0314", until=NOON), at=undated)[0] == "gpt-4"
    assert _named("bard", Rename(model="bard", to="palm-2"), at=undated)[0] == "palm-2"


def test_a_day_without_a_zone_is_a_day_in_utc():
    day = Rename.model_validate({"model": "a", "to": "b", "since": "2024-05-01"})
    assert day.since == datetime(2024, 5, 1, tzinfo=UTC)


def test_a_name_changes_once_however_the_list_is_ordered():
    swap = [Rename(model="a", to="b"), Rename(model="b", to="a")]
    for renames in (swap, swap[::-1]):
        assert [_named(name, *renames)[0] for name in "ab"] == ["b", "a"]


def test_without_decisions_the_names_are_those_of_the_log(tmp_path):
    votes = [battle(*sides("b"))]
    store = store_with(tmp_path, battles=votes)
    assert released_names(store, store.read("battles")).equals(store.read("battles"))


@pytest.mark.parametrize(
    ("renames", "said"),
    [
        ("[{model: a, to: ''}]", "renames.1.to"),
        ("[{model: a, to: b, from: 2024-02-01}]", "unknown key at renames.1.from"),
        ("[{model: a, to: b, since: soon}]", "renames.1.since"),
        ("[{model: a, to: b, since: 2024-02-01, until: 2024-02-01}]", "not after since"),
        ("[{model: a, to: b}, {model: a, to: c, since: 2024-02-01}]", "'a' overlap"),
    ],
)
def test_a_rename_that_says_nothing_or_two_things_is_one_clear_line(tmp_path, renames, said):
    file = tmp_path / "mine.yaml"
    file.write_text(f"name: mine\nrules: []\nrenames: {renames}\n", encoding="utf-8")
    with pytest.raises(BadPolicy) as refused:
        load_policy(str(file))
    assert said in str(refused.value) and "\n" not in str(refused.value)
