"""A model's answers that somebody hands in: checked against the items, paired with opponents, judged, reported back.

In: a file of answers, the items of a benchmark, what other models answered. Out: rows of `answers`, battles to judge,
and lines about them that quote no caption.
"""
