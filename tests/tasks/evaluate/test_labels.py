"""A verdict is the label in the judge's text."""

import pytest

from schemas.judging import Label
from tasks.evaluate.labels import parse_label


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
        ("[[A >\n B]]", None),
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
