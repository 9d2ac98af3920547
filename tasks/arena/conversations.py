"""One visitor's conversation with one model or two: what was said, what was voted, and the records of the log.

No I/O and no user interface. A state is what `curate ingest` reads as `state` of a log line (docs/logs.md).
"""

import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import takewhile
from typing import Any

from schemas.asked_model import ArenaModel
from schemas.items.conversation import RecordType
from tasks.arena.names import holds_name, names_of
from tasks.arena.opinions import AnswerReaction, TurnVote
from tasks.providers.capabilities import ChatMessage, Thought, TokensUsed
from tasks.runtime.thinking import THINKING_TAGS

CHAT_ROLES = ("user", "assistant")
CONVERSATION_TEMPLATE = "arena"
TURNS_MAX = 50
_UNCOUNTED = TokensUsed()


class Mode(StrEnum):
    """How a visitor talks to models."""

    BATTLE = "battle"
    """Two drawn models whose names are hidden until the vote."""
    SIDE_BY_SIDE = "side_by_side"
    """Two chosen models."""
    DIRECT = "direct"
    """One chosen model."""


@dataclass(frozen=True, slots=True)
class Picture:
    """An image that passed the admission."""

    name: str
    """Name in the log: MD5 of the RGBA pixels."""
    png: bytes = field(repr=False)
    """PNG of these pixels, without metadata."""
    preset: str | None = None
    """Path in the collection of example images; None for an upload."""
    checked: dict[str, Any] = field(default_factory=dict)
    """Measurements of the admission."""


@dataclass(frozen=True, slots=True)
class VisitorPrompt:
    """A message of the visitor."""

    text: str
    pictures: tuple[Picture, ...] = ()
    personal: tuple[str, ...] = ()
    """Kinds of personal data that it seemed to have, which its visitor sent anyway."""


@dataclass(slots=True)
class StreamedAnswer:
    """A model's answer, as far as it has come."""

    text: str = ""
    thinking: str = ""
    """Thinking of the model, which is no part of the answer."""
    started: float = 0.0
    """Epoch seconds."""
    first_token: float = 0.0
    """When the first piece of the thinking or the answer came; 0 before."""
    first: float = 0.0
    """When the first piece of the answer came; 0 before."""
    finished: float = 0.0
    done: bool = False
    failed: bool = False
    stopped: bool = False
    """Whether the visitor, or a vote, ended it early."""
    regenerated: int = 0
    """How many answers to the same prompt came before it."""
    used: TokensUsed = _UNCOUNTED
    _raw: str = field(default="", repr=False)
    """Pieces that came before it was known whether they are thinking."""

    def add(self, piece: str) -> None:
        """Take a piece of the answer, or of the thinking before it, which servers mark or write between tags."""
        self.first_token = self.first_token or time.time()
        if isinstance(piece, Thought):
            self.thinking += piece
        elif self.text:
            self.text += piece
        else:
            self._raw += piece
            head = self._raw.lstrip()
            if opening := next(filter(head.startswith, THINKING_TAGS), ""):
                self.thinking, _, answer = head.removeprefix(opening).partition(THINKING_TAGS[opening])
                self.text, self._raw = answer.lstrip(), "" if answer.strip() else self._raw
            elif not any(tag.startswith(head) for tag in THINKING_TAGS):
                self.text, self._raw = self._raw, ""
        if self.text and not self.first:
            self.first = time.time()

    def end(self) -> None:
        """No more pieces come."""
        if self._raw and not self._raw.lstrip().startswith(tuple(THINKING_TAGS)):
            self.text, self._raw = self._raw, ""


@dataclass(slots=True)
class Side:
    """The conversation with one model."""

    model: ArenaModel
    conv_id: str = field(default_factory=lambda: uuid.uuid4().hex)
    answers: list[StreamedAnswer] = field(default_factory=list)
    logged: bool = False
    """Whether a line of the log holds it."""
    drawn: dict[str, Any] = field(default_factory=dict)
    """How its model was drawn in place of one that failed, for the line of its first answer."""

    def names_itself(self) -> bool:
        """Whether an answer has the model's name."""
        names = names_of([self.model])
        return any(holds_name(answer.text, names) for answer in self.answers)


@dataclass(frozen=True)
class TermsAccepted:
    """A visitor's acceptance of the terms: which text, in which language, and when."""

    version: str
    """First 16 hex digits of the SHA-256 of the text."""
    language: str
    accepted_at: int
    """Seconds since 1970 (UTC)."""


@dataclass(slots=True)
class ArenaConversation:
    """One round: prompts, and a side for each model."""

    mode: Mode
    sides: list[Side]
    owner: str
    """Fingerprint of the cookie of the browser that opened it."""
    browser: str = ""
    """Keyed hash of the owner, for the log."""
    prompts: list[VisitorPrompt] = field(default_factory=list)
    drawn: dict[str, Any] = field(default_factory=dict)
    """How the models of a battle were drawn, for the lines of its first answers."""
    moderation: list[str] | None = None
    """Categories of the texts before the last answers that the admission let pass; None without such texts."""
    voted: dict[tuple[str, int, int], RecordType] = field(default_factory=dict)
    """(kind, state) -> vote; in direct chat up or down, and `flag N` for a report of side N."""
    votes: dict[tuple[int, int], TurnVote] = field(default_factory=dict)
    """State -> the vote on it, oldest first."""
    reactions: dict[tuple[int, int], AnswerReaction] = field(default_factory=dict)
    """(turn from 1, place of the side) -> what was said of that answer."""
    terms: TermsAccepted | None = None
    """The terms that its visitor had accepted before the last message."""
    link: str = ""
    """The secret part that the address of its read-only page is made of; empty while only its visitor may see it."""
    used: float = field(default_factory=time.monotonic)
    """When its visitor last did something."""
    revealed: bool = False
    """Whether a vote has shown the names of a battle."""
    closed: bool = False
    """Whether no more may be said."""
    voting: bool = False
    """Whether something of it is being written, such as a vote; meanwhile nothing else is taken but a report."""
    check_count: int = 0
    """How many requests wait for the moderation of its texts."""
    forgotten: bool = False
    """Whether its removal was asked for."""

    @property
    def id(self) -> str:
        """Number on the page and in the log."""
        return self.sides[0].conv_id

    @property
    def is_logged(self) -> bool:
        """Whether a line of the log is about it: an answer, or a report on one that broke off."""
        return bool(self.voted) or any(side.logged for side in self.sides)

    @property
    def open(self) -> bool:
        """Whether every model has open weights."""
        return all(side.model.open for side in self.sides)

    @property
    def named(self) -> bool:
        """Whether the visitor may see the names of the models."""
        return self.mode is not Mode.BATTLE or self.revealed

    @property
    def answering(self) -> bool:
        """Whether an answer is still coming."""
        return any(side.answers and not side.answers[-1].done for side in self.sides)

    @property
    def state(self) -> tuple[int, int]:
        """Changes with every message and every new answer: (prompts, answers that came before the last)."""
        regenerated = max((side.answers[-1].regenerated for side in self.sides if side.answers), default=0)
        return len(self.prompts), regenerated

    def may_vote(self, kind: str = "vote") -> bool:
        """Whether both answers have begun, none failed, nothing was voted on this state, and the round is open.

        What a vote has closed may still be shared.
        """
        if self.voting or self.forgotten or (self.closed and kind == "vote"):
            return False
        answers = [side.answers[-1] for side in self.sides if len(side.answers) == len(self.prompts) and side.answers]
        begun = len(answers) == len(self.sides) and all(answer.text and not answer.failed for answer in answers)
        return begun and (kind, *self.state) not in self.voted

    def answer_to(self, turn: int, place: int) -> StreamedAnswer | None:
        """The whole answer of a side to a message, from 1; None where there is none, or where it still comes."""
        answers = self.sides[place].answers if 0 <= place < len(self.sides) else []
        answer = answers[turn - 1] if 0 < turn <= len(answers) else None
        return answer if answer and answer.done and not answer.failed else None

    def reactions_to_last(self) -> list[AnswerReaction]:
        """Reactions to the last answers; in direct chat the rating is one."""
        rating = self.votes.get(self.state) if self.mode is Mode.DIRECT else None
        rated = [AnswerReaction(rating.kind, rating.turn, 0)] if rating else []
        return rated + [reaction for reaction in self.reactions.values() if reaction.turn == len(self.prompts)]

    def failed_side(self) -> Side | None:
        """The side that gave no answer to the last message while the other one did; None where there is none."""
        if self.closed or self.forgotten or self.voting or self.answering or len(self.sides) < 2 or not self.prompts:
            return None
        failed = [side for side in self.sides if side.answers and side.answers[-1].failed]
        return failed[0] if len(failed) == 1 else None

    def is_drawn_anew(self, side: Side) -> bool:
        """Whether another model takes the place of one that failed: of a drawn one that has answered nothing yet."""
        return self.mode is Mode.BATTLE and not side.logged

    def may_reveal(self) -> bool:
        """Whether a vote after which the talk went on may still end the round."""
        return bool(self.votes) and self.mode is Mode.BATTLE and not (self.closed or self.voting)

    def said(self, place: int) -> str:
        """The last answer of a side, as far as it has come; empty without one."""
        answers = self.sides[place].answers if 0 <= place < len(self.sides) else []
        return answers[-1].text if answers else ""

    def messages(self, side: Side) -> list[ChatMessage]:
        """Messages that are sent to a side's model for its next answer."""
        messages = [ChatMessage("system", side.model.system)] if side.model.system else []
        for number, prompt in enumerate(self.prompts):
            images = tuple(("png", picture.png) for picture in prompt.pictures)
            messages.append(ChatMessage("user", prompt.text, images))
            if number < len(self.prompts) - 1:
                messages.append(ChatMessage("assistant", side.answers[number].text))
        return messages

    def unanswered_pictures(self) -> set[str]:
        """Names of the last prompt's images when no side has answered it, so that no line of this round has them."""
        if not self.prompts or not all(side.answers and side.answers[-1].failed for side in self.sides):
            return set()
        return {picture.name for picture in self.prompts[-1].pictures}

    def texts(self, *, last_answers: bool = True) -> list[str]:
        """Everything that was said on all sides, for moderation; also without the answers to the last prompt."""
        texts = [prompt.text for prompt in self.prompts]
        answers = None if last_answers else len(self.prompts) - 1
        # the answers of every side, up to the last message or the one before it
        texts += [answer.text for side in self.sides for answer in side.answers[:answers]]
        return [text for text in dict.fromkeys(texts) if text.strip()]

    def marks(self) -> dict[str, Any]:
        """Marks by which its lines are found again in the log, and tell which models it has."""
        sides = [{"conv_id": side.conv_id, "model": side.model.name} for side in self.sides]
        agreed = {"terms": vars(self.terms)} if self.terms else {}
        return {"mode": self.mode.value, "browser": self.browser, "sides": sides, **agreed}

    def state_of(self, side: Side, *, flagged: bool = False, whole: bool = False) -> dict[str, Any]:
        """The state of a side, as FastChat's vision arena logs it; `whole`: up to its last answer that has ended."""
        messages: list[list[Any]] = []
        # whether each message has a whole answer: the line ends before the first one without
        answered = [answer.done and not answer.failed for answer in side.answers]
        shown_count = sum(takewhile(bool, answered)) if whole else len(self.prompts)
        for number, prompt in enumerate(self.prompts[:shown_count]):
            names = [picture.name for picture in prompt.pictures]
            messages.append([CHAT_ROLES[0], [prompt.text, names] if names else prompt.text])
            answer = side.answers[number].text if number < len(side.answers) else None
            messages.append([CHAT_ROLES[1], answer])
        return {
            "template_name": CONVERSATION_TEMPLATE, "system_message": side.model.system, "roles": list(CHAT_ROLES),
            "messages": messages, "offset": 0, "conv_id": side.conv_id, "model_name": side.model.name,
            "has_csam_image": flagged,
        }  # fmt: skip


def chat_record(conversation: ArenaConversation, side: Side, user: str, about: dict[str, Any]) -> dict[str, Any]:
    """The line of one answer."""
    answer = side.answers[-1]
    model = side.model
    first = {} if side.drawn or conversation.state != (1, 0) else conversation.drawn
    served = {
        "first_token_seconds": round(answer.first_token - answer.started, 3) if answer.first_token else None,
        "first_word_seconds": round(answer.first - answer.started, 3) if answer.first else None,
        "usage": {name: count for name, count in answer.used._asdict().items() if count is not None} or None,
        "thinking": answer.thinking or None,
        "sampling": (side.drawn if side.drawn and not side.logged else first) or None,
    }
    return {
        "tstamp": round(answer.finished, 4),
        "type": RecordType.CHAT.value,
        "model": model.name,
        "gen_params": {
            "temperature": model.temperature,
            "top_p": model.top_p,
            "max_new_tokens": model.answer_tokens_max,
        },
        "start": round(answer.started, 4),
        "finish": round(answer.finished, 4),
        "state": conversation.state_of(side),
        "ip": user,
        "arena": {
            **about,
            **conversation.marks(),
            **{name: value for name, value in served.items() if value is not None},
            "regenerated": answer.regenerated,
            "stopped": answer.stopped,
            "names_itself": side.names_itself(),
            "presets": [picture.preset for prompt in conversation.prompts for picture in prompt.pictures],
            "sent_anyway": list(conversation.prompts[-1].personal),
            "moderation": {
                "flagged_categories": conversation.moderation,
                "images": [picture.checked for prompt in conversation.prompts for picture in prompt.pictures],
            },
        },
    }


def vote_record(
    conversation: ArenaConversation, vote: TurnVote, now: float, user: str, about: Mapping[str, Any]
) -> dict[str, Any]:  # fmt: skip
    """The line of a vote, or of a rating in direct chat."""
    place = {"voted_on": [*vote.state, 0], **({"goes_on": True} if vote.goes_on else {})}
    additions = {"opinions": list(vote.opinions), "reason": vote.reason}
    return _event_record(conversation, vote.kind, now, user, {**about, **place}, additions)


def said_record(
    conversation: ArenaConversation, kind: RecordType, now: float, user: str, about: Mapping[str, Any],
    place: int = 0, turn: int = 0, opinions: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:  # fmt: skip
    """The line of a reaction to, or a report on, the answer of the side `place`, or of a shared conversation.

    `turn`: the message that was answered, from 1; 0 for the last one.
    """
    state = conversation.state
    if turn and (answer := conversation.answer_to(turn, place)):
        state = turn, answer.regenerated
    marks = {**about, "voted_on": [*state, place]}
    return _event_record(conversation, kind, now, user, marks, {"opinions": list(opinions)}, place)


def _event_record(
    conversation: ArenaConversation, kind: RecordType, now: float, user: str, marks: Mapping[str, Any],
    additions: Mapping[str, Any], place: int = 0,
) -> dict[str, Any]:  # fmt: skip
    """The line of what a visitor did, with the states that it is about; of `more` what is not empty."""
    record: dict[str, Any] = {"tstamp": round(now, 4), "type": kind.value}
    whole = kind is not RecordType.FLAG  # an answer may be reported while it comes
    if conversation.mode is Mode.DIRECT or kind in (RecordType.FLAG, RecordType.UPVOTE, RecordType.DOWNVOTE):
        side = conversation.sides[place]
        record |= {"model": side.model.name, "state": conversation.state_of(side, whole=whole)}
    else:
        hidden = conversation.mode is Mode.BATTLE
        record |= {
            "models": ["" if hidden else side.model.name for side in conversation.sides],
            "states": [conversation.state_of(side, whole=whole) for side in conversation.sides],
        }
    record["ip"] = user
    record |= {name: value for name, value in additions.items() if value}
    return record | {"arena": {**conversation.marks(), **marks}}


def flagged_record(conversation: ArenaConversation, side: Side, name: str, now: float, user: str) -> dict[str, Any]:
    """The line of an upload that is on a list of known images; it goes to the file of flagged conversations."""
    state = conversation.state_of(side, flagged=True)
    state["messages"] += [[CHAT_ROLES[0], ["", [name]]], [CHAT_ROLES[1], None]]
    return {
        "tstamp": round(now, 4), "type": RecordType.CHAT.value, "model": side.model.name, "gen_params": {},
        "start": round(now, 4), "finish": round(now, 4), "state": state, "ip": user,
    }  # fmt: skip
