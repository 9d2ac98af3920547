"""Providers of other packages: named, checked, and held to the budget if they say what their calls cost."""

import importlib
from collections.abc import Callable, Sequence
from typing import Any

from typing_extensions import get_protocol_members

from schemas.errors import BadInput, CurateError, MissingProvider
from schemas.run import Use
from tasks.providers.capabilities import MAKERS, PROTOCOLS, Failed
from tasks.providers.cost import Count, estimate_row, expected_use, size_of
from tasks.runtime.budget import ledger

_MEASURES = frozenset(
    name for capability in PROTOCOLS.keys() - MAKERS for name in get_protocol_members(PROTOCOLS[capability])
)
"""Methods that take a batch of items, and attributes."""
Work = Callable[[Sequence[Any]], Sequence[Any]]


class Foreign:
    """A provider of another package. Its version starts with its name, so that signals of two are never mixed."""

    def __init__(self, name: str, provider: Any, count: Count) -> None:
        self._provider, self._count = provider, count
        self._says_its_cost = hasattr(provider, "service") and hasattr(provider, "expected_use")
        self.version = f"{name}-{version}" if (version := getattr(provider, "version", "")) else ""

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._provider, name)
        return self._billed(found) if self._says_its_cost and name in _MEASURES and callable(found) else found

    def _billed(self, measure: Work) -> Work:
        """A method whose calls are reserved at their highest price, which stays unconfirmed: no service counts it."""

        def work(items: Sequence[Any]) -> Sequence[Any]:
            use = expected_use(self, [size_of(item) for item in items], self._count)
            cost = estimate_row(self.service, "", len(items), use, ledger().prices)
            bill = ledger().reserve(self.service, cost.usd_most)
            if bill is None:
                return [Failed("budget_reached")] * len(items)
            with bill:
                bill.settle(Use(calls=use.calls, units=use.units, usd_unconfirmed=cost.usd_most or 0.0))
                return measure(items)

        return work


def foreign(capability: str, name: str, count: Count) -> Foreign:
    """A provider of another package. Exceptions of its code become MissingProvider or BadInput."""
    which = f"{capability}: provider {name!r}"
    module, _, attribute = name.partition(":")
    try:
        make = getattr(importlib.import_module(module), attribute, None)
        if make is None:
            raise BadInput(f"{which}: module {module!r} has no {attribute!r}; give my_package.module:Class")
        return Foreign(name, make(), count)
    except CurateError:
        raise
    except ImportError as error:
        raise MissingProvider(
            f"{which}: no module {error.name!r} here; install its package in this environment, or add its folder to "
            "PYTHONPATH"
        ) from None
    except Exception as error:  # only the type is shown, because the text may quote a key
        raise BadInput(
            f"{which} cannot be created ({type(error).__name__}); check that {module} imports and {attribute}() works"
        ) from None


def lacks(capability: str, provider: object) -> list[str]:
    """Members of the capability's Protocol that the provider lacks or has empty."""
    members = get_protocol_members(PROTOCOLS[capability])
    return sorted(name for name in members if getattr(provider, name, None) in (None, ""))
