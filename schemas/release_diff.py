"""Differences between two releases."""

from enum import StrEnum

from schemas.row import Row


class Bump(StrEnum):
    """Which part of the semantic version should be raised."""

    MAJOR = "major"
    """A column was removed or changed its type: code that reads it breaks."""
    MINOR = "minor"
    """Rows were added or removed, or a column was added: results computed on the release change."""
    PATCH = "patch"
    """The same rows with changed values."""
    NONE = "none"
    """Nothing changed."""


class RowChange(Row):
    """One row that differs between the releases."""

    config: str
    """chat, battle or bench."""
    id: str
    """conversation_id or question_id."""
    change: str
    """added, removed or changed."""
    columns: list[str]
    """Columns that differ; empty for added and removed rows."""
    why: list[str]
    """For a removed row the reasons that drop it now, by the store; for a changed row the manifests' differences."""


class ReleaseDiff(Row):
    """The comparison of two releases, without single rows."""

    rules: list[str]
    """Policy rules, signal versions, providers and settings that differ, one sentence each."""
    schema_changes: list[str]
    """Columns that were added, removed or changed their type, one sentence each."""
    rows: dict[str, int]
    """`config added`, `config removed`, `config changed`, `config same` -> number of rows."""
    columns: dict[str, dict[str, int]]
    """Configuration -> column -> number of rows whose value changed, largest first."""
    why: dict[str, dict[str, int]]
    """Configuration -> reason -> number of rows removed or changed for it, largest first."""
    bump: Bump
    """Part of the semantic version to raise."""
    next_version: str | None
    """A version after the earlier one: 1.2.0 with that part raised, for a day the later release's last day, for other
    names the next number; null when nothing changed."""
