"""Words for what a benchmark says about an item, the same for a store and for a release."""

from collections.abc import Sequence

from schemas.judging import Label


def verdict_words(label: str | None, first: str, second: str) -> str:
    """Who won, in words; `first` was shown first."""
    if label is None:
        return "no verdict"
    if label == Label.TIE:
        return "tie"
    winner = first if label in (Label.A_BETTER, Label.A_MUCH_BETTER) else second
    return f"{winner} is {'much ' if label in (Label.A_MUCH_BETTER, Label.B_MUCH_BETTER) else ''}better"


def named_letters(question: str, options: Sequence[str]) -> str:
    """A question with its options, one a line."""
    return "\n".join([question, *(f"{chr(ord('A') + place)}. {option}" for place, option in enumerate(options))])
