"""Words for verdicts, the same for a store and a release. It loads no model: the explorer shows them."""

from schemas.benches.judging import Label


def verdict_words(label: str | None, first: str, second: str) -> str:
    """The winner in words; `first` was shown first."""
    if label is None:
        return "no verdict"
    if label == Label.TIE:
        return "tie"
    winner = first if label in (Label.A_BETTER, Label.A_MUCH_BETTER) else second
    return f"{winner} is {'much ' if label in (Label.A_MUCH_BETTER, Label.B_MUCH_BETTER) else ''}better"
