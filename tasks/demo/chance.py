"""Seeded chance: every draw of the demo comes from a generator made here."""

from random import Random


def chance(*seed: object) -> Random:
    """A generator that depends on its seed alone, such as `chance(0, "pool")`."""
    return Random(":".join(map(str, seed)))  # noqa: S311  a demo must repeat itself, and keeps no secrets
