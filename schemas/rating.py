"""Leaderboards."""

from schemas.row import Int32, Row


class Rating(Row):
    """One model on one leaderboard."""

    slice: str
    """Which battles: overall, category:<name>, language:<name>, style_control and so on."""
    model: str
    """The model."""
    rating: float
    """Bradley-Terry rating: scale 400, base 10."""
    ci95_low: float
    """2.5 % quantile of the bootstrap."""
    ci95_high: float
    """97.5 % quantile of the bootstrap."""
    rank: Int32
    """1 + number of models whose interval lies wholly above this one's (rank UB)."""
    battles: int
    """Battles of the model in the slice."""
    flags: list[str]
    """few_battles, only_wins, only_losses, separate_group: why a rating may mislead."""
