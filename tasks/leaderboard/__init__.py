"""Leaderboards.

In: battles with their votes, from a published battle table or the kept anonymous battles of a store. Out: ratings with
95 % intervals and ranks, per slice and under style control, and related tables (`schemas/rating.py`).
"""
