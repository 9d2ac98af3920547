"""A verdict is what the judge's text states, in the words of its protocol."""

import pytest

from schemas.benches.judging import Label
from tasks.judging.labels import extracted, parse_label, parse_vote, verdict_in


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("My final verdict is: [[A>>B]]", Label.A_MUCH_BETTER),
        ("[[A<<B]] and so [[B>>A]]", Label.B_MUCH_BETTER),
        ("tie: [[B=A]].", Label.TIE),
        ("[[A<B]]", Label.B_BETTER),
        ("verdict [B>A]", Label.B_BETTER),
        ("either [A>B] or [B>A], so [[A=B]]", Label.TIE),
        ("$ERROR$\nso [[A>B]]", Label.A_BETTER),
        ("[[A >> B]]", Label.A_MUCH_BETTER),
        ("[[ B\u00a0= A ]] and [[A=B]]", Label.TIE),
        ("verdict [ B > A ]", Label.B_BETTER),
        ("[[A»B]]", Label.A_MUCH_BETTER),
        ("[[A ≪ B]]", Label.B_MUCH_BETTER),
        ("[[B &gt;&gt; A]]", Label.B_MUCH_BETTER),
        ("［［Ａ＞Ｂ］］", Label.A_BETTER),
        ("[[A >\n B]]", Label.A_BETTER),
        ("[[\u3000A\u200b>\u2009>\u200bB ]]", Label.A_MUCH_BETTER),
        ("[[A, B]] and [[(A>>B)]]", None),
        ("[[A>B]] or rather [[B>A]]", None),
        ("[[A]]", None),
        ("[[A>B>A]]", None),
        ("$ERROR$", None),
        ("", None),
    ],
)
def test_one_label_in_either_spelling_is_a_verdict_and_anything_else_is_none(text, label):
    assert parse_label(text) is label


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("[[A]] looks good, yet [[b]]", (True, Label.B_BETTER)),
        ('{"reasons": "[[B]]", "better": "A"}', (True, Label.A_BETTER)),
        ('{"better": "C"} [[none]]', (True, None)),
        ("A is better", (False, None)),
        ("[" * 20_000, (False, None)),
    ],
)
def test_the_structured_or_the_last_stated_verdict_counts(text, found):
    assert verdict_in(text) == found
    assert extracted(text) is None


def test_one_word_is_extracted():
    assert (extracted("Response B."), extracted("a"), extracted("A or B")) == (Label.B_BETTER, Label.A_BETTER, None)


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("It is the left one. [[left]]", "model_a"),
        ("[[ Both\u00a0 Bad ]]", "tie_bothbad"),
        ("[[RIGHT]] and once more: [[right]]", "model_b"),
        ("[[tie]]", "tie"),
        ("[[NA]]", None),
        ("[[left]] or [[right]]", None),
        ("[left] left [[maybe]]", None),
        ("", None),
    ],
)
def test_a_vote_is_the_one_label_in_double_brackets(text, label):
    assert parse_vote(text) == label
