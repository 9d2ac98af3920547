"""How the messages of a battle stand on its page: what was asked of both sides once, with both answers beside it."""

from schemas.items.review import Stretch
from tasks.shown import ShownMessage, ShownSide, rounds


def _side(*texts: str) -> ShownSide:
    """A side whose messages are a question, an answer, a question, …"""
    roles = ("user", "assistant")
    return ShownSide("m", [ShownMessage(roles[n % 2], [Stretch(text)]) for n, text in enumerate(texts)])


def _texts(messages: list[ShownMessage]) -> list[str]:
    return [message.parts[0].text for message in messages]


def test_a_question_that_both_sides_have_stands_once_in_each_round():
    made = rounds([_side("q", "a", "r", "b"), _side("q", "c", "r", "d")])
    assert [_texts(each.asked) for each in made] == [["q"], ["r"]]
    assert [[_texts(side) for side in each.of_sides] for each in made] == [[["a"], ["c"]], [["b"], ["d"]]]


def test_questions_that_differ_stand_on_their_sides():
    (only,) = rounds([_side("q", "a"), _side("other", "c")])
    assert only.asked == []
    assert [_texts(side) for side in only.of_sides] == [["q", "a"], ["other", "c"]]


def test_a_side_that_ended_earlier_has_an_empty_last_round():
    made = rounds([_side("q", "a"), _side("q", "c", "r", "d")])
    assert [_texts(side) for side in made[-1].of_sides] == [[], ["r", "d"]]


def test_no_message_is_lost_for_a_side_without_a_question():
    made = rounds([ShownSide("m", [ShownMessage("assistant", [Stretch("a")])]), _side("q", "c")])
    assert [[_texts(side) for side in each.of_sides] for each in made] == [[["a"], ["q", "c"]]]
