"""How a table is declared: its rows, their order, and whose ids they hold."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from pydantic import BaseModel


class Held(StrEnum):
    """What an id column names; a list column holds several of the kind."""

    CONVERSATION = "conversation"
    """A conversation, a battle by its left side, or an item of a benchmark."""
    CONTENT = "content"
    """Content id of a text, prompt, document or image."""
    IMAGE = "image"
    """Content id of an image."""
    IMAGE_NAME = "image name"
    """Name of an image file, as logged or with an extension."""
    USER = "user"
    """Keyed hash of a user or voter."""
    LINE = "line"
    """conv_id of a raw log line."""
    PLACE = "place"
    """A log file, or for a reject without a line an image file."""
    WITHHELD = "withheld"
    """conv_id or image name that is quarantined."""


BY_NAME = {
    **dict.fromkeys(("conversation_id", "conversation_a", "conversation_b", "battle_id"), Held.CONVERSATION),
    **dict.fromkeys(("item_id", "question_id"), Held.CONVERSATION),
    **dict.fromkeys(("image_id", "image_ids", "image_a", "image_b", "source_image_id"), Held.IMAGE),
    **dict.fromkeys(("content_id", "document_id", "document_ids"), Held.CONTENT),
    "conv_id": Held.LINE,
    "user_id": Held.USER,
}
"""Name of a column -> what it names as a rule."""


@dataclass(frozen=True)
class Table:
    """A table. Raises TypeError for an id column that is neither in `holds` nor in `mentions`."""

    row: type[BaseModel]
    sort: tuple[str, ...]
    """Columns by which rows are sorted."""
    holds: Mapping[str, Held]
    """Column -> what it names. A row is removed with what it names, and when the store holds that no longer."""
    mentions: Mapping[str, Held] = field(default_factory=dict)
    """Columns whose ids the store need not hold, such as a prompt of another store or a document as it was. A row is
    removed when what it names is taken down or purged, not because the store does not hold it."""
    derived: bool = False
    """Whether a run makes the whole table again from others."""
    grown: bool = False
    """Whether older parts may lack later columns, which are then null."""
    compression: str = "zstd"
    """Parquet codec; lz4 for tables that are written once and read once."""

    def __post_init__(self) -> None:
        columns, declared = self.row.model_fields.keys(), {*self.holds, *self.mentions}
        if unknown := declared - columns:
            raise TypeError(f"{self.row.__name__} has no column {', '.join(sorted(unknown))}")
        if missing := (columns & BY_NAME.keys()) - declared:
            raise TypeError(
                f"{self.row.__name__}: say in `holds` or `mentions` what {', '.join(sorted(missing))} names"
            )

    def named(self, *kinds: Held) -> list[str]:
        """Columns that name one of these kinds."""
        return [column for column, kind in {**self.holds, **self.mentions}.items() if kind in kinds]
