"""Entries of a store's audit log."""

from datetime import datetime
from enum import StrEnum

from pydantic import Field

from schemas.row import Row


class Audited(StrEnum):
    """Action of somebody on a store."""

    LOOKED = "looked"
    """Looked at content that is masked or blurred until it is asked for."""
    EXPORTED = "exported"
    TOOK_DOWN = "took_down"
    PUBLISHED = "published"
    YANKED = "yanked"
    ACCEPTED = "accepted"
    """Accepted embedded stand-ins for a publication, or a drift of a filter for a release."""
    BACKED_UP = "backed_up"
    RESTORED = "restored"
    REMOVED = "removed"
    """Removed what the retention of the settings no longer keeps."""
    STEERED = "steered"
    """Changed an arena while it runs; the log stands in the folder of its logs."""


class AuditEntry(Row):
    """One entry; it has no id, text or name of a person."""

    number: int = Field(ge=1)
    """Place in the log, from 1."""
    at: datetime
    """When (UTC)."""
    who: str = Field(pattern=r"^(?:[0-9a-f]{12})?$")
    """Keyed hash of the user of the machine or of the reviewer's name; empty where the machine tells none."""
    what: Audited
    """What was done."""
    counts: dict[str, int] = {}
    """How much of what."""
    about: str = Field(default="", max_length=300)
    """Version of the release, repository on the Hub, or what was accepted."""
    before: str = Field(pattern=r"^(?:[0-9a-f]{64})?$")
    """SHA-256 of the entry before it; empty for the first."""
