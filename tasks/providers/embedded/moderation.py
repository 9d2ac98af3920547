"""Offensive words by alt-profanity-check: a linear model on word counts, trained on comments, that ships in a wheel.

Lower assurance: it knows English swear words, slurs and some violence, but no meaning, and it names no category.
"""

from collections.abc import Sequence

from schemas.signals import Moderation
from tasks.providers.text_windows import windows

WINDOW_CHARACTERS, OVERLAP = 100, 20
"""A word weighs by its share of what is scored: after 500 harmless characters an insult counts for nothing."""


class OffensiveWords:
    """The probability that the most offensive stretch of a text is offensive."""

    version = f"alt-profanity-check-1.9.1-window{WINDOW_CHARACTERS}"

    def moderate(self, texts: Sequence[str]) -> list[Moderation]:
        """Moderation of every text, without categories."""
        from profanity_check.profanity_check import model, vectorizer  # it loads both, and scikit-learn

        pieces = [list(windows(text, WINDOW_CHARACTERS, OVERLAP)) for text in texts]
        if not pieces:
            return []
        scores = iter(model.predict_proba(vectorizer.transform([each for some in pieces for each in some]))[:, 1])
        strongest = [max(float(next(scores)) for _ in some) for some in pieces]
        return [Moderation(flagged_probability=score, flagged_categories=[], category_scores=[]) for score in strongest]
