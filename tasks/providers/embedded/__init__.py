"""Defaults: real models that ship inside installed packages. Deterministic, no network, no keys, no torch."""
