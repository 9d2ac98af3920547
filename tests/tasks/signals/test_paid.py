"""Paid models that are asked through a vendor's batch API."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from tasks.providers.capabilities import WAITING, Failed
from tasks.signals.paid import Asked, measure_paid
from tasks.signals.registry import Signal
from tasks.storage.tables import Store

NAMES = ["categories", "criteria", "taxonomy"]


class Model:
    """A paid model whose queue notes when its questions are sent and when their answers are awaited."""

    calls_at_once = 4

    def __init__(self, name: str, notes: list[str]) -> None:
        self.name, self.notes = name, notes

    @contextmanager
    def together(self, store: Store, hours: float) -> Iterator["Model"]:
        yield self

    def send(self) -> bool:
        self.notes.append(f"sent {self.name}")
        return False

    def wait(self) -> None:
        self.notes.append(f"awaited {self.name}")


def test_questions_of_all_signals_are_sent_before_the_first_answer_is_awaited(tmp_path: Path) -> None:
    notes: list[str] = []
    work = list[Asked[str]]()
    for name in NAMES:
        model = Model(name, notes)
        signal = Signal[str](name, "1", "service", lambda items: [Failed(WAITING)] * len(items), model)
        work.append(Asked(signal, model, ["d1", "d2"], list))
    measure_paid(Store(str(tmp_path)), work, 1.0, datetime.now(UTC))
    first_awaited = notes.index("awaited categories")
    assert sorted(notes[:first_awaited]) == [f"sent {name}" for name in NAMES]
