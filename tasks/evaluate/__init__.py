"""Answers of models to the benchmark, and verdicts of judges on them."""
