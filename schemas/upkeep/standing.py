"""Rows of `curate status`: where a store stands."""

from datetime import datetime

from schemas.row import Row


class Holdings(Row):
    """Counts of a store."""

    conversations: int
    """Conversations, kept or not."""
    battles: int
    """Votes."""
    images: int
    """Distinct images."""
    releases: int
    """Releases with data."""
    newest: str
    """Version of the newest release; empty without one."""
    last_completed: datetime | None
    """End of the last run that was completed (UTC); null when there was none."""


class PastRun(Row):
    """One run, by its record."""

    started_at: datetime
    """Start (UTC)."""
    state: str
    """running, completed, held, failed or killed."""
    minutes: float | None
    """Duration; null while it runs, and for a killed one."""
    new_lines: int
    """Log lines that it read."""
    new_images: int
    """Images that it took in."""
    failed: int
    """Items that it could not measure."""
    usd: float
    """Cost at paid services, with what is unconfirmed, in US dollars."""
    result: str
    """Release that it made or found unchanged, or the line with which it ended."""


class Due(Row):
    """Something that waits for people or for the next run."""

    what: str
    """What waits, such as held conversations."""
    count: int
    """How many."""
    next: str
    """Command that goes on with it."""


class MonthCost(Row):
    """Cost of this month's runs at one paid service."""

    service: str
    """Name in the price file."""
    requests: int
    """Requests that were sent."""
    usd: float
    """Price of the counted use, in US dollars."""
    usd_unconfirmed: float
    """Upper bound of calls whose use is not known, in US dollars."""
