"""How much memory joins take, and how much of `TMPDIR` what does not fit: settings that hold for the whole process."""

from typing import Any, NamedTuple


class Limits(NamedTuple):
    """The settings `memory_gb` and `spill_gb`, in GB (1e9 bytes); None for what the machine allows."""

    memory_gb: float | None
    spill_gb: float | None


_given: list[Any] = [None, None]


def use_limits(memory_gb: Any, spill_gb: Any) -> None:
    """Set the limits of all joins that begin from now on; numbers, or text that `Settings` takes for numbers."""
    _given[:] = memory_gb, spill_gb


def limits() -> Limits:
    """The limits that hold now."""
    return Limits(*(None if value is None else float(value) for value in _given))
