"""Conversations, and the log lines they were assembled from."""

from datetime import UTC, date, datetime
from enum import StrEnum

from schemas.decision import Redaction
from schemas.row import Int32, Row

UNDATED_BEFORE = datetime(2023, 1, 1, 1, tzinfo=UTC)
"""Rows of datasets without a time stand in the hour before this, in their order; no arena existed then."""


class RecordType(StrEnum):
    """The `type` of a raw log line. There are no others (FastChat `serve/`)."""

    CHAT = "chat"
    UPVOTE = "upvote"
    DOWNVOTE = "downvote"
    FLAG = "flag"
    LEFT_VOTE = "leftvote"
    RIGHT_VOTE = "rightvote"
    TIE_VOTE = "tievote"
    BOTH_BAD_VOTE = "bothbad_vote"
    SHARE = "share"


class Role(StrEnum):
    """Who wrote a turn. Roles follow the position after the offset, not the log's role names."""

    USER = "user"
    ASSISTANT = "assistant"


class IdentifiedTurn(Row):
    """One message of an assembled conversation."""

    role: Role
    """Who wrote it: user or assistant."""
    content: str
    """The text; empty when the log held null, see null_turns."""
    text_id: str
    """Content id of the text: 32 hex digits."""


class Sighting(Row):
    """One conversation state as one log line shows it. A vote line shows two."""

    source: str
    """Log file, relative to the log folder."""
    line: int
    """1-based line number in the file."""
    side: Int32
    """0 for the only or left side, 1 for the right side."""
    record_type: RecordType
    """What the line records."""
    tstamp: datetime
    """When the server wrote the line (UTC)."""
    conv_id: str
    """The server's conversation id, which survives an image reset."""
    opening_id: str
    """Content id of the first user text; with the first picture it tells conversations under one conv_id apart."""
    model: str
    """The model's name as the log spells it."""
    texts: list[str | None] | None
    """All messages after the template's few-shot offset, the user's first; null where the log holds no answer yet.
    Null as a whole when the next row with this source and conv_id, whose own texts may be null, begins with them."""
    num_messages: Int32
    """Number of messages, also where texts is null."""
    pictures: list[str]
    """Picture names without extension, in order of first use: 32 hex digits, or what WildVision-Arena links."""
    picture_problems: list[str]
    """Why a logged picture name cannot be used at all, as reject reasons."""
    user_id: str | None
    """Keyed hash of the sender's address; null when the log has none."""
    anonymous: bool | None
    """Whether model names were hidden; null outside side-by-side records."""
    winner: str | None
    """The vote, on vote lines only: model_a, model_b, tie or tie_bothbad."""


class Conversation(Row):
    """One conversation with one model."""

    conversation_id: str
    """The server's conv_id; a later conversation under the same conv_id has a hash of its opening appended."""
    model: str
    """The model that answered."""
    turns: list[IdentifiedTurn]
    """All messages, in order, starting with the user's first."""
    null_turns: list[Int32] | None
    """Places in turns, 0 the first, where the log held null, as for an answer that never came. Where it held an empty
    text, turns do and this does not. Null in stores from before this was kept, until they ingest again."""
    num_turns: Int32
    """Number of user messages."""
    prompt_id: str
    """Content id of all user messages joined by a blank line."""
    document_id: str
    """Content id of the prompt together with its pictures."""
    image_ids: list[str]
    """Pictures in order of first use, by content id."""
    image_problems: list[str]
    """Reject reasons of pictures that the conversation names and that cannot be used."""
    tstamp: datetime
    """Time of the last log line of the conversation (UTC); before UNDATED_BEFORE when a dataset gives none."""
    day: date
    """UTC day of the conversation's first log line."""
    user_id: str | None
    """Keyed hash of the user's address, never the address; null when the log has none."""
    anonymous: bool | None
    """True in an anonymous battle, false when names were shown, null in direct chat."""
    voted: bool
    """Whether a vote compares this conversation with another."""
    feedback: list[str]
    """upvote, downvote or flag, as pressed."""
    source: str
    """Log file of the line that holds the final state, relative to the log folder."""
    line: int
    """1-based number of that line."""


class RedactedConversation(Conversation):
    """A conversation as its policy lets it out. Its texts, prompt, document and pictures have ids of their own."""

    redactions: list[Redaction]
    """What was taken out."""
    policy_hash: str
    """The policy it was redacted under."""


class LogFileRead(Row):
    """How far one file of records was read. An unchanged file is not opened again, a grown one from `offset` on."""

    source: str
    """The file, relative to the log folder, without .gz or .zst."""
    format: str
    """What it was read as."""
    size_bytes: int
    """Size when it was read."""
    modified_ns: int
    """Modification time when it was read, nanoseconds since the epoch."""
    offset: int
    """Bytes of whole lines that were read; 0 for files that can only be read from the beginning."""
    lines: int
    """Whole lines that were read."""
    tail_lines: Int32
    """1 when an unfinished last line was read as well; it is read again when the file grows."""
    end_digest: str
    """XXH3 of the bytes before `offset`: a file that differs there was rewritten. Empty for files read as a whole."""
