"""Decisions, redactions, topics, the benchmark and ratings come in; a sealed release folder goes out, never edited."""
