"""A run killed while images arrive: what was stored is not ordered again, and no more than one batch is."""

import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from schemas.policy import GeneratedRule
from schemas.settings import Settings
from tasks.generated_bench.bench_state import read_bench
from tasks.generated_bench.steps import draw_images
from tasks.providers import Providers
from tasks.providers.capabilities import Failed
from tasks.storage.parts import ROWS_A_PART
from tasks.storage.tables import Store
from tests.generated_bench import NAME, make, settings_for
from tests.places import ROOT

KILLED_AT = 45
"""The order at which the run is killed: one part of images is stored by then, and another is on its way."""
IN_FLIGHT = 4
"""Calls under way beside the batch: twice those that the embedded image model takes at once."""


class LoggedPictures(Providers):
    """The embedded providers; every order of an image is a line in a file, and the run may die at one of them."""

    def __init__(self, log: Path, killed_at: int | None = None) -> None:
        super().__init__()
        self._log, self._killed_at = log, killed_at
        self._drawing = super().__getitem__("pictures")

    def __getitem__(self, name):
        return self if name == "pictures" else super().__getitem__(name)

    def __getattr__(self, name):
        return getattr(self._drawing, name)

    def draw(self, told: str, order: str) -> bytes | Failed:
        """Draw one; each order is paid when it is made."""
        with self._log.open("a") as log:
            log.write(f"{order}\n")
        if self._killed_at and len(self._log.read_text().splitlines()) >= self._killed_at:
            os.kill(os.getpid(), signal.SIGKILL)
        return self._drawing.draw(told, order)


def orders(log: Path) -> list[str]:
    """Every order so far."""
    return log.read_text().splitlines()


def chosen(folder: Path) -> Settings:
    """48 descriptions: more than a part holds."""
    return settings_for(folder, per_aspect=4)


@pytest.fixture
def killed(tmp_path):
    """(settings, log of orders) of a run that was killed at its 45th order."""
    log, store = tmp_path / "orders", tmp_path / "store"
    code = (
        "import sys; from pathlib import Path; from tests.generated_bench import make; "
        "from tests.tasks.generated_bench.test_killed import KILLED_AT, LoggedPictures, chosen; "
        "make(chosen(Path(sys.argv[2])), LoggedPictures(Path(sys.argv[1]), KILLED_AT))"
    )
    ended = subprocess.run([sys.executable, "-c", code, log, store], cwd=ROOT, capture_output=True, text=True)
    assert ended.returncode == -signal.SIGKILL, ended.stderr[-2000:]
    return chosen(store), log


def test_a_killed_run_orders_at_most_one_batch_again_and_ends_as_any_other(killed, tmp_path):
    settings, log = killed
    before = orders(log)
    stored = {
        f"{settings.seed} {row['description_id']} {row['attempt']}"
        for row in Store(settings.store).read("drawings").to_dicts()
    }
    assert stored and KILLED_AT <= len(before) <= len(stored) + ROWS_A_PART + IN_FLIGHT
    store = make(settings, LoggedPictures(log))
    after = orders(log)[len(before) :]
    assert not stored & set(after), "an image that is stored is not paid again"
    again = sorted(order for order, times in Counter(orders(log)).items() if times > 1)
    assert 0 < len(again) <= ROWS_A_PART + IN_FLIGHT and set(again) <= set(before)
    made = read_bench(store, NAME)
    assert len(made.outcomes) == made.wanted == 48
    whole = make(chosen(tmp_path / "whole"))
    assert store.read("generated_items").sort("number").equals(whole.read("generated_items").sort("number"))


def test_calls_that_a_budget_stopped_are_made_later_and_no_image_twice(tmp_path):
    settings, log = chosen(tmp_path / "store"), tmp_path / "orders"

    class Spent(LoggedPictures):
        def draw(self, told: str, order: str) -> bytes | Failed:
            if log.exists() and len(orders(log)) >= 10:
                return Failed("budget_reached")
            return super().draw(told, order)

    make(settings, Spent(log))
    assert len(orders(log)) in (10, 11)  # two calls at once
    assert draw_images.fn(settings, Spent(log), GeneratedRule()).failures["pictures: budget_reached"]
    store = make(settings, LoggedPictures(log))
    assert max(Counter(orders(log)).values()) == 1
    assert len(read_bench(store, NAME).outcomes) == 48
