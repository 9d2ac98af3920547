"""What a rule holds is not released until somebody has looked, and a verdict is about what was looked at."""

import csv
import io

import pytest

from schemas.errors import BadInput
from tasks.policy.review import held_csv, take_verdicts
from tests.builders import NOON, battle, conversation, facts_frame, sides, store_with

POLICY = """
name: careful
rules:
  - {reason: odd_image, signal: nsfw.nsfw_probability, over: images, at_least: 0.5, action: hold}
  - {reason: nsfw_image, signal: nsfw.nsfw_probability, over: images, at_least: 0.8}
  - {reason: leaked, signal: model_names.names, over: assistant_messages, contains_any: [], action: hold}
"""
ODD, BAD = "1" * 32, "2" * 32
ODD_FACTS = {"nsfw": {ODD: {"nsfw_probability": 0.6}, BAD: {"nsfw_probability": 0.9}}}


@pytest.fixture
def holding(deciding):
    subjects = [conversation("odd", image_ids=[ODD]), conversation("bad", image_ids=[BAD]), conversation("good")]
    return deciding.given(subjects, facts=ODD_FACTS).under(POLICY)


def taken(store, file, reviewer="", now=NOON):
    return take_verdicts(store, file, reviewer, now)


def filled_in(deciding, tmp_path, verdict: str):
    rows = list(csv.DictReader(io.StringIO(held_csv(deciding.store))))
    file = tmp_path / "review.csv"
    with file.open("w", newline="") as sink:
        writer = csv.DictWriter(sink, rows[0].keys())
        writer.writeheader()
        writer.writerows(row | {"verdict": verdict} for row in rows)
    return file


def test_what_is_held_is_not_kept_and_what_is_dropped_as_well_is_not_held(holding):
    decided = holding.decide()
    assert {name: (row["keep"], row["held"]) for name, row in decided.items()} == {
        "odd": (False, True),
        "bad": (False, False),
        "good": (True, False),
    }
    assert decided["odd"]["reasons"] == ["odd_image"]


def test_the_list_names_what_waits_and_why_and_nothing_else(holding):
    holding.decide()
    (row,) = csv.DictReader(io.StringIO(held_csv(holding.store)))
    assert (row["conversation_id"], row["reasons"], row["verdict"]) == ("odd", "odd_image", "")


@pytest.mark.parametrize(("verdict", "keep", "tags"), [("release", True, ["odd_image"]), ("DROP", False, [])])
def test_a_verdict_decides(holding, tmp_path, verdict, keep, tags):
    holding.decide()
    taken(holding.store, filled_in(holding, tmp_path, verdict))
    row = holding.decide()["odd"]
    assert (row["keep"], row["held"], row["tags"]) == (keep, False, tags)


def test_no_verdict_leaves_it_held(holding, tmp_path):
    holding.decide()
    assert taken(holding.store, filled_in(holding, tmp_path, "")) == {"release": 0, "drop": 0}
    assert holding.decide()["odd"]["held"]


def test_a_later_verdict_replaces_the_earlier_one(holding, tmp_path):
    holding.decide()
    file = filled_in(holding, tmp_path, "release")
    taken(holding.store, file)
    file.write_text(file.read_text().replace("release", "drop"))
    taken(holding.store, file)
    assert holding.store.read("reviews")["verdict"].to_list() == ["drop"]
    assert not holding.decide()["odd"]["keep"]


def test_a_release_does_not_cover_a_reason_that_came_later(holding, tmp_path):
    subject = holding.decide()["odd"]
    taken(holding.store, filled_in(holding, tmp_path, "release"))
    answer = holding.store.read("conversations").filter(conversation_id="odd")["turns"][0][1]["text_id"]
    leaked = facts_frame("model_names", {answer: {"names": ["gpt"]}})
    others = holding.store.read("signals/model_names").filter(content_id=answer)
    assert others.height == 1 and subject["held"]
    rest = holding.store.read("signals/model_names").join(others, on="content_id", how="anti")
    holding.store.replace("signals/model_names", rest.vstack(leaked))
    row = holding.decide()["odd"]
    assert (row["keep"], row["reasons"], row["tags"]) == (False, ["leaked"], ["odd_image"])


def test_a_conversation_that_grew_is_held_again(holding, tmp_path):
    holding.decide()
    taken(holding.store, filled_in(holding, tmp_path, "release"))
    reviews = holding.store.read("reviews")
    holding.given([conversation("odd", "A", "B", "C", "D", image_ids=[ODD])], facts=ODD_FACTS)
    holding.store.replace("reviews", reviews)
    assert holding.decide()["odd"]["held"]


def test_a_battle_is_held_with_its_side_and_released_with_it(deciding, tmp_path):
    left, right = sides("b", image_ids=[ODD])
    deciding.given([left, right], [battle(left, right)], facts=ODD_FACTS).under(POLICY)
    assert deciding.decide()["battle:b"]["held"]
    taken(deciding.store, filled_in(deciding, tmp_path, "release"))
    assert deciding.decide()["battle:b"]["keep"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("conversation_id,verdict\nodd,release\n", "line 1: needs the columns"),
        ("id,verdict\nodd,release\n", "line 1: needs the columns"),
        ('{"verdict": "release"}\n', "line 1: needs the columns"),
        ("", "line 1: needs the columns"),
        ("conversation_id,content_id,reasons,verdict\nodd,x,y,maybe\n", "line 2: verdict 'maybe'"),
        ("conversation_id,content_id,reasons,verdict\nodd,x\n", "line 2: needs the columns"),
    ],
)
def test_a_line_that_cannot_be_used_takes_no_verdict_at_all(tmp_path, text, said):
    file = tmp_path / "review.csv"
    file.write_text(text)
    store = store_with(tmp_path)
    with pytest.raises(BadInput, match=said):
        taken(store, file)
    assert store.read("reviews").is_empty()
