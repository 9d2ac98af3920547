"""The approval form is validated when it is submitted, not after the run has resumed."""

import pytest
from pydantic import ValidationError

from flows.publish import form

DIGITS = "0123456789ab"


def _answer(approve=True, approved_by="A. Person", manifest=DIGITS):
    return form("what goes").model_validate({"approve": approve, "approved_by": approved_by, "manifest": manifest})


def test_the_form_says_yes_only_when_somebody_does():
    assert not form("what goes").model_validate({"approved_by": "A. Person"}).approve
    assert _answer().approve


def test_digits_that_were_copied_with_the_space_around_them_are_taken():
    assert _answer(manifest=f" {DIGITS}\n").manifest.strip() == DIGITS


@pytest.mark.parametrize(
    "wrong",
    [
        {"approve": "perhaps"},
        {"approved_by": ""},
        {"approved_by": "   "},
        {"manifest": DIGITS[:-1]},
        {"manifest": "yes"},
        {"manifest": f"{DIGITS}{DIGITS}"},
    ],
)
def test_an_answer_that_is_none_is_refused_at_once(wrong):
    with pytest.raises(ValidationError):
        _answer(**wrong)
