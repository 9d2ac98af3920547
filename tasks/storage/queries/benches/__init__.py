"""Benchmarks of a store: the draw, written and generated items, answers, verdicts and what people found."""
