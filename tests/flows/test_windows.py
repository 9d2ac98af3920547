"""A window means the same in every command: whole days in UTC, from --since to --until, both included."""

from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path

import polars as pl
import pytest

from schemas.settings import Settings
from schemas.signals import MeasuredOn
from tasks.ingest.formats.data_files import source_files
from tasks.leaderboard.battle_files import read_battles
from tasks.leaderboard.rating_tables import within
from tasks.signals.steps import texts_of, vote_reasons
from tasks.storage.queries.kept import logged_on
from tasks.storage.tables import Store
from tests.flows.listed_commands import commands
from tests.tasks.ingest.logs import NOON, chat, ingested, state, vote, write

TIMES = {
    "before": "2024-06-19T23:59:59.999999+00:00",
    "first": "2024-06-20T00:00:00+00:00",
    "west": "2024-06-19T20:30:00-07:00",
    "east": "2024-06-21T08:00:00+09:00",
    "last": "2024-06-20T23:59:59.999999+00:00",
    "west of it": "2024-06-20T17:00:00-07:00",
    "after": "2024-06-21T00:00:00+00:00",
}
INSIDE = {"first", "west", "east", "last"}
"""Votes and conversations of 2024-06-20 in UTC, wherever somebody wrote their times."""
DAY = date(2024, 6, 20)


def _seconds(name: str) -> float:
    return datetime.fromisoformat(TIMES[name]).timestamp()


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> Store:
    """A store of a log file for each UTC day, with a chat and a vote with a reason for each time."""
    logs = tmp_path_factory.mktemp("windows")
    for day in (19, 20, 21):
        names = [name for name in TIMES if datetime.fromtimestamp(_seconds(name), UTC).day == day]
        chats = [chat(name[:15], f"{name}?", "yes", at=_seconds(name) - NOON) for name in names]
        sides = [[state(f"{side}{name[:14]}", f"{name}!", model_name=side) for side in "xy"] for name in names]
        votes = [vote(*pair, at=_seconds(name) - NOON, reason=name) for pair, name in zip(sides, names, strict=True)]
        write(logs, f"vision-tmp-2024-06-{day}-conv.json", *chats, *votes)
    return ingested(logs, logs / "store")


def _rated(battles: pl.DataFrame) -> set[str]:
    return set(within(battles, DAY, DAY)["vote_reason"])


def _rated_file(store: Store, texts: bool) -> set[str]:
    times = [*TIMES.values()] if texts else [_seconds(name) for name in TIMES]
    votes = pl.DataFrame({"tstamp": times, "winner": "model_a", "model_a": "x", "model_b": [*TIMES]})
    votes.write_csv(f"{store.path}/votes.csv")
    return set(within(read_battles(Path(f"{store.path}/votes.csv")), DAY, DAY)["model_b"])


CHOSEN: dict[str, Callable[[Store], set[str]]] = {
    "run, ingest": lambda store: {
        row["vote_reason"]
        for file, _ in source_files(Path(store.path).parent, None, DAY, DAY)
        for row in store.read("battles").filter(source=file.source).to_dicts()
    },
    "measure, estimate: texts": lambda store: {
        text.removesuffix("?")
        for text in texts_of(logged_on(store.read("conversations"), DAY, DAY))[MeasuredOn.PROMPT].values()
        if text.endswith("?")
    },
    "measure, estimate: reasons of votes": lambda store: {
        *vote_reasons(store, Settings(store=store.root, since=DAY, until=DAY)).values()
    },
    "rate --store": lambda store: _rated(store.read("battles")),
    "rate FILE: text": lambda store: _rated_file(store, True),
    "rate FILE: seconds": lambda store: _rated_file(store, False),
}
"""What each command that has a window chooses of the times."""


@pytest.mark.parametrize("chosen", CHOSEN.values(), ids=CHOSEN)
def test_a_window_is_whole_days_in_utc_with_both_ends(store, chosen):
    assert chosen(store) == INSIDE


def test_no_other_command_has_a_window():
    windowed = {name for name, command in commands().items() if any("--since" in each.opts for each in command.params)}
    assert windowed == {"run", "ingest", "measure", "estimate", "rate"}
