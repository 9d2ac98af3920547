"""Leaderboards.

In: battles (a published battle table, or the kept anonymous battles of a store) with the votes on them. Out: ratings
with 95 % intervals and ranks, per slice and under style control, and the tables beside them (`schemas/rating.py`).
"""
