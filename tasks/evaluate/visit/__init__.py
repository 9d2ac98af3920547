"""A judge that sees no image reads captions, as in VisIT-Bench: any two answers to an item, in both orders.

In: items with captions and references, answers of models. Out: rows of `verdicts` under `visit` or `visit-reference`.
"""
