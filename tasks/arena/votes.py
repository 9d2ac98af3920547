"""Anonymous votes: as they are cast, and as earlier logs have them."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from schemas.conversation import RecordType, Winner

_WINNERS = {
    RecordType.LEFT_VOTE: Winner.MODEL_A,
    RecordType.RIGHT_VOTE: Winner.MODEL_B,
    RecordType.TIE_VOTE: Winner.TIE,
    RecordType.BOTH_BAD_VOTE: Winner.BOTH_BAD,
}
VOTES = frozenset(_WINNERS)
FEEDBACK = frozenset({RecordType.UPVOTE, RecordType.DOWNVOTE, RecordType.FLAG})


class Cast(NamedTuple):
    """One anonymous vote."""

    model_a: str
    model_b: str
    vote: RecordType
    with_image: bool

    @property
    def winner(self) -> str:
        """As in the table of battles."""
        return _WINNERS[self.vote].value


def cast_in(record: Mapping[str, Any]) -> Cast | None:
    """The anonymous vote of a log line; None of a line that is none, or has another shape."""
    kind, states = record.get("type"), record.get("states")
    if not isinstance(kind, str) or kind not in VOTES or record.get("models") != ["", ""]:
        return None
    match states:
        case [{"model_name": str(a), "messages": list(messages)}, {"model_name": str(b)}]:
            with_image = any(
                isinstance(said, list) for message in messages if isinstance(message, list) for said in message
            )
            return Cast(a, b, RecordType(kind), with_image)
    return None
