"""Shares with their intervals."""

from schemas.tags import Share

NO_SHARE = Share(value=None, ci95_low=None, ci95_high=None)


def clopper_pearson(hits: int, n: int) -> Share:
    """A share of n with its 95 % interval after Clopper and Pearson (1934); null when n is 0."""
    if not n:
        return NO_SHARE
    from scipy.special import betaincinv  # slow to import

    low = betaincinv(hits, n - hits + 1, 0.025) if hits else 0.0
    high = betaincinv(hits + 1, n - hits, 0.975) if hits < n else 1.0
    return Share(value=hits / n, ci95_low=float(low), ci95_high=float(high))
