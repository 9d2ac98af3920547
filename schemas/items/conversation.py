"""Conversations, votes on two of them, and the lines of logs that both are assembled from."""

from datetime import UTC, date, datetime
from enum import StrEnum

from schemas.items.decision import Redaction
from schemas.row import Int32, Row

UNDATED_FROM, UNDATED_BEFORE = datetime(2023, 1, 1, tzinfo=UTC), datetime(2023, 1, 1, 1, tzinfo=UTC)
"""Dataset rows without a timestamp get times in this hour, in row order. Nothing else is known to be of it."""


class RecordType(StrEnum):
    """The `type` of a raw log line: the nine of FastChat's `serve/`, and one of our own arena."""

    CHAT = "chat"
    UPVOTE = "upvote"
    DOWNVOTE = "downvote"
    FLAG = "flag"
    LEFT_VOTE = "leftvote"
    RIGHT_VOTE = "rightvote"
    TIE_VOTE = "tievote"
    BOTH_BAD_VOTE = "bothbad_vote"
    SHARE = "share"
    UNSURE_VOTE = "unsure_vote"
    """Somebody compared two answers and does not know which is better: no vote."""


class Role(StrEnum):
    """Who wrote a message: decided by its position after the few-shot offset, not by the log's role names."""

    USER = "user"
    ASSISTANT = "assistant"


class ShownImage(Row):
    """An image of a message: which one, and where it stands among the words."""

    image: Int32
    """Index in the images of the conversation, from 0."""
    character: Int32
    """Characters of the message before it: 0 for an image before the text."""


class ImagePlace(ShownImage):
    """An image in a log line: its name, its message and where it stands there."""

    message: Int32
    """Index of the message, from 0, after the template's few-shot offset."""


class UnreadPart(Row):
    """A part of a message that was not read."""

    kind: str
    """What it is, such as video, file or tool_call, as its row says; unknown where it says nothing in plain letters."""
    message: Int32 | None
    """Index of its message in the row, from 0, instructions included; null beside the messages."""


class IdentifiedTurn(Row):
    """One message of an assembled conversation."""

    role: Role
    """Who wrote it: user or assistant."""
    content: str
    """The text; empty when the log had null, see null_turns."""
    text_id: str
    """Content id of the text: 32 hex digits."""
    images: list[ShownImage]
    """The images of the message, in order; an image that is shown again is listed again. Images that cannot be used
    are not listed, see image_problems."""


class Serving(Row):
    """How an answer came, where the arena's server logs it."""

    thinking: str | None
    """What the model thought aloud before the answer, also where a server logs it in `<think>` at the head of the text;
    null without it. A release has it only where its policy says so."""
    first_token_seconds: float | None
    """From the question to the first piece of what came, thinking included."""
    first_word_seconds: float | None
    """From the question to the first word of the answer."""
    input_tokens: Int32 | None
    """Tokens of the question with everything before it, as the model's server counted them."""
    output_tokens: Int32 | None
    """Tokens of the answer as the server counted them, thinking included."""


class Consent(Row):
    """The terms that a visitor accepted before the first message, where the arena's server logs it."""

    terms_version: str
    """Version of the text, as the server names it: with our own arena, the first 16 hex digits of its SHA-256."""
    language: str
    """Language in which the text was shown, such as de."""
    accepted_at: datetime
    """When it was accepted (UTC)."""


class ServedAnswer(Serving):
    """How one answer of a conversation came."""

    turn: Int32
    """Index in turns of the answer, from 0."""
    thinking_id: str | None
    """Content id of what the model thought; signals screen it like a message."""


class Opinion(Row):
    """A person's opinion on one answer of a conversation: a button, words, or what is said beside a vote."""

    turn: Int32
    """Number of the user's message that the answer is to, from 1."""
    liked: bool | None
    """True for liked, false for disliked; null where the person pressed neither."""
    reasons: list[str]
    """Words of the source for why, each with its sign where one is known: useful+, incorrect-, odd."""
    comment: str | None
    """The person's words about the answer. It is in no release: nothing searches it for personal data."""
    seconds_to_vote: float | None
    """From the end of the later answer to the vote; below 0 for an earlier vote, null where the source has no times."""
    session_order: Int32 | None
    """Place of the vote in the session of its voter, as the source counts; null where it does not."""
    categories: list[str]
    """The source's own tags of the comparison or chat."""
    languages: list[str]
    """Its languages as the source names them."""


class Sighting(Row):
    """One conversation state from one log line; a vote line has two."""

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
    """The server's conversation id; it stays the same when the user uploads a new image."""
    opening_id: str
    """Content id of the first user text; with the first image it separates conversations that share a conv_id."""
    model: str
    """Model name as in the log."""
    texts: list[str | None] | None
    """All messages after the template's few-shot offset, starting with the user's first; an element is null where the
    log has no answer yet. The list is null when the next row with the same source and conv_id (whose own list may be
    null) starts with the same messages."""
    num_messages: Int32
    """Number of messages, also when texts is null."""
    images: list[str]
    """Image names without extension, in order of first use: 32 hex digits, or a name from WildVision-Arena."""
    image_places: list[ImagePlace]
    """Where the images stand, in order; `image` is an index in `images`."""
    name_problems: list[str]
    """Reject reasons of logged image names that cannot be used."""
    user_id: str | None
    """Keyed hash of the sender's address; null when the log has none."""
    anonymous: bool | None
    """Whether model names were hidden; null outside side-by-side records."""
    winner: str | None
    """The vote, on vote lines only: model_a, model_b, tie or tie_bothbad."""
    vote_reason: str | None
    """What the voter wrote about the vote; null without it and outside vote lines."""
    served: Serving | None
    """How the last answer came; null where the line does not say it, and in older stores."""
    unread_parts: list[UnreadPart] | None
    """Parts of its messages that were not read; null in older stores, as if there were none."""
    opinion: Opinion | None
    """The line's opinion on one answer of this side; null where it says nothing, and in older stores."""
    consent: Consent | None
    """What the visitor had agreed to by then; null where the line does not say it, and in older stores."""


class Conversation(Row):
    """One conversation with one model."""

    conversation_id: str
    """The server's conv_id; a later conversation with the same conv_id has a hash of its opening appended."""
    model: str
    """The model that answered."""
    turns: list[IdentifiedTurn]
    """All messages, in order: the user's and the model's in turn, the user's first. Ingest gives roles by place, and an
    answer that never came has a place too, so the first n turns are the first 2 n messages."""
    null_turns: list[Int32] | None
    """Indexes in turns, from 0, where the log had null, for example for an answer that never came; an empty text is
    not listed. Null in stores of an older version until they ingest again."""
    num_turns: Int32
    """Number of user messages."""
    prompt_id: str
    """Content id of all user messages joined by a blank line."""
    document_id: str
    """Content id of the prompt together with its images."""
    image_ids: list[str]
    """Content ids of the images, in order of first use."""
    image_problems: list[str]
    """Reject reasons of the conversation's images that cannot be used."""
    unread_parts: list[str] | None
    """Kinds of its parts that were not read, once each part; null in older stores, as if there were none."""
    tstamp: datetime
    """Time of the last log line of the conversation (UTC); in the first hour of 2023 when the dataset has no time."""
    day: date
    """UTC day of the conversation's first log line."""
    user_id: str | None
    """Keyed hash of the user's address, never the address; null when the log has none."""
    anonymous: bool | None
    """True in an anonymous battle, false when names were shown, null in direct chat."""
    voted: bool
    """Whether the conversation is one side of a vote."""
    feedback: list[str]
    """Buttons the user pressed: upvote, downvote, flag."""
    served: list[ServedAnswer] | None
    """How answers came; null in logs that do not say it, in older stores, and once redacted."""
    consent: Consent | None
    """What the visitor last agreed to; null in logs that do not say it, in older stores, and once redacted. It is in no
    release."""
    source: str
    """Log file of the line with the final state, relative to the log folder."""
    line: int
    """1-based number of that line."""


class RedactedConversation(Conversation):
    """The redacted version of a conversation. Its texts, prompt, document and images have content ids of their own."""

    redactions: list[Redaction]
    """What was redacted."""
    left_names: list[str]
    """Names that stay in its messages, in plain form, because they stand in an exercise or a list of options, here
    or on the other side of its battle."""
    policy_hash: str
    """The policy it was redacted under."""


class LogFileRead(Row):
    """How far one log file was read. Unchanged files are skipped; appended files resume at `offset`."""

    source: str
    """The file, relative to the log folder, without .gz or .zst; or a day of a database: comparison/2026-01-05."""
    format: str
    """Name of the format adapter that read it."""
    size_bytes: int
    """Size when it was read; of a day of a database, 2,048 for each of its records."""
    modified_ns: int
    """Modification time when it was read, nanoseconds since the epoch."""
    offset: int
    """Bytes of complete lines that were read; 0 for files that can only be read from the beginning."""
    lines: int
    """Complete lines that were read."""
    tail_lines: Int32
    """1 when an incomplete last line was read too; it is read again when the file grows."""
    end_digest: str
    """XXH3 of the bytes before `offset`, to detect a rewritten file; empty for files that are read as a whole. Of a day
    of a database, a hash that changes with any of its records."""


class ScrubbedFile(Row):
    """A copy of a log file without addresses. Where it takes the place of the file, nothing is read again."""

    read: LogFileRead
    """The row of `log_files` that the copy has in place of the file's own."""
    digest: str
    """XXH3 of all bytes of the copy."""


class ShrunkFile(Row):
    """A log file that lost lines which were read from it; their rows stay until somebody accepts the loss."""

    source: str
    """The file, relative to the log folder, without .gz or .zst."""
    lines_before: int
    """Lines that were read from it."""
    lines_now: int
    """Lines that it has now."""
    lines_lost: int
    """Lines with chats or votes, among those that were read, that stand in no file any more."""

    def __str__(self) -> str:
        return (
            f"log file {self.source!r} had {self.lines_before:,} lines and has {self.lines_now:,}: {self.lines_lost:,} "
            "with chats or votes are gone"
        )


class Winner(StrEnum):
    """The verdict of a vote."""

    MODEL_A = "model_a"
    MODEL_B = "model_b"
    TIE = "tie"
    BOTH_BAD = "tie_bothbad"


class Battle(Row):
    """One vote on two conversations: of several votes on turns of one comparison the one on the latest turn.

    So a comparison counts once, and intervals are as wide as people's comparisons allow; the table `reactions` and the
    view `votes` have the other votes.
    """

    battle_id: str
    """Conversation id of the left side (upstream calls it question_id)."""
    conversation_a: str
    """conversation_id of the left side."""
    conversation_b: str
    """conversation_id of the right side."""
    model_a: str
    """Model on the left."""
    model_b: str
    """Model on the right."""
    winner: Winner
    """The verdict."""
    anonymous: bool
    """Whether the names were hidden until the vote."""
    turns_a: Int32
    """User messages on the left up to the vote. A conversation that went on has more; the battle ends here."""
    turns_b: Int32
    """User messages on the right up to the vote."""
    tstamp: datetime
    """When the vote was cast (UTC)."""
    day: date
    """UTC day of the vote."""
    judge: str | None
    """Keyed hash of the voter's address; null when the log has none."""
    vote_reason: str | None
    """Why the voter chose so, in the voter's words; null where the arena did not ask or nothing was written."""
    vote_reason_id: str | None
    """Content id of that text."""
    source: str
    """Log file of the vote, relative to the log folder."""
    line: int
    """1-based line number of the vote."""


class Reaction(Opinion):
    """One person's opinion on one answer, and the verdict if it was compared with another one.

    A vote on a turn has two rows, one a side. Of several by one person on one answer, the last.
    """

    conversation_id: str
    """The conversation of the answer."""
    model: str
    """The model that answered."""
    side: str | None
    """a (left) or b of a vote; null for a reaction to one answer alone."""
    opponent_id: str | None
    """The conversation on the other side of the vote; null like side."""
    winner: Winner | None
    """The verdict on both sides; null like side."""
    anonymous: bool | None
    """Whether the names were hidden until the vote; null like side."""
    user_id: str | None
    """Keyed hash of the person; null when the source names nobody."""
    tstamp: datetime
    """When it was said (UTC)."""
    day: date
    """UTC day of tstamp."""
    source: str
    """File of the line or row, relative to the log folder."""
    line: int
    """1-based number of that line."""
