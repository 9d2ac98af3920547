"""Input that could not be used: one row each, never an exception."""

from enum import StrEnum

from schemas.row import Row


class RejectReason(StrEnum):
    """Why an input line or picture was not used."""

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
    UNKNOWN_WINNER = "unknown_winner"
    UNEXPECTED_ROW = "unexpected_row"
    CSAM_FLAGGED = "csam_flagged"
    KNOWN_HASH = "known_hash"
    TAKEN_DOWN = "taken_down"
    IMAGE_NAME_INVALID = "image_name_invalid"
    IMAGE_PATH_ESCAPE = "image_path_escape"
    IMAGE_MISSING = "image_missing"
    IMAGE_EMPTY = "image_empty"
    IMAGE_NOT_A_PICTURE = "image_not_a_picture"
    IMAGE_TRUNCATED = "image_truncated"
    IMAGE_TOO_LARGE = "image_too_large"
    IMAGE_ANIMATED = "image_animated"
    IMAGE_UNSUPPORTED = "image_unsupported"


class Reject(Row):
    """One input line or picture file that could not be used."""

    source: str
    """Log file relative to the log folder, or picture file name."""
    line: int | None
    """1-based line number; null for pictures, also where a line gives one a name that is none."""
    reason: RejectReason
    """Why."""
    evidence: str
    """What was seen, in a few words of ours; never personal data or text from the log."""


class QuarantineCause(StrEnum):
    """Why something is quarantined."""

    FLAGGED = "flagged"
    KNOWN_HASH = "known_hash"


class Quarantined(Row):
    """A conversation or picture that is never opened by any stage."""

    kind: str
    """conversation or picture."""
    key: str
    """conv_id, logged picture name (32 hex digits), or `preset:` and a path in the preset collection."""
    cause: QuarantineCause
    """flagged by a server as child abuse, or known_hash: on a list of the operator's."""
