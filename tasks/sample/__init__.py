"""Kept prompts -> topics, and a benchmark drawn uniformly over them."""
