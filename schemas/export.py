"""Options of `curate export`: formats and which conversations. Also where exports of a store are."""

from datetime import datetime
from enum import StrEnum

from pydantic import Field

from schemas.row import Row


class SftStyle(StrEnum):
    """How a training example is written."""

    MESSAGES = "messages"
    """messages [{role, content [{type, text}]}] and images, as TRL and chat templates take them."""
    LLAVA = "llava"
    """image and conversations [{from, value}] with <image> marks, as LLaVA's trainers take them. image is one path, a
    list of paths for several images, and absent without images; in Parquet it is always a list."""
    SHAREGPT = "sharegpt"
    """images and conversations [{from, value}] with <image> marks, as ms-swift and LLaMA-Factory take them; with the
    dataset_info.json of LLaMA-Factory."""


class FileFormat(StrEnum):
    """File format of an export."""

    JSONL = "jsonl"
    JSON = "json"
    """One array, as LLaVA's own trainer reads it."""
    PARQUET = "parquet"


class Compat(StrEnum):
    """A published dataset whose columns an export has."""

    VISIONARENA = "visionarena"
    """VisionArena-Chat, -Battle and -Bench."""

    def folder(self, version: str) -> str:
        """Folder in the store for a release with these columns."""
        return f"exports/{version}-{self.value}"


class SftSelection(Row):
    """Which conversations are exported (VisionArena sec. 5: answers of the best models)."""

    models: int = Field(default=10, ge=1)
    """The best models of the overall leaderboard that have conversations."""
    conversations: int = Field(default=100_000, ge=1)
    """Conversations at most."""
    per_model: int | None = Field(default=None, ge=1)
    """Conversations of one model at most."""
    per_topic: int | None = Field(default=None, ge=1)
    """Conversations of one topic at most; those without a topic count as one."""
    seed: int = 0
    """Seed of the draw."""


class ExportKind(StrEnum):
    """What an export is."""

    PAGES = "static pages"
    SFT = "training data"
    DATASET = "columns of a published dataset"


class Exported(Row):
    """One export of a release of a store, outside of the store."""

    place: str
    """Folder on that machine, or an address such as s3://bucket/exports/sft."""
    machine: str
    """Machine that wrote it; empty for an address."""
    kind: ExportKind
    """What it is."""
    version: str
    """Version of the release."""
    part: bool
    """Whether it has only some of the release's items, so that it may lack one that the release has."""
    exported_at: datetime
    """When it was begun (UTC)."""
