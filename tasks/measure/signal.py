"""A signal: how one kind of fact is measured, and under which name and version it is stored."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from schemas.row import Row
from tasks.providers.capabilities import Failed, RemoteModel

Item = TypeVar("Item")

RULES = "rules"
"""Provider name of facts that need no model."""


@dataclass(frozen=True)
class Signal(Generic[Item]):
    """One kind of fact about pictures, texts or documents."""

    name: str
    """Name of the stored table and of the value type in `schemas/tables.py`."""
    version: str
    """Changes with code, model, preprocessing or prompt; another version is measured anew."""
    provider: str
    """Who measures."""
    measure: Callable[[Sequence[Item]], Sequence[Row | Failed]]
    """One value, or a failure, for every item in order."""
    model: RemoteModel | None = None
    """Who is asked and paid by the item, if anybody."""

    def values(self, items: Sequence[Item]) -> list[Row | Failed]:
        """Measure a batch; an exception makes every item of the batch a failure, never a value."""
        try:
            measured = list(self.measure(items))
        except Exception as error:  # providers fail in their own ways; the type is safe to report, the text is not
            return [Failed(type(error).__name__)] * len(items)
        if len(measured) != len(items):
            return [Failed("wrong_number_of_values")] * len(items)
        return measured


def by_rule(name: str, version: str, rule: Callable[[Item], Row]) -> Signal[Item]:
    """A signal that a pure function of one item measures."""
    return Signal(name, version, RULES, lambda items: [rule(item) for item in items])
