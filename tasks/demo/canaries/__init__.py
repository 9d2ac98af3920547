"""Harmless probes that every run must catch before it releases anything.

In: the settings of a run; out: a small arena with its own store, and the probes that were not caught, with reasons.
"""
