"""Where an outside dataset holds questions of the benchmark."""

from schemas.row import Row


class Overlap(Row):
    """One row of a dataset that holds one question of the benchmark."""

    row: int
    """1-based number of the row."""
    question_id: str
    """The benchmark's question."""
    split: str
    """public or hidden."""
    match: str
    """exact: the same text; normalised: the same words; near: most runs of four words of the question."""
    overlap: float
    """Share of the question's runs of four words that are in the row, 0 to 1; 1 where the words are equal."""
    same_picture: bool
    """Whether the row names the question's picture. False where that is not known."""
    contaminated: bool
    """Whether this is evidence: the question has at least 13 words, or its picture is there too. Everybody asks
    `what is this?`."""


class OverlapCount(Row):
    """How much of the benchmark is in a dataset."""

    rows: int
    """Rows that were read."""
    questions: int
    """Questions of the benchmark."""
    questions_found: int
    """Those of them that a row holds."""
    matches: dict[str, int]
    """Matches that are evidence, by kind: exact, normalised, near."""
    short: int
    """Matches of short questions without their picture, which are no evidence and not among the others."""
