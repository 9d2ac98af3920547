"""Decisions, topics and ratings -> a release on disk that is never edited."""
