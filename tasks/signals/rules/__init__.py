"""Signals that need no model: a function from one item to its value, with a version.

In: one text or one decoded image. Out: its value, a row of `schemas/signals.py`. A rule's words are in
a YAML file beside it.
"""
