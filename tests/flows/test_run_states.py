"""What the UI and `prefect flow-run ls` show of runs: names, tags, and the reason of a failure."""

import json
import logging
from datetime import UTC, datetime

import prefect
import pytest
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import FlowRun
from prefect.states import Completed

from flows.running.night import forget_flow_runs
from schemas.errors import BadInput, MissingProvider
from schemas.settings import Settings
from tasks.demo.arena import generate_arena

pytestmark = pytest.mark.usefixtures("prefect_server")


def _runs() -> list[FlowRun]:
    with get_client(sync_client=True) as client:
        return client.read_flow_runs(limit=200)


def test_a_missing_key_is_the_name_and_the_line_of_the_state_and_no_traceback(tmp_path, monkeypatch, caplog):
    from flows.release import release

    pytest.importorskip("openai", reason="production extra")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    settings = Settings(store=str(tmp_path / "store"), providers={"categories": "openai"})
    with caplog.at_level(logging.INFO), pytest.raises(MissingProvider) as refused:
        release(settings)
    assert "Traceback" not in caplog.text
    (run,) = [each for each in _runs() if each.parameters.get("settings") == settings.model_dump(mode="json")]
    assert (run.state_name, run.state.message) == ("Missing provider", str(refused.value))
    assert run.name == f"release {run.expected_start_time:%Y-%m-%d}"


def test_a_publication_without_a_token_is_the_name_and_the_line_of_the_state(tmp_path, monkeypatch):
    from flows.publish import publish

    monkeypatch.delenv("HF_TOKEN", raising=False)
    with pytest.raises(BadInput, match="HF_TOKEN") as refused:
        publish(str(tmp_path), "org/without-token")
    (run,) = [each for each in _runs() if each.parameters.get("repo") == "org/without-token"]
    assert (run.state_name, run.state.message) == ("Bad input", str(refused.value))


def test_a_run_that_fails_on_the_way_leaves_the_stages_that_ended(tmp_path, monkeypatch):
    from flows import curate as whole

    def broken(settings: Settings) -> list:
        raise OSError("a cable")

    generate_arena(tmp_path, conversations=3, battles=1, seed=9, images_max=2, problems=False)
    monkeypatch.setattr(whole, "screen", broken)
    with pytest.raises(OSError, match="a cable"):
        whole.curate(Settings(logs=str(tmp_path / "logs"), store=str(tmp_path / "store"), workers=1))
    (record,) = (tmp_path / "store" / "runs").iterdir()
    kept = json.loads(record.read_text())
    assert (kept["state"], kept["error"]) == ("failed", "OSError")
    assert [stage["stage"] for stage in kept["stages"]][:4] == ["canaries", "read_logs", "take_in_images", "assemble"]
    probes = [run for run in _runs() if "probes" in run.tags]
    assert {run.name for run in probes} >= {"probes: ingest", "probes: screen", "probes: decide"}


def test_old_runs_of_ours_leave_the_history_of_a_server_and_those_of_others_stay(monkeypatch):
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:4200/api")  # a server that others may use, too

    @prefect.flow
    def night() -> None: ...

    with get_client(sync_client=True) as client:

        def ended(name: str, *tags: str) -> str:
            return str(client.create_flow_run(night, name=name, tags=tags, state=Completed()).id)

        made = {ended("old", "curation", "nightly"): "old", ended("old of others"): "old of others"}
        before = datetime.now(UTC)
        made[ended("new", "curation")] = "new"
        assert forget_flow_runs(before) >= 1
        left = {str(run.id) for run in client.read_flow_runs(limit=200)}
    assert {name for run_id, name in made.items() if run_id in left} == {"old of others", "new"}
