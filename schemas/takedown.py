"""What was taken down: enough to keep it out for ever, too little to tell what or whose it was."""

from datetime import datetime
from enum import StrEnum

from schemas.row import Row


class TakenDownKind(StrEnum):
    """What a tombstone keeps out."""

    CONVERSATION = "conversation"
    PICTURE = "picture"
    USER = "user"


class Tombstone(Row):
    """One thing that must never come back."""

    key: str
    """Keyed hash of the kind and the id; not reversible without the store's key."""
    kind: TakenDownKind
    """conversation, picture or user."""
    taken_down_at: datetime
    """When its removal was asked for (UTC)."""


class NearCopy(Row):
    """A picture that looks like one that goes, and stays until somebody names it."""

    image_id: str
    """Content id."""
    pdq_distance: int
    """Bits of 256 in which the PDQ hashes differ."""


class Removed(Row):
    """What a takedown removed, or would remove."""

    rows: dict[str, int]
    """Table -> rows."""
    releases: list[str]
    """Versions in the store that held it; only their manifest stays."""
    published: list[tuple[str, str]]
    """(repository, tag or branch) of versions on the Hub that held it; the operator takes them back."""
    perhaps_published: list[tuple[str, str]]
    """(repository, tag or branch) of versions on the Hub whose release is not in the store, so nobody can tell."""
    lines: list[str]
    """Raw log lines that still hold it, as FILE:LINE; the operator deletes them."""
    picture_files: list[str]
    """Raw picture files that still hold it."""
    near_pictures: list[NearCopy]
    """Pictures that look like a removed one and stay, the nearest first."""
    earlier_versions: str
    """Why the bucket keeps earlier versions of what went; empty when it keeps none."""
