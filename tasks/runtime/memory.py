"""How much memory joins take, and how much of `TMPDIR` what does not fit: settings that hold for the whole process."""

from typing import Any, NamedTuple

MEMORY_GB = 0.25
"""Memory of joins where the settings give none. Twice as much saves a fifth of the time of joins of 300,000 rows."""


class Limits(NamedTuple):
    """The settings `memory_gb` and `spill_gb`, in GB (1e9 bytes)."""

    memory_gb: float
    spill_gb: float | None
    """None for what is free in `TMPDIR`."""


_given: list[Any] = [None, None]


def use_limits(memory_gb: Any, spill_gb: Any) -> None:
    """Set the limits of all joins that begin from now on; numbers, text that `Settings` takes for numbers, or None."""
    _given[:] = memory_gb, spill_gb


def limits() -> Limits:
    """The limits that hold now."""
    memory_gb, spill_gb = (None if value is None else float(value) for value in _given)
    return Limits(MEMORY_GB if memory_gb is None else memory_gb, spill_gb)
