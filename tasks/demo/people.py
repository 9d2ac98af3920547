"""Users: an address and a language each. Addresses come from the ranges that are reserved for documentation."""

from random import Random
from typing import NamedTuple

from tasks.demo.words import speeches

_RANGES = ("192.0.2", "198.51.100", "203.0.113")
_HOSTS = 254
_V4 = len(_RANGES) * _HOSTS
CONVERSATIONS_A_PERSON = 4


class Person(NamedTuple):
    """One user."""

    address: str
    language: str


class Crowd:
    """All users of the arena; a few come often and most come once or twice."""

    def __init__(self, conversations: int) -> None:
        self._size = max(5, conversations // CONVERSATIONS_A_PERSON)
        self._languages = [code for code, speech in speeches().items() for _ in range(round(speech.share))]

    def anybody(self, rng: Random) -> Person:
        """Somebody, regulars more often than others."""
        return self.person(int(self._size * rng.random() ** 1.5))

    def person(self, index: int) -> Person:
        """The user of a number; the same every time."""
        language = self._languages[index * 37 % len(self._languages)]
        if index < _V4:
            return Person(f"{_RANGES[index % len(_RANGES)]}.{1 + index // len(_RANGES)}", language)
        return Person(f"2001:db8::{index:x}", language)
