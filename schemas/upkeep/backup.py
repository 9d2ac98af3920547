"""The list of a backup, `backup.json`."""

from datetime import datetime

from pydantic import Field

from schemas.row import Row


class BackedUpFile(Row):
    """One file of the store in the folder of the backup."""

    place: str = Field(pattern=r"^(?:files/[0-9a-f]{2}|secret)/[0-9a-f]{64}$")
    """Place in that folder."""
    sha256: str
    """SHA-256 of its bytes."""
    size_bytes: int
    """Size."""


class Backup(Row):
    """One moment of a store."""

    version: int = Field(default=1, ge=1, le=1)
    """Version of this list."""
    store_id: str
    """Id of the store, which its copies keep."""
    made_at: datetime
    """When it was begun (UTC): takedowns after it are not in it."""
    files: dict[str, BackedUpFile]
    """Path in the store -> the file."""
