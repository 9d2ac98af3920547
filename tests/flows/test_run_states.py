"""What the UI and `prefect flow-run ls` show of runs: names, tags, and the reason of a failure."""

import http.client
import json
import logging
import threading
import urllib.parse
import urllib.request
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import prefect
import pytest
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterId
from prefect.client.schemas.objects import FlowRun
from prefect.client.schemas.sorting import FlowRunSort
from prefect.settings import PREFECT_API_URL, temporary_settings
from prefect.states import Cancelling, Completed, Running

from flows.running.checked_flow import flow, one_writer
from flows.running.killed_runs import KILLED_MESSAGE, holder_tag
from flows.running.night import forget_flow_runs
from schemas.errors import BadInput, MissingProvider
from schemas.run import StageReport
from schemas.settings import Settings
from tasks.demo.arena import generate_arena
from tasks.storage.tables import Store
from tests.cut_off import cut_off_at
from tests.disk_steps import ends_at
from tests.small_store import make_release, manifest_of, small_store
from tests.waiting import wait_until

pytestmark = pytest.mark.usefixtures("prefect_server")


def _runs() -> list[FlowRun]:
    """The latest 200, which is all that the API gives at once."""
    with get_client(sync_client=True) as client:
        return client.read_flow_runs(limit=200, sort=FlowRunSort.EXPECTED_START_TIME_DESC)


def test_a_missing_key_is_the_name_and_the_line_of_the_state_and_no_traceback(tmp_path, monkeypatch, caplog):
    from flows.release import release

    pytest.importorskip("openai", reason="production extra")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    settings = Settings(store=str(tmp_path / "store"), providers={"categories": "openai"})
    with caplog.at_level(logging.INFO), pytest.raises(MissingProvider) as refused:
        release(settings)
    assert "Traceback" not in caplog.text
    assert "Finished in state Missing provider" in caplog.text
    assert caplog.text.count(str(refused.value)) < 2, "the worker's log has the line once, as the error of the run"
    (run,) = [each for each in _runs() if each.parameters.get("settings") == settings.model_dump(mode="json")]
    assert (run.state_name, run.state.message) == ("Missing provider", str(refused.value))
    assert run.name == f"release {run.expected_start_time:%Y-%m-%d}"


def test_an_error_of_a_task_that_ends_its_run_is_one_line_of_the_log(caplog):
    error = BadInput("the line that people read")

    def failing() -> None:
        raise error

    task = prefect.task(failing, name="failing")
    run = prefect.flow(lambda: task(), name="failed")
    with caplog.at_level(logging.INFO), pytest.raises(BadInput):
        run()
    with caplog.at_level(logging.INFO):  # as the process of a deployment's run logs its end
        logging.getLogger("prefect.flow_runs").error("", exc_info=error)
    # Prefect's other threads may log that they failed to send an event with this error
    lines = [record for record in caplog.records if record.name in ("prefect.flow_runs", "prefect.task_runs")]
    assert [record.getMessage() for record in lines].count(str(error)) == 1
    assert not any(record.exc_info for record in lines)
    finished = [record.getMessage() for record in caplog.records if "Finished in state" in record.getMessage()]
    assert finished == ["Finished in state Failed"] * 2


def test_a_publication_without_a_token_is_the_name_and_the_line_of_the_state(tmp_path, monkeypatch):
    from flows.publish import publish

    monkeypatch.delenv("HF_TOKEN", raising=False)
    with pytest.raises(BadInput, match="HF_TOKEN") as refused:
        publish(str(tmp_path), "org/without-token")
    (run,) = [each for each in _runs() if each.parameters.get("repo") == "org/without-token"]
    assert (run.state_name, run.state.message) == ("Bad input", str(refused.value))


def test_the_line_of_a_worker_that_refuses_stand_ins_ends_with_the_parameter_that_accepts_them(
    tmp_path, monkeypatch, hub
):
    from flows.publish import publish

    store = small_store(tmp_path)
    make_release(store, release="1.0.0")
    release = Path(store.root) / "releases" / "1.0.0"
    stand_ins = manifest_of(release)["embedded_providers"]
    monkeypatch.setenv("PREFECT__FLOW_RUN_ID", str(uuid4()))
    with pytest.raises(BadInput):
        publish(str(release), "org/stood-in", accept_embedded=stand_ins[:1])
    (run,) = [each for each in _runs() if each.parameters.get("repo") == "org/stood-in"]
    line = run.state.message
    parameter = json.loads("{" + line[line.index('"accept_embedded"') :] + "}")
    assert (sorted(parameter["accept_embedded"]), hub.requests) == (sorted(stand_ins), [])
    with pytest.raises(RuntimeError, match="cannot be suspended"):  # to wait for the answer, which needs a deployment
        publish(str(release), "org/stood-in", **parameter)
    assert hub.requests and hub.writes() == []


def test_a_run_that_fails_on_the_way_leaves_the_stages_that_ended(tmp_path):
    from flows import curate as whole

    generate_arena(tmp_path, conversations=3, battles=1, seed=9, images_max=2, problems=False)
    language = str(tmp_path / "store" / "tables" / "signals" / "language")
    with ends_at("write", language, error=OSError("a cable")), pytest.raises(OSError, match="a cable"):
        whole.curate(Settings(logs=str(tmp_path / "logs"), store=str(tmp_path / "store"), workers=1))
    (record,) = (tmp_path / "store" / "runs").iterdir()
    kept = json.loads(record.read_text())
    assert (kept["state"], kept["error"]) == ("failed", "OSError")
    assert [stage["stage"] for stage in kept["stages"]][:4] == ["canaries", "read_logs", "take_in_images", "assemble"]
    probes = [run for run in _runs() if "probes" in run.tags]
    assert {run.name for run in probes} >= {"probes: ingest", "probes: screen", "probes: decide"}


@pytest.mark.parametrize("named", [True, False], ids=["in the environment", "in a profile, or nowhere"])
def test_old_runs_of_ours_leave_the_history_of_a_server_and_those_of_others_stay(monkeypatch, tmp_path, named):
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    if named:
        monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:4200/api")  # a server that others may use, too

    @prefect.flow
    def night() -> None: ...

    with get_client(sync_client=True) as client:

        def ended(name: str, *tags: str) -> str:
            return str(client.create_flow_run(night, name=name, tags=tags, state=Completed()).id)

        made = {ended("old", "curation", "nightly"): "old", ended("of others"): "of others"}
        before = datetime.now(UTC)
        made[ended("new", "curation")] = "new"
        assert forget_flow_runs(str(tmp_path / "store"), before) >= 1
        ours = FlowRunFilter(id=FlowRunFilterId(any_=[*made]))
        left = {str(run.id) for run in client.read_flow_runs(flow_run_filter=ours)}
    assert {name for run_id, name in made.items() if run_id in left} == {"of others", "new"}


@flow(name="within")
@one_writer
def within(settings: Settings):
    yield StageReport(stage="within")


@flow(name="around")
@one_writer
def around(settings: Settings):
    yield from within(settings)
    if settings.seed:
        raise BadInput("a line")


def test_who_takes_a_stores_lock_ends_all_its_runs_that_were_killed_and_no_other(tmp_path):
    store, other = (Store.open(str(tmp_path / name)) for name in ("store", "other"))
    ours, theirs = holder_tag(store), holder_tag(other)
    (tmp_path / "link").symlink_to(tmp_path / "store")
    assert holder_tag(Store(str(tmp_path / "link"))) == ours != theirs
    with get_client(sync_client=True) as client:

        def left(*tags: str, state=Running) -> str:
            return str(client.create_flow_run(around, tags=tags, state=state()).id)

        killed = [left("curation", ours), left("curation", ours, state=Cancelling), left(ours)]
        alive = [left("curation", theirs), left("curation")]  # of another store, and one that waits for this one
        around(Settings(store=str(tmp_path / "link")))
        states = [client.read_flow_run(run).state for run in killed]
        assert {(state.name, state.type.value, state.message) for state in states} == {
            ("Killed", "CRASHED", KILLED_MESSAGE)
        }
        assert {client.read_flow_run(run).state.type.value for run in alive} == {"RUNNING"}
        with pytest.raises(BadInput):
            around(Settings(store=store.root, seed=1))
        own = [run for run in _runs() if run.name.startswith(("around", "within")) and run.state.is_final()]
        ended = {(run.name.split()[0], run.state_name, ours in run.tags) for run in own}
        assert ended == {("around", "Completed", False), ("around", "Bad input", False), ("within", "Completed", True)}
        assert [str(run.id) for run in _runs() if ours in run.tags and run.state.is_running()] == []


GONE = threading.Event()
"""Set while the server does not answer."""


def _nothing_answers() -> bool:
    try:
        urllib.request.urlopen(f"{PREFECT_API_URL.value()}/health", timeout=1).close()
    except (OSError, http.client.HTTPException):
        return True
    return False


@flow(name="around-outage")
def around_outage(settings: Settings) -> list[StageReport]:
    """A stage that begins as its server goes away for three seconds."""
    GONE.set()
    wait_until(_nothing_answers)
    threading.Timer(3, GONE.clear).start()
    return within(settings)


def test_a_stage_that_begins_while_the_server_restarts_waits_for_it(tmp_path):
    url = PREFECT_API_URL.value()
    place = urllib.parse.urlsplit(url)
    with (
        cut_off_at(place.port, b"no request has these words", gone=GONE) as port,
        temporary_settings({PREFECT_API_URL: url.replace(str(place.port), str(port))}),
    ):
        reports = around_outage(Settings(store=str(tmp_path / "store")))
    assert [report.stage for report in reports] == ["within"]


REFUSED = b"POST /api/task_runs/"
"""The first request that Prefect makes for an inner flow, by a client that had no answer before."""
BEGUN: list[str] = []
"""Stages whose work began."""


@flow(name="counted")
@one_writer
def counted(settings: Settings):
    BEGUN.append("counted")
    yield StageReport(stage="counted")


@flow(name="around-counted")
def around_counted(settings: Settings) -> list[StageReport]:
    return counted(settings)


def test_a_stage_whose_server_goes_away_as_its_run_is_made_begins_once_when_the_server_is_back(tmp_path):
    """The server answers before the stage, and is gone five seconds, longer than Prefect tries by itself."""
    place = urllib.parse.urlsplit(PREFECT_API_URL.value())
    gone, refusals = threading.Event(), []

    def goes_away(content: bytes) -> None:
        if content.startswith(REFUSED) and not refusals:
            refusals.append(content)
            gone.set()
            threading.Timer(5, gone.clear).start()
            raise ConnectionResetError

    with (
        cut_off_at(place.port, b"no request has these words", hear=goes_away, gone=gone) as port,
        temporary_settings({PREFECT_API_URL: PREFECT_API_URL.value().replace(str(place.port), str(port))}),
    ):
        around_counted(Settings(store=str(tmp_path / "store")))
    assert (len(refusals), BEGUN) == (1, ["counted"])
