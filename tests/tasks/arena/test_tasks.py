"""Tasks for annotators: assignment with overlap, blind, resumed after a restart, and what they say of the crowd."""

import json
import re

import pytest

from flows.arena.tasks import open_tasks
from tests.voted_store import MODELS, voted

KEYS = {"ANN_KEY": "a" * 20, "BOB_KEY": "b" * 20, "CAT_KEY": "c" * 20}


@pytest.fixture
def store(tmp_path):
    return voted(tmp_path)


@pytest.fixture
def tasks(store, tmp_path, monkeypatch):
    """A function that opens a tasks file anew, as a restart does."""
    for name, key in KEYS.items():
        monkeypatch.setenv(name, key)

    def opened(**changes):
        annotators = {name.title()[:3]: name for name in KEYS}
        content = {"store": store.root, "lists": ["sheet"], "overlap": 2, "annotators": annotators} | changes
        file = tmp_path / "tasks.yaml"
        file.write_text(json.dumps(content))  # JSON is YAML
        return open_tasks(file)

    return opened


def test_each_battle_goes_to_two_annotators_who_see_no_model_and_no_vote(tasks, store, curate):
    opened, seen = tasks(), dict[str, set[str]]()
    votes = {row["battle_id"]: row["winner"] for row in store.read("battles").to_dicts()}
    crowd = {"model_a": "left", "model_b": "right", "tie": "tie", "tie_bothbad": "both bad"}
    assert opened.annotator("a" * 20) == "Ann" and opened.annotator("nobody's key") is None
    for turn in range(3 * len(MODELS)):
        who = ("Ann", "Bob", "Cat")[turn % 3]
        if turn == 4:
            opened = tasks()  # whoever has said something goes on where it was
        if (task := opened.next("sheet", who, "")) is None:
            continue
        shown = " ".join(text for _, text in task.texts)
        assert not re.search(r"\b(ant|bee|cat)\b", shown) and len(task.images) == 2 and len(task.texts) == 4
        battle = next(name for name in votes if f"Prompt {name[1:]}?" in shown)
        said = crowd[votes[battle]]
        if task.texts[1][1].startswith("Right") and said in ("left", "right"):  # the sides are exchanged
            said = {"left": "right", "right": "left"}[said]
        assert opened.give(task, [said], who) == ""
        seen.setdefault(task.key, set()).add(who)
    assert len(seen) == len(MODELS) and all(len(who) == 2 for who in seen.values())
    assert all(opened.next("sheet", who, "") is None for who in ("Ann", "Bob", "Cat"))
    code, out, err = curate("review", "results", "battles", "--store", store.root, "--json")
    found = [json.loads(line) for line in out.splitlines()]
    assert code == 0, err
    assert [row["accuracy"] for row in found if row.get("a") == "people"] == [1.0, 1.0, 1.0]


def test_what_somebody_is_looking_at_is_not_given_to_a_third_and_skipping_goes_on(tasks):
    opened = tasks(overlap=1)
    mine, theirs = opened.next("sheet", "Ann", ""), opened.next("sheet", "Bob", "")
    assert mine.key != theirs.key
    assert opened.next("sheet", "Ann", mine.key).key not in (mine.key, theirs.key)
    assert opened.give(theirs._replace(shown="0"), ["left"], "Bob").startswith("This item changed")
    assert "is no verdict of this queue" in opened.give(theirs, ["yes"], "Bob")


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"lists": ["experts"]}, "'experts'"),
        ({"lists": ["written"]}, "has nothing for the list 'written'"),
        ({"lists": ["preferences"]}, "a tasks file `bench`"),
        ({"overlap": 0}, "overlap"),
        ({"anotators": {}}, "unknown key 'anotators'"),
        ({"annotators": {}}, "annotators"),
        ({"annotators": {"Ann": "NO_KEY"}}, "is not set"),
        ({"annotators": {"Ann": "ANN_KEY", "Bob": "ANN_KEY"}}, "two annotators have one key"),
        ({"annotators": {"A\u202eB": "ANN_KEY"}}, "give a name on one line"),
        ({"annotators": {"Ann": "SHORT_KEY"}}, "fewer than 16 characters"),
        ({"store": "nowhere"}, "nowhere"),
    ],
)
def test_a_file_that_cannot_be_used_is_one_line(tasks, monkeypatch, changes, told):
    monkeypatch.setenv("SHORT_KEY", "short")
    with pytest.raises(Exception, match=re.escape(told)) as refused:
        tasks(**changes)
    assert "\n" not in str(refused.value) and "short" not in str(refused.value).replace("NO_", "")
