"""Leaderboards in a release.

In: ratings of votes and verdicts of judges. Out: the files under `leaderboard/`, and their section of the card.
"""
