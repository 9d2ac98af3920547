"""Figures of an arena by hour and model, and whether battles were drawn as the log says. They come from the log alone.

Tokens are those that the log has; where it has none, a token counts as four characters, images left out.
"""

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from schemas.asked_model import ArenaModel
from schemas.items.conversation import RecordType
from schemas.run import Prices, TokenRate
from schemas.upkeep import ArenaSteering
from tasks.arena.logs import VOTE_WORDS, LoggedRecord
from tasks.runtime.budget import load_prices

HOURS = 24
"""Hours that are shown, the present one included; the UTC day of a budget is never longer."""
_HOUR_SECONDS, _CHARACTERS_A_TOKEN = 3600, 4


@dataclass
class Counted:
    """Events of one model in one hour."""

    answers: int = 0
    votes: int = 0
    usd: float = 0.0
    """Cost of the answers; 0 for a model without a price."""


class ArenaFigures:
    """Counts of log lines. Thread-safe."""

    def __init__(
        self, models: Sequence[ArenaModel], prices: Prices | None = None, clock: Callable[[], float] = time.time
    ) -> None:
        self._shipped = prices or load_prices(None)
        self._prices = {model.name: self._price_of(model) for model in models}
        self.steered: Callable[[], ArenaSteering] = ArenaSteering
        """The changes of the operator."""
        self._clock, self._lock = clock, threading.Lock()
        self._hours: dict[int, dict[str, Counted]] = {}
        self._voted: dict[str, int] = {}
        """Conversation and state -> hour of its vote: a reason writes the vote again."""
        self._drawn, self._expected = Counter[str](), defaultdict[str, float](float)

    def note(self, record: LoggedRecord) -> None:
        """Take in a line; lines of other arenas and of earlier versions are left out."""
        marks, at = record.get("arena"), record.get("tstamp")
        if not isinstance(marks, Mapping) or not isinstance(at, int | float):
            return
        hour, model, kind = int(at // _HOUR_SECONDS), str(record.get("model")), record.get("type")
        with self._lock:
            if hour > self._last() - HOURS:
                if kind == RecordType.CHAT:
                    counted, price = self._counted(hour, model), self.price(model)
                    counted.answers += 1
                    counted.usd += price.usd(*_tokens(record)) if price else 0
                elif kind in VOTE_WORDS:
                    self._note_vote(hour, marks)
            match marks.get("sampling"):
                case {"shares": Mapping() as shares}:
                    self._drawn[model] += 1
                    line_count = 1 if "in_place_of" in marks["sampling"] else 2  # of a pair each line has half
                    for name, share in shares.items():
                        self._expected[name] += share / line_count

    def _last(self) -> int:
        return int(self._clock() // _HOUR_SECONDS)

    def _note_vote(self, hour: int, marks: LoggedRecord) -> None:
        sides = [side for side in marks.get("sides", []) if isinstance(side, Mapping)]
        key = f"{[side.get('conv_id') for side in sides]} {marks.get('voted_on')}"
        if key not in self._voted:
            self._voted[key] = hour
            for side in sides:
                self._counted(hour, str(side.get("model"))).votes += 1

    def _counted(self, hour: int, model: str) -> Counted:
        """The counts to add to; a new hour lets go of those that are not shown any more."""
        if hour not in self._hours:
            oldest = self._last() - HOURS + 1
            self._hours = {
                counted_hour: counts for counted_hour, counts in self._hours.items() if counted_hour >= oldest
            }
            self._voted = {key: voted_hour for key, voted_hour in self._voted.items() if voted_hour >= oldest}
        return self._hours.setdefault(hour, {}).setdefault(model, Counted())

    def hours(self) -> dict[int, dict[str, Counted]]:
        """Hours since the epoch -> model -> its counts, the present hour first; hours without a line are empty."""
        last = self._last()
        with self._lock:
            return {hour: dict(self._hours.get(hour, {})) for hour in range(last, last - HOURS, -1)}

    def usd_today(self) -> float:
        """Cost since midnight UTC."""
        today = self._last() // 24
        with self._lock:
            days = [counts for hour, counts in self._hours.items() if hour // 24 == today]
            return sum(counted.usd for counts in days for counted in counts.values())

    def priced(self, model: str) -> bool:
        """Whether a price of the model is known."""
        return self.price(model) is not None

    def price(self, model: str) -> TokenRate | None:
        """The price of a model, by the operator, the models file, or the shipped prices; None where none says it."""
        state = self.steered()
        if operator_price := state.prices.get(model):
            return operator_price
        added = next((added_model for added_model in state.models if added_model.name == model), None)
        return self._price_of(added) if added else self._prices.get(model)

    def _price_of(self, model: ArenaModel) -> TokenRate | None:
        return model.price or self._shipped.tokens(f"openai-{model.asked_as}")

    def exposure(self) -> dict[str, tuple[int, float]]:
        """Model -> in how many battles it answered, and in how many the logged shares say that it should have."""
        with self._lock:
            return {name: (self._drawn[name], expected) for name, expected in self._expected.items()}


def _tokens(record: LoggedRecord) -> tuple[float, float]:
    """Tokens of the question with all that came before it, and of the answer with its thinking."""
    match record["arena"].get("usage"):
        case {"input_tokens": int(question_tokens), "output_tokens": int(answer_tokens)}:
            return question_tokens, answer_tokens
    state = record.get("state") or {}
    texts = [text[0] if isinstance(text, list) else text or "" for _, text in state.get("messages", [])] or [""]
    question_tokens = sum(map(len, texts[:-1])) + len(state.get("system_message", ""))
    answer_tokens = len(texts[-1]) + len(record["arena"].get("thinking", ""))
    return question_tokens / _CHARACTERS_A_TOKEN, answer_tokens / _CHARACTERS_A_TOKEN
