"""What a rule holds is not released until somebody has looked, and a verdict is about what was looked at."""

import pytest

from tasks.review.held import HeldQueue
from tasks.review.review_queue import review_of
from tasks.storage.reviews import add_reviews
from tests.builders import NOON, battle, conversation, facts_frame, sides

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


def review(store, verdict):
    """Give every held conversation a verdict."""
    queue = HeldQueue()
    add_reviews(store, [review_of(queue, item, verdict, "", NOON) for item in queue.waiting(store)])


def test_what_is_held_is_not_kept_and_what_is_dropped_as_well_is_not_held(holding):
    decided = holding.decide()
    assert {name: (row["keep"], row["held"]) for name, row in decided.items()} == {
        "odd": (False, True),
        "bad": (False, False),
        "good": (True, False),
    }
    assert decided["odd"]["reasons"] == ["odd_image"]


@pytest.mark.parametrize(("verdict", "keep", "tags"), [("release", True, ["odd_image"]), ("drop", False, [])])
def test_a_verdict_decides(holding, verdict, keep, tags):
    holding.decide()
    review(holding.store, verdict)
    row = holding.decide()["odd"]
    assert (row["keep"], row["held"], row["tags"]) == (keep, False, tags)


def test_a_release_does_not_cover_a_reason_that_came_later(holding):
    subject = holding.decide()["odd"]
    review(holding.store, "release")
    answer = holding.store.read("conversations").filter(conversation_id="odd")["turns"][0][1]["text_id"]
    leaked = facts_frame("model_names", {answer: {"names": ["gpt"]}})
    others = holding.store.read("signals/model_names").filter(content_id=answer)
    assert others.height == 1 and subject["held"]
    rest = holding.store.read("signals/model_names").join(others, on="content_id", how="anti")
    holding.store.replace("signals/model_names", rest.vstack(leaked))
    row = holding.decide()["odd"]
    assert (row["keep"], row["reasons"], row["tags"]) == (False, ["leaked"], ["odd_image"])


def test_a_conversation_that_grew_is_held_again(holding):
    holding.decide()
    review(holding.store, "release")
    reviews = holding.store.read("reviews")
    holding.given([conversation("odd", "A", "B", "C", "D", image_ids=[ODD])], facts=ODD_FACTS)
    holding.store.replace("reviews", reviews)
    assert holding.decide()["odd"]["held"]


def test_a_battle_is_held_with_its_side_and_released_with_it(deciding):
    left, right = sides("b", image_ids=[ODD])
    deciding.given([left, right], [battle(left, right)], facts=ODD_FACTS).under(POLICY)
    assert deciding.decide()["battle:b"]["held"]
    review(deciding.store, "release")
    assert deciding.decide()["battle:b"]["keep"]
