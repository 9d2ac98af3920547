"""Harmless probes that every run must catch before it releases anything. They live in a store of their own."""
