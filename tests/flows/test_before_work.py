"""Invalid parameters of a run, or an approval that is none, are one line before any work."""

from datetime import date, timedelta
from pathlib import Path
from zoneinfo import available_timezones

import pytest
import yaml
from prefect.client.schemas.schedules import CronSchedule
from pydantic import ValidationError

from flows.before_work import check_before_work
from flows.publish import form
from schemas.errors import BadInput, CurateError
from schemas.settings import Settings
from tests.tasks.ingest.logs import chat, write

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
        ({"since": TODAY - timedelta(days=2), "until": TODAY - timedelta(days=1)}, "no log file from 2024-09-16"),
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


def test_a_log_file_of_a_day_that_has_not_come_means_that_a_clock_is_wrong(logs):
    early = TODAY - timedelta(days=2)
    with pytest.raises(BadInput, match=r"log files reach 2024-09-18, but today is 2024-09-16 .* until=2024-09-17"):
        check_before_work(settings(logs), early)
    check_before_work(settings(logs, until=date(2024, 9, 17)), early)


def test_a_server_east_of_greenwich_may_be_a_day_ahead(logs):
    check_before_work(settings(logs), TODAY - timedelta(days=1))
    with pytest.raises(BadInput, match="log files reach"):
        check_before_work(settings(logs), TODAY - timedelta(days=2))


def test_every_deployment_has_a_pool_and_those_that_write_run_one_at_a_time():
    by_name = {each["name"]: each for each in DEPLOYED}
    assert by_name.keys() == {"nightly", "backfill", "release", "refresh-bench", "publish"}
    assert all(each["work_pool"]["name"] == "curation" for each in DEPLOYED)
    assert all(each["concurrency_limit"]["limit"] == 1 for each in DEPLOYED if each["name"] != "publish")


def test_all_deployments_read_one_settings_file_and_so_cannot_differ():
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


def test_the_form_says_yes_only_when_somebody_does():
    assert not form("what goes").model_validate({"approved_by": "A. Person"}).approve
    assert _answer().approve


def test_digits_that_were_copied_with_the_space_around_them_are_taken():
    assert _answer(manifest=f" {DIGITS}\n").manifest.strip() == DIGITS


@pytest.mark.parametrize(
    "wrong",
    [
        {"approve": "perhaps"},
        {"approved_by": ""},
        {"approved_by": "   "},
        {"manifest": DIGITS[:-1]},
        {"manifest": "yes"},
        {"manifest": f"{DIGITS}{DIGITS}"},
    ],
)
def test_an_answer_that_is_none_is_refused_at_once(wrong):
    with pytest.raises(ValidationError):
        _answer(**wrong)
