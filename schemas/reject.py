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


REJECT_TEXTS: dict[str, str] = {
    RejectReason.BLANK_LINE: "an empty line",
    RejectReason.NOT_JSON: "a broken line, or an archive that breaks off",
    RejectReason.NOT_A_RECORD: "a line that is no JSON object",
    RejectReason.LINE_TOO_LONG: "a line above 16 MiB",
    RejectReason.UNKNOWN_TYPE: "a record of none of the nine types",
    RejectReason.BAD_TIMESTAMP: "no time from 2023 to 2099",
    RejectReason.BAD_STATE: "no conversation state, or a wrong one",
    RejectReason.BAD_CONVERSATION_ID: "no conversation id, or a wrong one",
    RejectReason.BAD_MODEL: "no model name, or a wrong one",
    RejectReason.BAD_MESSAGES: "messages of another shape",
    RejectReason.BAD_OFFSET: "a wrong few-shot offset",
    RejectReason.NO_MESSAGES: "no message after the few-shot offset",
    RejectReason.HALF_ANONYMOUS: "a vote that shows one name only",
    RejectReason.MODEL_MISMATCH: "a shown name that is not the answering model's",
    RejectReason.UNKNOWN_WINNER: "another verdict than the four",
    RejectReason.UNEXPECTED_ROW: "a dataset's row of another shape",
    RejectReason.CSAM_FLAGGED: "flagged as child abuse: never opened, and quarantined",
    RejectReason.KNOWN_HASH: "a picture on the operator's list: quarantined",
    RejectReason.TAKEN_DOWN: "somebody had it removed",
    RejectReason.IMAGE_NAME_INVALID: "a picture name that is none",
    RejectReason.IMAGE_PATH_ESCAPE: "a picture name that leads out of the folder",
    RejectReason.IMAGE_MISSING: "a picture that is not there",
    RejectReason.IMAGE_EMPTY: "an empty picture file",
    RejectReason.IMAGE_NOT_A_PICTURE: "a picture file that holds no picture",
    RejectReason.IMAGE_TRUNCATED: "a picture file that breaks off",
    RejectReason.IMAGE_TOO_LARGE: "a picture with too many pixels",
    RejectReason.IMAGE_ANIMATED: "a moving picture",
    RejectReason.IMAGE_UNSUPPORTED: "a picture of a format that is not read",
}
"""Reason -> what the line or picture is, for people who read a card or report."""


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
