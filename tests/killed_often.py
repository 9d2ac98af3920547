"""Kills a process that works on a store often, at random moments, and looks whether anything acknowledged is lost.

    python -m tests.killed_often STORE [--times 50] [--seed 0] [review | takedown]…

works on copies of STORE. A process says each verdict or takedown that it has acknowledged; after SIGKILL, and after the
store was opened again as the next command does, all of them must hold, and nothing else may be missing.
"""

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

from schemas.items.review import Review
from tasks.storage.keyed_ids import UNFINISHED
from tasks.storage.lock import writing
from tasks.storage.reviews import keep, reviews_of, take_in_journal
from tasks.storage.tables import Store
from tasks.takedown.take_down import take_down
from tests.places import ROOT


def _conversations(store: Store) -> list[str]:
    return sorted(store.read("conversations", ["conversation_id"])["conversation_id"])


def _review(store: Store) -> Iterator[str]:
    """Give verdicts, as the review pages do: into the journal, and from there into the table."""
    for number in range(10**6):
        for conversation_id in _conversations(store)[:50]:
            name = f"{os.getpid()}-{number}-{conversation_id}"
            now = datetime.now(UTC)
            given = Review(conversation_id=conversation_id, content_id=name, reasons=[], verdict="drop", queue="held",
                           item_id=name, reviewer="Ada", reviewed_at=now)  # fmt: skip
            keep(store, given)
            yield name
            with writing(store.root):
                take_in_journal(store)


def _lost_reviews(store: Store, said: list[str], _: set[str]) -> set[str]:
    with writing(store.root):
        take_in_journal(store)
    return set(said) - set(reviews_of(store)["item_id"])


def _takedown(store: Store) -> Iterator[str]:
    """Take conversations down, one after the other."""
    while left := _conversations(store):
        with writing(store.root):
            take_down(store, [left[0]], [], datetime.now(UTC), False)
        yield left[0]


def _lost_takedowns(store: Store, said: list[str], before: set[str]) -> set[str]:
    """Acknowledged ones that are still there, or stayed half done, and others that went."""
    with writing(store.root):
        begun = store.read_bytes(UNFINISHED) is not None
        if begun:
            take_down(store, [], [], datetime.now(UTC), False)
    there = set(_conversations(store))
    half = {"unfinished"} if store.read_bytes(UNFINISHED) is not None else set()
    records = len(list(Path(store.at("takedown")).glob("*.json")))
    return (set(said) & there) | half | ({"record"} if records < len(said) else set()) | (there - before)


KINDS: dict[str, tuple[Callable[[Store], Iterator[str]], Callable[[Store, list[str], set[str]], set[str]]]] = {
    "review": (_review, _lost_reviews),
    "takedown": (_takedown, _lost_takedowns),
}


def killed(kind: str, store: Store, times: int, seed: int, seconds_max: float = 1.0) -> tuple[int, int, set[str]]:
    """Kills, acknowledged pieces of work, and what was lost."""
    drawn, said, lost = random.Random(f"{kind} {seed}"), list[str](), set[str]()
    for _ in range(times):
        before = set(_conversations(store))
        command = [sys.executable, "-m", "tests.killed_often", store.root, "--work", kind]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
            said.append(process.stdout.readline().strip())  # it works
            time.sleep(drawn.uniform(0, seconds_max))
            process.kill()
            said += [line.strip() for line in process.stdout if line.endswith("\n")]
        lost |= KINDS[kind][1](store, said, before)
    return times, len(said), lost


def main() -> int:
    """Print a line for each kind; 1 when something was lost."""
    parser = argparse.ArgumentParser(prog="python -m tests.killed_often", description=__doc__)
    parser.add_argument("store", type=Path)
    parser.add_argument("kinds", nargs="*", choices=[[], *KINDS], default=[])
    parser.add_argument("--times", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--work", choices=KINDS)
    told = parser.parse_args()
    if told.work:
        for done in KINDS[told.work][0](Store(str(told.store))):
            print(done, flush=True)  # noqa: T201 - read by `killed`
        return 0
    every = set[str]()
    for kind in told.kinds or KINDS:
        with tempfile.TemporaryDirectory() as folder:
            store = Store(str(shutil.copytree(told.store, Path(folder) / "store")))
            times, done, lost = killed(kind, store, told.times, told.seed)
        print(f"{kind}: {times} SIGKILLs, {done} acknowledged, {len(lost)} lost {sorted(lost)[:3]}", flush=True)  # noqa: T201
        every |= lost
    return int(bool(every))


if __name__ == "__main__":
    raise SystemExit(main())
