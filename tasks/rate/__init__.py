"""Votes -> leaderboards with intervals."""
