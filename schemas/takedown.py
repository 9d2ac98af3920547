"""Takedowns: keyed hashes that keep removed items out of the store without identifying them."""

from datetime import datetime
from enum import StrEnum

from schemas.export import Exported
from schemas.row import Row

REQUESTS = "takedown_requests.txt"
"""File in a log folder: the conv_ids of conversations that visitors of an arena want forgotten, one a line."""


class TakenDownKind(StrEnum):
    """What a tombstone is about."""

    CONVERSATION = "conversation"
    IMAGE = "image"
    USER = "user"


class Tombstone(Row):
    """One removed conversation, image or user that must not be stored again."""

    key: str
    """Keyed hash of kind and id; not reversible without the store's key."""
    kind: TakenDownKind
    """conversation, image or user."""
    taken_down_at: datetime
    """When the removal was requested (UTC)."""


class NearCopy(Row):
    """An image that looks like a removed one; it stays until its own removal is requested."""

    image_id: str
    """Content id."""
    pdq_distance: int
    """Hamming distance of the 256-bit PDQ hashes."""


class Removed(Row):
    """What a takedown removes."""

    rows: dict[str, int]
    """Table -> number of rows."""
    releases: list[str]
    """Release versions in the store that contained it; only their manifests stay."""
    published: list[tuple[str, str]]
    """(repository, tag or branch) of versions on the Hub that contain it; the operator must yank them."""
    perhaps_published: list[tuple[str, str]]
    """(repository, tag or branch) of versions on the Hub that may contain it: their release is not in the store."""
    exports: list[tuple[Exported, bool]]
    """Exports outside of the store, and whether they certainly contain it; the operator must delete them."""
    lines: list[str]
    """Raw log lines that still contain it, as FILE:LINE; the operator must delete them."""
    image_files: list[str]
    """Raw image files that still contain it; the operator must delete them."""
    near_images: list[NearCopy]
    """Images that look like a removed one and stay, nearest first."""
    earlier_versions: str
    """Why the bucket keeps earlier versions of removed objects; empty when it keeps none."""
