"""Data that is not used: rejected lines and images, quarantine, and takedowns with what they removed."""

from datetime import datetime
from enum import StrEnum

from schemas.publication import Exported
from schemas.row import Row


class RejectReason(StrEnum):
    """Why an input line or image was rejected."""

    BLANK_LINE = "blank_line"
    NOT_JSON = "not_json"
    NOT_A_RECORD = "not_a_record"
    LINE_TOO_LONG = "line_too_long"
    UNKNOWN_TYPE = "unknown_type"
    BAD_TIMESTAMP = "bad_timestamp"
    BAD_STATE = "bad_state"
    BAD_CONVERSATION_ID = "bad_conversation_id"
    BAD_MODEL = "bad_model"
    BAD_MESSAGES = "bad_messages"
    BAD_OFFSET = "bad_offset"
    NO_MESSAGES = "no_messages"
    HALF_ANONYMOUS = "half_anonymous"
    MODEL_MISMATCH = "model_mismatch"
    BAD_VOTE_REASON = "bad_vote_reason"
    UNKNOWN_WINNER = "unknown_winner"
    BAD_REACTION = "bad_reaction"
    BAD_USER = "bad_user"
    EXCLUDED_BY_SOURCE = "excluded_by_source"
    UNEXPECTED_ROW = "unexpected_row"
    BAD_ITEM = "bad_item"
    CSAM_FLAGGED = "csam_flagged"
    KNOWN_HASH = "known_hash"
    TAKEN_DOWN = "taken_down"
    PART_NOT_READ = "part_not_read"
    IMAGE_NAME_INVALID = "image_name_invalid"
    IMAGE_PATH_ESCAPE = "image_path_escape"
    IMAGE_MISSING = "image_missing"
    IMAGE_EMPTY = "image_empty"
    NOT_AN_IMAGE = "not_an_image"
    IMAGE_TRUNCATED = "image_truncated"
    IMAGE_TOO_LARGE = "image_too_large"
    IMAGE_ANIMATED = "image_animated"
    IMAGE_UNSUPPORTED = "image_unsupported"


REJECT_TEXTS: dict[str, str] = {
    RejectReason.BLANK_LINE: "an empty line",
    RejectReason.NOT_JSON: "a broken line, or an archive that breaks off",
    RejectReason.NOT_A_RECORD: "a line that is not a JSON object",
    RejectReason.LINE_TOO_LONG: "a line of more than 16 MiB",
    RejectReason.UNKNOWN_TYPE: "a record whose type is not one of the ten",
    RejectReason.BAD_TIMESTAMP: "no timestamp between 2022 and 2099",
    RejectReason.BAD_STATE: "no conversation state, or an invalid one",
    RejectReason.BAD_CONVERSATION_ID: "no conversation id, or an invalid one",
    RejectReason.BAD_MODEL: "no model name, or an invalid one",
    RejectReason.BAD_MESSAGES: "messages of an unexpected shape",
    RejectReason.BAD_OFFSET: "an invalid few-shot offset",
    RejectReason.NO_MESSAGES: "no message after the few-shot offset",
    RejectReason.HALF_ANONYMOUS: "a vote that shows only one model name",
    RejectReason.MODEL_MISMATCH: "a shown model name that differs from the model that answered",
    RejectReason.BAD_VOTE_REASON: "a vote whose reason is not a text",
    RejectReason.UNKNOWN_WINNER: "a verdict that is not one of the four",
    RejectReason.BAD_REACTION: "a vote or reaction whose turn, reasons, comment or times are not valid",
    RejectReason.BAD_USER: "a user that is neither a text nor a number",
    RejectReason.EXCLUDED_BY_SOURCE: "a row that its source marks as not to be published, or has not searched",
    RejectReason.UNEXPECTED_ROW: "a dataset row of an unexpected shape",
    RejectReason.BAD_ITEM: "an item of a written benchmark that cannot be used",
    RejectReason.CSAM_FLAGGED: "flagged as child abuse: quarantined, never opened",
    RejectReason.KNOWN_HASH: "an image on the operator's list of known hashes: quarantined",
    RejectReason.TAKEN_DOWN: "removed by a takedown",
    RejectReason.PART_NOT_READ: "a part of a message that is not read, such as a video or the call of a tool",
    RejectReason.IMAGE_NAME_INVALID: "an invalid image name",
    RejectReason.IMAGE_PATH_ESCAPE: "an image name that points outside the folder",
    RejectReason.IMAGE_MISSING: "an image file that does not exist",
    RejectReason.IMAGE_EMPTY: "an empty image file",
    RejectReason.NOT_AN_IMAGE: "a file that is not an image",
    RejectReason.IMAGE_TRUNCATED: "a truncated image file",
    RejectReason.IMAGE_TOO_LARGE: "an image with too many pixels",
    RejectReason.IMAGE_ANIMATED: "an animated image",
    RejectReason.IMAGE_UNSUPPORTED: "an image in an unsupported format",
}
"""Reject reason -> its explanation in dataset cards and reports."""


class Rejected(Exception):
    """Something that cannot be used. The evidence describes the problem and never quotes a line or a file."""

    def __init__(self, reason: RejectReason, evidence: str) -> None:
        super().__init__(f"{reason}: {evidence}")
        self.reason = reason
        self.evidence = evidence


class LineRejected(Rejected):
    """A line that cannot be used."""


class Reject(Row):
    """One rejected input line or image file."""

    source: str
    """Log file relative to the log folder, or image file name."""
    line: int | None
    """1-based line number; null where the line itself is kept: for images, and for parts of messages."""
    reason: RejectReason
    """Reject reason."""
    evidence: str
    """Details in a few fixed words; never personal data or text from the log."""


class QuarantineCause(StrEnum):
    """Why something is quarantined."""

    FLAGGED = "flagged"
    KNOWN_HASH = "known_hash"


class Quarantined(Row):
    """A conversation or image that no stage ever opens."""

    kind: str
    """conversation or image."""
    key: str
    """conv_id, logged image name (32 hex digits), or `preset:` and a path in the preset collection."""
    cause: QuarantineCause
    """flagged: the server flagged it as child abuse; known_hash: it is on the operator's list of known hashes."""


REQUESTS_FILE = "takedown_requests.txt"
"""File in a log folder: the conv_ids of conversations that visitors of an arena want forgotten, one a line."""


class TakenDownKind(StrEnum):
    """Subject of a tombstone."""

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
    """Kind of thing that a takedown removes."""

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
