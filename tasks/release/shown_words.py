"""Words for verdicts and for the options of a question, the same for a store and a release; imports little."""

from collections.abc import Sequence

from schemas.judging import Label

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def verdict_words(label: str | None, first: str, second: str) -> str:
    """The winner in words; `first` was shown first."""
    if label is None:
        return "no verdict"
    if label == Label.TIE:
        return "tie"
    winner = first if label in (Label.A_BETTER, Label.A_MUCH_BETTER) else second
    return f"{winner} is {'much ' if label in (Label.A_MUCH_BETTER, Label.B_MUCH_BETTER) else ''}better"


def named_letters(question: str, options: Sequence[str]) -> str:
    """A question with its options, one a line."""
    return "\n".join([question, *(f"{LETTERS[place]}. {option}" for place, option in enumerate(options))])
