"""Signals of other installed packages: entry points of the group `arena_curation.signals` (docs/extending.md)."""

import re
from collections.abc import Collection
from importlib.metadata import EntryPoint, entry_points

from schemas.errors import BadInput
from schemas.row import Row, arrow_schema
from schemas.signals import MeasuredOn, SignalEntry, SignalKey

GROUP = "arena_curation.signals"
_NAME = re.compile(r"[a-z][a-z0-9_]{0,40}")


def installed_signals(known: Collection[str]) -> dict[str, SignalEntry]:
    """Name of each entry point -> its `SignalEntry`, with the package's name.

    Raises BadInput, naming the package, for an entry that does not load, is not valid, or has a name in `known`.
    """
    found: dict[str, SignalEntry] = {}
    for point in sorted(entry_points(group=GROUP), key=lambda each: each.name):
        package = point.dist.name if point.dist else point.value
        try:
            if point.name in known or point.name in found:
                raise TypeError("its name is taken already")
            found[point.name] = _entry(point)._replace(package=package)
        except Exception as error:  # whatever the package's code raises as it is imported
            raise BadInput(
                f"signal {point.name!r} of the installed package {package!r} cannot be used: {_in_words(error)}; "
                f"repair or uninstall {package!r} (docs/extending.md says what an entry must be)"
            ) from None
    return found


def _entry(point: EntryPoint) -> SignalEntry:
    """The entry of an entry point. Raises TypeError when it is not valid, and whatever its import raises."""
    entry = point.load()
    if not _NAME.fullmatch(point.name):
        raise TypeError("a name is lower-case letters, digits and underscores, 41 at most")
    if not isinstance(entry, SignalEntry):
        raise TypeError(f"it leads to a {type(entry).__name__}, not to a schemas.signals.SignalEntry")
    if not (isinstance(entry.value, type) and issubclass(entry.value, Row)):
        raise TypeError("its value type is no schemas.row.Row")
    if taken := set(entry.value.model_fields) & set(SignalKey.model_fields):
        raise TypeError(f"its value has the column {min(taken)!r}, which every signal has")
    if entry.on not in set(MeasuredOn) - {MeasuredOn.DOCUMENTS, MeasuredOn.FAILURES, MeasuredOn.ITEM_IMAGES}:
        raise TypeError("it is measured on images, messages, assistant_messages or prompt")
    if not (entry.version and callable(entry.rule)):
        raise TypeError("it needs a version and a rule")
    arrow_schema(entry.value)
    return entry


def _in_words(error: Exception) -> str:
    return str(error) if type(error) is TypeError else f"it does not load ({type(error).__name__}: {error})"
