"""Which battles each leaderboard is computed on."""

import polars as pl

from schemas.signals import Categories

CATEGORIES = (*Categories.model_fields, "code", "multi_turn")
"""Categories with a board of their own."""


def slice_battles(battles: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """Slice name -> battles. `battles` has one bool column for each of CATEGORIES, language, winner and refusal.

    A category that could not be told (null) is in no slice of its own; it stays in the overall board.
    """
    ties = pl.col("winner").is_in(["tie", "tie_bothbad"])
    slices = {
        "overall": battles,
        "exclude_ties": battles.filter(~ties),
        "exclude_refusal": battles.filter(~pl.col("refusal").fill_null(False)),
        "exclude_preset": battles.filter(~pl.col("is_preset")),
    }
    for name in CATEGORIES:
        slices[f"category:{name}"] = battles.filter(pl.col(name).fill_null(False))
    for language in sorted(battles["language"].drop_nulls().unique()):
        slices[f"language:{language}"] = battles.filter(language=language)
    return {name: frame for name, frame in slices.items() if frame.height}
