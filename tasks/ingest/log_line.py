"""Parses one raw log line (FastChat `serve/`, all eras) into conversation states, or rejects it with a reason."""

import math
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import orjson

from schemas.items.conversation import Opinion, RecordType, Serving, Winner
from schemas.items.reject import LineRejected, RejectReason
from tasks.runtime.json_rows import loads
from tasks.runtime.thinking import split_thinking
from tasks.runtime.times import END_SECONDS, read_time
from tasks.storage.content_id import text_id
from tasks.storage.keyed_ids import Pseudonyms

MARK = "<image>"
"""Stands for an image among the words of a message."""
_WINNERS: dict[object, str] = {
    RecordType.LEFT_VOTE.value: Winner.MODEL_A.value,
    RecordType.RIGHT_VOTE.value: Winner.MODEL_B.value,
    RecordType.TIE_VOTE.value: Winner.TIE.value,
    RecordType.BOTH_BAD_VOTE.value: Winner.BOTH_BAD.value,
}
_SIDE_BY_SIDE = {*_WINNERS, RecordType.SHARE.value, RecordType.UNSURE_VOTE.value}
_STATES_OF = {kind.value: 2 if kind.value in _SIDE_BY_SIDE else 1 for kind in RecordType}
_HASH = re.compile(r"[0-9a-fA-F]{32}")
_BUCKET_URL = re.compile(r"https?://[^\s\\]+/([0-9a-fA-F]{32})(?:\.[a-zA-Z]{3,4})?")
is_conv_id = re.compile(r"[0-9A-Za-z_-]{8,64}").fullmatch
_REVEALED = re.compile(r"\s*(?:<h3>|#{1,4})\s*Model [AB]\s*(?::|$)")
_FIRST_SECOND = 1_640_995_200  # 2022-01-01
_MODEL_CHARACTERS_MAX, _TOKENS_MAX = 200, 2**31 - 1
_LIKED: dict[object, bool] = {RecordType.UPVOTE.value: True, RecordType.DOWNVOTE.value: False}
_NO_OPINION: dict[str, Any] = dict.fromkeys(Opinion.model_fields) | {
    "reasons": [],
    "categories": [],
    "languages": [],
}
_is_reason = re.compile(r"[a-z][a-z0-9_]{0,39}[+-]?").fullmatch
_TAG_CHARACTERS_MAX = 200
Record = dict[str, Any]
_SERVING = tuple(Serving.model_fields)
_opening_id = lru_cache(maxsize=1024)(text_id)


class Place(NamedTuple):
    """A line of a file."""

    source: str
    line: int
    folder: str = ""
    """Folder of all files, below which a row's paths are read; empty where rows have none."""
    part: int = 0
    """Number of the conversation or vote in the line, from 0, where a format has several in one."""


class Seen(NamedTuple):
    """A `schemas.items.conversation.Sighting` as a tuple, because validating millions of rows would be slow."""

    source: str
    line: int
    side: int
    record_type: str
    tstamp: int
    """Microseconds since the epoch, UTC."""
    conv_id: str
    opening_id: str
    model: str
    texts: list[str | None]
    images: list[str]
    image_places: list[dict[str, int]]
    """`schemas.items.conversation.ImagePlace`s."""
    name_problems: list[str]
    user_id: str | None
    anonymous: bool | None
    winner: str | None
    vote_reason: str | None
    served: dict[str, Any] | None
    """`schemas.items.conversation.Serving`."""
    unread_parts: list[dict[str, Any]]
    """`schemas.items.conversation.UnreadPart`s."""
    opinion: dict[str, Any] | None
    """`schemas.items.conversation.Opinion`."""
    consent: dict[str, Any] | None
    """`schemas.items.conversation.Consent`, with its time in microseconds since the epoch, UTC."""


def parse_json(raw: bytes) -> Record:
    """The record of a line. Raises LineRejected when it is blank, not JSON or not an object."""
    try:
        record = loads(raw)
    except orjson.JSONDecodeError as error:
        text = raw.rstrip(b"\r\n")
        if not text.strip():
            raise LineRejected(RejectReason.BLANK_LINE, "nothing on the line") from None
        raise LineRejected(RejectReason.NOT_JSON, f"at character {error.pos} of {len(text)} bytes") from None
    if type(record) is not dict:
        raise LineRejected(RejectReason.NOT_A_RECORD, f"a JSON {type(record).__name__}, not an object")
    return record


def sightings(record: Record, states: list[Any], place: Place, people: Pseudonyms) -> list[Seen]:
    """The one or two conversation states of a record. Raises LineRejected with the first thing that is wrong."""
    record_type = record.get("type")
    state_count = _STATES_OF.get(record_type) if type(record_type) is str else None
    if state_count is None:
        raise LineRejected(RejectReason.UNKNOWN_TYPE, "not one of the ten record types")
    if record_type == RecordType.SHARE and "state" in record and "states" not in record:
        state_count = 1  # of a direct chat
    if len(states) != state_count or type(states[0]) is not dict or type(states[-1]) is not dict:
        raise LineRejected(RejectReason.BAD_STATE, f"{len(states)} states, {state_count} needed as objects")
    tstamp = _microseconds(record.get("tstamp"))
    anonymous = _names_hidden(record, states) if state_count == 2 else None
    user_id = people.user_id(_user(record.get("ip")))
    winner = _WINNERS.get(record_type)
    vote_reason = _vote_reason(record.get("reason")) if winner else None
    served = _served(record.get("arena")) if record_type == RecordType.CHAT else None
    consent = _consent(record.get("arena"))
    opinions = _opinions_of(record, state_count)
    liked = _LIKED.get(record_type)
    seen_states = []
    for side, state in enumerate(states):
        texts, names, places = _messages_of(state)
        if not names and "images" in record:
            record_images = _unstringified(record["images"])  # of early logs
            names = record_images if type(record_images) is list else []
            places = [(0, 0)] * len(names)
        thinking = _without_thinking(texts, places)
        images, problems = image_names(names) if names else ([], [])
        conv_id, model = _named(state, state.get("model_name") if state_count == 2 else record.get("model"))
        seen: tuple[Any, ...] = (
            place.source, place.line, side, record_type, tstamp, conv_id, _opening_id(texts[0] or ""), model,
            texts, images, _image_places(names, images, places) if images else [], problems, user_id, anonymous, winner,
            vote_reason, _with_thinking(served, thinking), [], _opinion(opinions[side], liked, len(texts)),
            consent,
        )  # fmt: skip
        seen_states.append(Seen._make(seen))
    if state_count == 2 and seen_states[0].conv_id == seen_states[1].conv_id:
        raise LineRejected(RejectReason.BAD_STATE, "both sides are one conversation")
    return seen_states


def _user(value: object) -> str | None:
    """The address or name of a user as a text; null where there is none."""
    if value is None or type(value) is str:
        return value
    if type(value) not in (int, float):
        raise LineRejected(RejectReason.BAD_USER, f"{type(value).__name__}, neither a text nor a number")
    return None if value != value else str(value)


def _vote_reason(value: object) -> str | None:
    """The text that the voter wrote (WildVision-Arena); null when it is empty."""
    if value is not None and type(value) is not str:
        raise LineRejected(RejectReason.BAD_VOTE_REASON, f"{type(value).__name__}, not a text")
    return value.strip() or None if value else None


def _opinions_of(record: Record, count: int) -> list[Any]:
    """The opinions of a record on an answer of each of its states: `count` objects or nulls."""
    opinions = record.get("opinions")
    if opinions is None:
        return [None] * count
    if type(opinions) is not list or len(opinions) != count:
        raise LineRejected(RejectReason.BAD_REACTION, "opinions are not one object or null for each state")
    stated = [opinion for opinion in opinions if opinion is not None]
    if len(stated) == 1 and type(stated[0]) is dict and record.get("type") in _WINNERS:
        # A vote compares two answers of one turn, also where words are about one of them alone.
        return [{"turn": stated[0].get("turn")} if opinion is None else opinion for opinion in opinions]
    return opinions


def _opinion(stated: Any, liked: bool | None, message_count: int) -> dict[str, Any] | None:
    """The opinion on an answer of a state. A button that was pressed is one on the last answer; None without any.

    `liked: null` that the record states itself takes an earlier button back. Raises LineRejected for a turn without an
    answer, and for a value of another shape.
    """
    if stated is None:
        if liked is None:
            return None
        return {**_NO_OPINION, "turn": (message_count + 1) // 2, "liked": liked}
    if type(stated) is not dict:
        raise _bad_reaction("an opinion", stated)
    # NaN is what tables of numbers have in place of null.
    opinion: dict[str, Any] = {name: None if (value := stated.get(name)) != value else value for name in _NO_OPINION}
    if liked is not None and "liked" not in stated:
        opinion["liked"] = liked
    turn = opinion["turn"]
    answers = message_count // 2
    if type(turn) is not int or not 1 <= turn <= answers:
        raise LineRejected(RejectReason.BAD_REACTION, f"turn: not one of 1 to {answers}, the turns with an answer")
    if opinion["liked"] is not None and type(opinion["liked"]) is not bool:
        raise _bad_reaction("liked", opinion["liked"])
    for name in ("reasons", "categories", "languages"):
        opinion[name] = _words(name, opinion[name])
    if not all(map(_is_reason, opinion["reasons"])):
        raise LineRejected(
            RejectReason.BAD_REACTION, "a reason is not letters, digits and _, with a + or - behind them or none"
        )
    comment = opinion["comment"]
    if comment is not None and type(comment) is not str:
        raise _bad_reaction("the comment", comment)
    opinion["comment"] = (comment or "").strip() or None
    seconds = opinion["seconds_to_vote"]
    if seconds is not None and (type(seconds) not in (int, float) or not math.isfinite(seconds)):
        raise _bad_reaction("seconds_to_vote", seconds)
    order = opinion["session_order"]
    if order is not None and (type(order) is not int or not 0 <= order <= _TOKENS_MAX):
        raise _bad_reaction("session_order", order)
    return opinion


def _words(name: str, value: Any) -> list[str]:
    """The texts of a list; none for null."""
    words = [] if value is None else value
    if type(words) is not list or not all(map(is_word, words)):
        raise _bad_reaction(name, value)
    return words


def is_word(value: object) -> bool:
    """Whether a value may be a tag or a language of an opinion: a printable text that is not long."""
    return type(value) is str and value.isprintable() and len(value) <= _TAG_CHARACTERS_MAX


def _bad_reaction(name: str, value: object) -> LineRejected:
    return LineRejected(RejectReason.BAD_REACTION, f"{name}: a {type(value).__name__} that it may not be")


def _served(arena_fields: object) -> dict[str, Any] | None:
    """How the answer of a line of our own arena came; what is not of its shape is another server's and left out."""
    if type(arena_fields) is not dict:
        return None
    serving: dict[str, Any] = dict.fromkeys(_SERVING)
    if type(arena_fields.get("thinking")) is str:
        serving["thinking"] = arena_fields["thinking"] or None
    for name in ("first_token_seconds", "first_word_seconds"):
        seconds = arena_fields.get(name)
        serving[name] = seconds if type(seconds) is float and seconds >= 0 else None
    usage = arena_fields["usage"] if type(arena_fields.get("usage")) is dict else {}
    for name in ("input_tokens", "output_tokens"):
        tokens = usage.get(name)
        serving[name] = tokens if type(tokens) is int and 0 <= tokens <= _TOKENS_MAX else None
    return serving if any(value is not None for value in serving.values()) else None


def _consent(arena_fields: object) -> dict[str, Any] | None:
    """The terms that the visitor of a line of our own arena had accepted; another shape is another server's."""
    terms = arena_fields.get("terms") if type(arena_fields) is dict else None
    if type(terms) is not dict:
        return None
    version, language, accepted_at = terms.get("version"), terms.get("language"), terms.get("accepted_at")
    if not (isinstance(version, str) and isinstance(language, str) and isinstance(accepted_at, int | float)):
        return None
    if not (_is_name(version) and _is_name(language) and _FIRST_SECOND <= accepted_at < END_SECONDS):
        return None
    return {"terms_version": version, "language": language, "accepted_at": round(accepted_at * 1_000_000)}


def _without_thinking(texts: list[str | None], places: Sequence[tuple[int, int]]) -> str | None:
    """Take thinking out of the answers, in place; returns that of the last message. Answers among images stay."""
    thinking, among_images = None, {message for message, _ in places}
    for place in range(1, len(texts), 2):
        thinking, text = None, texts[place]
        if text and place not in among_images:
            thinking, texts[place] = split_thinking(text)
    return thinking if len(texts) % 2 == 0 else None


def earlier_thoughts(state: Record) -> list[tuple[int, str]]:
    """(number of messages up to the answer, thinking) of each answer of a state except the one that ends it."""
    messages = state["messages"]
    found: list[tuple[int, str]] = []
    for place in range(1, len(messages) - 1, 2):
        text = messages[place][1]
        thinking = split_thinking(text)[0] if type(text) is str else None
        if thinking:
            found.append((place + 1, thinking))
    return found


def up_to_answer(seen: Seen, num_messages: int, thinking: str) -> Seen:
    """The sighting as the log of a server has it at an earlier answer: a chat up to there, with what was thought."""
    return seen._replace(
        record_type=RecordType.CHAT.value,
        texts=seen.texts[:num_messages],
        image_places=[place for place in seen.image_places if place["message"] < num_messages],
        anonymous=None,
        winner=None,
        vote_reason=None,
        served={**dict.fromkeys(_SERVING), "thinking": thinking},
        unread_parts=[],
        opinion=None,
    )


def _with_thinking(served: dict[str, Any] | None, thinking: str | None) -> dict[str, Any] | None:
    """How an answer came, with what was thought in its text after what the line tells apart."""
    serving = served or dict.fromkeys(_SERVING)
    thoughts = [thought for thought in (serving["thinking"], thinking) if thought]
    return serving | {"thinking": "\n\n".join(thoughts)} if thinking else served


def _named(state: dict[str, Any], model: object) -> tuple[str, str]:
    """(conversation id, model name without blanks around it). Raises LineRejected when one of them is not valid."""
    conv_id = state.get("conv_id")
    if type(conv_id) is not str or not is_conv_id(conv_id):
        evidence = f"{type(conv_id).__name__}, not 8 to 64 letters, digits, - and _"
        raise LineRejected(RejectReason.BAD_CONVERSATION_ID, evidence)
    if type(model) is not str or not _is_name(model := model.strip()):
        raise LineRejected(RejectReason.BAD_MODEL, f"{type(model).__name__}, not a printable name")
    return conv_id, model


def _microseconds(value: object) -> int:
    if type(value) is float and _FIRST_SECOND <= value < END_SECONDS:  # as servers write it: at once
        return round(value * 1_000_000)
    try:
        microseconds, form = read_time(value)
    except ValueError as error:
        raise LineRejected(RejectReason.BAD_TIMESTAMP, str(error)) from None
    if not _FIRST_SECOND * 1_000_000 <= microseconds < END_SECONDS * 1_000_000:
        raise LineRejected(RejectReason.BAD_TIMESTAMP, f"read as {form}, not between 2022 and 2099")
    return microseconds


def states_of(record: Record) -> list[Any]:
    """The states of a record. The remote logger writes them as JSON strings; other logs nest them."""
    if "states" in record:
        states = _unstringified(record["states"])
        return [_unstringified(state) for state in states] if type(states) is list else []
    return [_unstringified(record["state"])] if "state" in record else []


def _unstringified(value: Any) -> Any:
    """The parsed value of a string that is JSON; any other value unchanged."""
    if type(value) is not str:
        return value
    try:
        return loads(value)
    except orjson.JSONDecodeError:
        return value


@lru_cache(maxsize=4096)
def _is_name(value: str) -> bool:
    """Whether the value is a valid model name."""
    return 0 < len(value) <= _MODEL_CHARACTERS_MAX and value.isprintable()


def image_names(logged: Sequence[object]) -> tuple[list[str], list[str]]:
    """(valid names in order of first use, reject reasons of the invalid ones).

    A valid name is 32 hex digits, the MD5 of the decoded pixels, or in early logs a URL that ends with them. Case does
    not matter.
    """
    names: dict[str, None] = {}
    problems: list[str] = []
    for value in logged:
        if name := _image_name(value):
            names[name] = None
        elif isinstance(value, str) and any(mark in value for mark in ("/", "\\", "..")):
            problems.append(RejectReason.IMAGE_PATH_ESCAPE)
        else:
            problems.append(RejectReason.IMAGE_NAME_INVALID)
    return list(names), problems


def _image_name(value: object) -> str | None:
    match = isinstance(value, str) and (_HASH.fullmatch(value) or _BUCKET_URL.fullmatch(value))
    return match.group(match.lastindex or 0).lower() if match else None


def _image_places(
    logged: Sequence[object], images: list[str], places: Sequence[tuple[int, int]]
) -> list[dict[str, int]]:
    """The place of every logged name that is one of `images`; `places` are those of `logged`."""
    index = {name: number for number, name in enumerate(images)}
    names_and_places = zip(map(_image_name, logged), places, strict=True)
    return [{"image": index[n], "message": m, "character": c} for n, (m, c) in names_and_places if n is not None]


def _messages_of(state: Record) -> tuple[list[str | None], list[Any], list[tuple[int, int]]]:
    """(texts after the template's few-shot examples, all image names in these messages as logged, their places).

    A place is (message, character).
    """
    messages, offset = state.get("messages"), state.get("offset", 0)
    if type(messages) is not list:
        raise LineRejected(RejectReason.BAD_MESSAGES, f"messages are a {type(messages).__name__}")
    if type(offset) is not int or offset < 0:
        raise LineRejected(RejectReason.BAD_OFFSET, f"offset is a {type(offset).__name__}")
    if offset >= len(messages):
        raise LineRejected(RejectReason.NO_MESSAGES, f"offset {offset} of {len(messages)} messages")
    texts: list[str | None] = []
    logged: list[Any] = []
    places: list[tuple[int, int]] = []
    for message in messages[offset:] if offset else messages:
        if type(message) is not list or len(message) != 2:
            raise LineRejected(RejectReason.BAD_MESSAGES, "a message is not [role, content]")
        content = message[1]
        if type(content) is list and 2 <= len(content) <= 3 and type(content[1]) is list:
            content, names, characters = _text_and_images(*content)
            logged += names
            places += [(len(texts), character) for character in characters]
        if content is not None and type(content) is not str:
            evidence = f"content is neither text nor [text, images]: {type(content).__name__}"
            raise LineRejected(RejectReason.BAD_MESSAGES, evidence)
        texts.append(content)
    return texts, logged, places


def _text_and_images(text: Any, names: list[Any], characters: Any = None) -> tuple[Any, list[Any], Sequence[int]]:
    """(text without marks, image names, characters before each image) of a message's content.

    `characters`, which format adapters give, is checked. Raises LineRejected when it does not fit.
    """
    if characters is not None:
        if type(characters) is not list or len(characters) != len(names) or not _within(characters, text):
            raise LineRejected(RejectReason.BAD_MESSAGES, "places of images do not fit the text")
        return text, names, characters
    if names and type(text) is str and text.count(MARK) == len(names):
        # a mark on a line of its own goes with its line
        plain_text, *pieces = text.split(MARK)
        places = []
        for piece in pieces:
            places.append(len(plain_text))
            plain_text += piece.removeprefix("\n") if not plain_text or plain_text.endswith("\n") else piece
        return plain_text, names, places
    return text, names, [0] * len(names)


def _within(characters: list[Any], text: Any) -> bool:
    text_length = len(text) if type(text) is str else 0
    return all(type(character) is int and 0 <= character <= text_length for character in characters)


def _names_hidden(record: Record, states: list[Record]) -> bool:
    """Whether the names were hidden until the vote.

    Hidden: empty, `Model A`, or revealed after the vote as `<h3>Model A: name</h3>` or `### Model A: name` (FastChat's
    cleaner counts the last form as named; WildVision-Arena writes it with `##`). Named: the plain model name.
    """
    names = _unstringified(record.get("models"))
    if type(names) is not list or len(names) != 2 or not all(type(name) is str for name in names):
        raise LineRejected(RejectReason.BAD_MODEL, "models is not a pair of names")
    are_hidden = [_is_hidden(name) for name in names]
    if are_hidden[0] != are_hidden[1]:
        raise LineRejected(RejectReason.HALF_ANONYMOUS, "one name shown, the other hidden")
    for name, state in zip(names, states, strict=True):
        actual = state.get("model_name")
        if not are_hidden[0] and type(actual) is str and actual.strip() not in name:
            raise LineRejected(RejectReason.MODEL_MISMATCH, "the shown name is not the answering model")
    return are_hidden[0]


@lru_cache(maxsize=4096)
def _is_hidden(name: str) -> bool:
    return not name.strip() or name in ("Model A", "Model B") or bool(_REVEALED.match(name))
