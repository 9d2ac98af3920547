"""What changed from one release to another."""

from enum import StrEnum

from schemas.row import Row


class Bump(StrEnum):
    """Which part of a semantic version the change asks for."""

    MAJOR = "major"
    """A column left or changed its type: code that reads it breaks."""
    MINOR = "minor"
    """Rows came or left, or a column came: numbers computed on it are other numbers."""
    PATCH = "patch"
    """The same rows with other values."""
    NONE = "none"
    """Nothing changed."""


class RowChange(Row):
    """One row that is not the same in both releases."""

    config: str
    """chat, battle or bench."""
    id: str
    """conversation_id or question_id."""
    change: str
    """added, removed or changed."""
    columns: list[str]
    """Columns that differ; empty for added and removed rows."""
    why: list[str]
    """Of a removed row what drops it now, by the store; of a changed one what the manifests tell; else nothing."""


class ReleaseDiff(Row):
    """Two releases compared, but for the single rows."""

    rules: list[str]
    """Policy rules, signal versions, providers and settings that differ, each in words."""
    schema_changes: list[str]
    """Columns that came, left or changed their type, each in words."""
    rows: dict[str, int]
    """`config added`, `config removed`, `config changed`, `config same` -> rows."""
    columns: dict[str, dict[str, int]]
    """Configuration -> column -> rows that are in both and have another value there; the most first."""
    why: dict[str, dict[str, int]]
    """Configuration -> reason -> rows that left or changed for it; the most first."""
    bump: Bump
    """What the next semantic version should raise."""
    next_version: str | None
    """The earlier release's version with that raised; null where it is not a semantic version, such as 1.2.0."""
