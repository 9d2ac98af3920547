"""Questions of the benchmark that were found in another dataset."""

from schemas.row import Row


class Overlap(Row):
    """One row of a dataset that contains one question of the benchmark."""

    row: int
    """1-based number of the row."""
    question_id: str
    """Id of the benchmark question."""
    split: str
    """public, hidden, or captions: a caption or reference that is in no release."""
    match: str
    """exact: the same text; normalised: the same words; near: most four-word sequences of the question."""
    overlap: float
    """Share of the question's four-word sequences that are in the row, 0 to 1; 1 when the words are equal."""
    same_image: bool
    """Whether the row names the question's image; false when unknown."""
    contaminated: bool
    """Whether this counts as evidence: the question has at least 13 words, or its image is in the row too. Short
    questions such as `what is this?` are asked by everybody."""


class OverlapCount(Row):
    """How much of the benchmark was found in a dataset."""

    rows: int
    """Number of rows read."""
    questions: int
    """Number of questions in the benchmark."""
    questions_found: int
    """Number of questions that at least one row contains."""
    matches: dict[str, int]
    """Matches that count as evidence, by kind: exact, normalised, near."""
    short: int
    """Matches of short questions without their image; not evidence, and not counted in matches."""
