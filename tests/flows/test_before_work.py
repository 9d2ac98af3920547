"""What is told before any work: invalid parameters in one line, what a window means, the scale of a run."""

import json
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from zoneinfo import available_timezones

import polars as pl
import pytest
import yaml
from prefect.client.schemas.schedules import CronSchedule
from pydantic import ValidationError

from benchmarks.ingest import write_large_log
from flows.before_work import check_before_work
from flows.publish import form
from flows.reference.pages import commands
from schemas.errors import BadInput, CurateError
from schemas.settings import Settings
from schemas.signals import MeasuredOn
from tasks.ingest.log_files import source_files
from tasks.leaderboard.battle_files import read_battles
from tasks.leaderboard.rating_tables import within
from tasks.storage.queries.texts import ConversationForm, Texts, all_texts
from tasks.storage.tables import Store
from tasks.upkeep.standing import expected
from tests.tasks.ingest.logs import NOON, chat, ingested, state, vote, write

DEPLOYED = yaml.safe_load((Path(__file__).parents[2] / "prefect.yaml").read_text())["deployments"]
TODAY = date(2024, 9, 18)


@pytest.fixture
def logs(tmp_path) -> Path:
    folder = tmp_path / "logs"
    for day in (TODAY - timedelta(days=3), TODAY):
        write(folder, f"{day}-conv.json", chat("a"))
    return folder


def settings(logs: Path, **changes: object) -> Settings:
    return Settings(**{"logs": str(logs), "store": str(logs.parent / "store"), **changes})


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        (
            {"since": TODAY - timedelta(days=2), "until": TODAY - timedelta(days=1)},
            "no log file from since=2024-09-16 to until=",
        ),
        ({"policy": "pubic_release"}, "Did you mean public_release?"),
        ({"release": "../1"}, "release version '../1'"),
        ({"providers": {"nsfw": "nobody"}}, "unknown provider 'nobody'"),
        ({"images": "/nowhere"}, "images='/nowhere'"),
    ],
)
def test_what_cannot_be_done_is_said_before_the_store_exists(prefect_server, logs, changes, line):
    from flows.curate import curate

    with pytest.raises(CurateError, match=r"^[^\n]+$") as refused:
        curate(settings(logs, **changes))
    assert line in str(refused.value)
    assert not (logs.parent / "store").exists()


def test_a_clock_that_is_behind_the_logs_is_told_but_for_a_day_in_the_east(logs):
    check_before_work(settings(logs), TODAY - timedelta(days=1))
    with pytest.raises(BadInput, match="log files reach"):
        check_before_work(settings(logs), TODAY - timedelta(days=2))
    early = TODAY - timedelta(days=2)
    with pytest.raises(BadInput, match=r"log files reach 2024-09-18, but today is 2024-09-16 .* until=2024-09-17"):
        check_before_work(settings(logs), early)
    check_before_work(settings(logs, until=date(2024, 9, 17)), early)


def test_deployments_write_one_at_a_time_and_read_one_settings_file():
    by_name = {each["name"]: each for each in DEPLOYED}
    assert by_name.keys() == {"nightly", "backfill", "release", "refresh-bench", "publish"}
    assert all(each["work_pool"]["name"] == "curation" for each in DEPLOYED)
    assert all(each["concurrency_limit"]["limit"] == 1 for each in DEPLOYED if each["name"] != "publish")
    read = [each["parameters"].get("settings", each["parameters"]) for each in DEPLOYED]
    assert read == [{"config": "{{ file.config }}"}] * len(DEPLOYED)


def test_schedules_are_in_a_time_zone_that_exists_and_prefect_refuses_one_that_does_not():
    zones = [schedule["timezone"] for each in DEPLOYED for schedule in each.get("schedules", [])]
    assert zones and set(zones) <= available_timezones()
    with pytest.raises(ValueError, match="Mars/Olympus"):
        CronSchedule(cron="30 2 * * *", timezone="Mars/Olympus")


DIGITS = "0123456789ab"


def _answer(approve=True, approved_by="A. Person", manifest=DIGITS):
    return form("what goes").model_validate({"approve": approve, "approved_by": approved_by, "manifest": manifest})


def test_a_yes_is_said_by_somebody_and_digits_are_taken_with_the_space_around_them():
    assert not form("what goes").model_validate({"approved_by": "A. Person"}).approve
    assert _answer().approve
    assert _answer(manifest=f" {DIGITS}\n").manifest.strip() == DIGITS


@pytest.mark.parametrize(
    "wrong",
    [
        {"approve": "perhaps"}, {"approved_by": ""}, {"approved_by": "   "}, {"manifest": DIGITS[:-1]},
        {"manifest": "yes"}, {"manifest": f"{DIGITS}{DIGITS}"},
    ],
)  # fmt: skip
def test_an_answer_that_is_none_is_refused_at_once(wrong):
    with pytest.raises(ValidationError):
        _answer(**wrong)


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


def _texts(store: Store, kind: MeasuredOn) -> set[str]:
    return {*all_texts(store, Texts(ConversationForm.LOGGED, kind, DAY, DAY), {}).values()}


CHOSEN: dict[str, Callable[[Store], set[str]]] = {
    "run, ingest": lambda store: {
        row["vote_reason"]
        for file, _ in source_files(Path(store.path).parent, None, DAY, DAY)
        for row in store.read("battles").filter(source=file.source).to_dicts()
    },
    "measure, estimate: texts": lambda store: {
        text.removesuffix("?") for text in _texts(store, MeasuredOn.PROMPT) if text.endswith("?")
    },
    "measure, estimate: reasons of votes": lambda store: TIMES.keys() & _texts(store, MeasuredOn.MESSAGES),
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


def test_the_scale_of_a_run_is_told_from_its_logs_and_leaves_no_store(curate, tmp_path):
    logs, store = tmp_path / "logs", tmp_path / "store"
    write_large_log(logs, 300, 150)
    code, out, err = curate("estimate", "--scale", "--json", "--logs", str(logs), "--store", str(store))
    assert code == 0, err
    told, lines = json.loads(out), [line for file in logs.iterdir() for line in file.read_text().splitlines()]
    states = [state for each in map(json.loads, lines) for state in each.get("states") or [each["state"]]]
    turns = {state["conv_id"]: len(state["messages"]) for state in states}  # a later line repeats an earlier one
    assert (told["lines"], told["conversations"]) == (len(lines), len(turns))
    assert told["messages"] <= sum(turns.values()) and told["images"] > 0
    assert not store.exists()


def test_the_scale_of_a_run_without_logs_is_one_clear_line(refused, tmp_path):
    assert "no logs are given; use --logs DIR" in refused("estimate", "--scale", "--store", str(tmp_path / "store"))


def test_hours_fall_with_the_cores_and_memory_grows_with_the_conversations():
    one, two = (expected(9_000, 2_000, 8_000, 1_000, cores) for cores in (1, 2))
    larger = expected(9_000, 2_000_000, 8_000, 1_000, 1)
    assert abs(one.hours - 2 * two.hours) <= 0.02 and two.hours > 0
    assert larger.peak_mb > one.peak_mb and larger.disk_mb == one.disk_mb
