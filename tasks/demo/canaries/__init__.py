"""Harmless probes that every run must catch before it releases anything.

In: the settings of a run; out: a small arena with a store of its own, and which probes got through, and how.
"""
