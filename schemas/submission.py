"""The board of a written benchmark: models and the reference, rated from battles of a judge without images."""

from schemas.row import Int32, Row


class SubmissionRating(Row):
    """One player on the board."""

    slice: str
    """Which items: overall, or family:<name>."""
    bench: str
    """The benchmark."""
    judge: str
    """Name of the judge; `embedded stand-in` for the one that ships with the install, which ranks nothing in public."""
    judge_version: str
    """Changes with everything that decides a verdict."""
    protocol: str
    """visit, or visit-reference where the judge sees the reference."""
    made_at: str
    """When the board was made, UTC."""
    model: str
    """The model; `reference` is the verified reference."""
    elo: float
    """Sequential Elo: start 1000, scale 400, K and order as set. Depends on the order of the battles."""
    rating: float
    """Bradley-Terry rating: scale 400, base 10, mean 1000. A placeholder for an unbounded player, see flags."""
    ci95_low: float | None
    """Lower end of the rating's 95 % interval; null when unbounded."""
    ci95_high: float | None
    """Upper end of the rating's 95 % interval; null when unbounded."""
    rank: Int32 | None
    """1 + number of players whose interval lies entirely above this one's; null for an unbounded player."""
    matches: int
    """Battles with a verdict in both orders."""
    ties: int
    """Those of them without a winner."""
    coverage: float
    """Share of the slice's items with a battle of this model, 0 to 1."""
    wins_vs_reference: int
    """Battles with the reference that it won."""
    decisive_vs_reference: int
    """Battles with the reference that have a winner: the n of the win rate."""
    battles_vs_reference: int
    """Battles with the reference, ties included."""
    win_rate_vs_reference: float | None
    """wins / decisive battles with the reference, 0 to 1, without ties as in VisIT-Bench; null without any."""
    expected_vs_reference: float | None
    """Share of points against the reference that both Bradley-Terry ratings imply; null for the reference itself."""
    flags: list[str]
    """Why a row may mislead: few_battles (under 100), low_coverage (under 0.95), and those of `curate rate`."""
