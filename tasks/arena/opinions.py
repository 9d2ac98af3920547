"""Opinions of a visitor on answers while a talk goes on: a vote on a turn, and a reaction to one answer.

In: what the page sends. Out: the `opinions` of a log line, which ingest reads into the table `reactions`
(docs/logs.md). Each addition writes the line again, and the last line counts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from schemas.items.conversation import RecordType
from tasks.arena.reasons import Reasons
from tasks.arena.words import ENGLISH


@dataclass(frozen=True)
class TurnVote:
    """A vote on the answers to one message, as its line has it."""

    kind: RecordType
    turn: int
    """Number of the message, from 1."""
    regenerated: int = 0
    """How many answers to the same message came before those that it is on."""
    goes_on: bool = False
    """Whether the names stay hidden and the talk goes on."""
    reason: str = ""
    """The chosen reasons in English, then what the visitor wrote about the vote."""
    opinions: tuple[dict[str, Any], ...] = ()
    """One for each side; none from a visitor who does not know."""

    @property
    def state(self) -> tuple[int, int]:
        """The state of the conversation that it is on."""
        return self.turn, self.regenerated

    @property
    def has_reasons(self) -> bool:
        """Whether its visitor said why."""
        return bool(self.reason) or any(opinion.get("comment") or opinion.get("reasons") for opinion in self.opinions)

    def with_reasons(self, offered: Reasons, keys: Sequence[str], words: str, comments: Sequence[str]) -> "TurnVote":
        """The same vote with what its visitor added: keys of `offered`, words, and a comment on each side.

        A comment alone leaves the reasons and words of before.
        """
        english = offered.fitting(self.kind, ENGLISH)
        chosen = ", ".join(english[key] for key in keys)
        opinions = []
        for side, opinion in enumerate(self.opinions):
            comment = comments[side] if side < len(comments) else ""
            added = {"reasons": offered.signed(self.kind, keys, side), "comment": comment}
            opinions.append(opinion | _without_empty(added))
        reason = ": ".join(filter(None, [chosen, words]))
        return replace(self, reason=reason or self.reason, opinions=tuple(opinions))


@dataclass(frozen=True)
class AnswerReaction:
    """A visitor's reaction to one answer alone."""

    kind: RecordType
    """UPVOTE for liked, DOWNVOTE for disliked."""
    turn: int
    """Number of the message that was answered, from 1."""
    place: int
    """Place of the side."""
    reasons: tuple[str, ...] = ()
    """Keys of the reasons that were chosen."""
    comment: str = ""
    """The visitor's words about the answer."""

    def opinion(self, offered: Reasons, withdrawn: bool) -> dict[str, Any]:
        """The opinion of its line; where the visitor takes it back, that nothing is pressed."""
        if withdrawn:
            return {"turn": self.turn, "liked": None}
        added = {"reasons": offered.signed(self.kind, self.reasons, 0), "comment": self.comment}
        return {"turn": self.turn, **_without_empty(added)}


def first_vote(
    kind: RecordType, state: tuple[int, int], side_count: int, seconds: float, goes_on: bool
) -> TurnVote:  # fmt: skip
    """A vote on a state as it is cast. `seconds`: from the end of the later answer to the vote."""
    opinion = {"turn": state[0], "seconds_to_vote": round(seconds, 3)}
    sides = 0 if kind is RecordType.UNSURE_VOTE else side_count
    return TurnVote(kind, *state, goes_on, opinions=tuple(dict(opinion) for _ in range(sides)))


def vote_of_line(kind: RecordType, state: tuple[int, int], record: Mapping[str, Any]) -> TurnVote:
    """The vote of a line of the log; lines of earlier versions have no opinions."""
    goes_on = bool(record["arena"].get("goes_on"))
    return TurnVote(kind, *state, goes_on, record.get("reason", ""), tuple(record.get("opinions") or ()))


def _without_empty(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value}
