"""A run continues without a service that is down and reports it; the next run measures what is missing."""

import json
import re
from pathlib import Path

import polars as pl
import pytest

from tasks.demo.arena import generate_arena
from tasks.storage.tables import Store

pytest.importorskip("openai", reason="production extra")
from tasks.providers.production.calls import Service
from tests.flows.moderation_server import ModerationServer
from tests.http_server import HttpServer, Reply

UNMEASURED = "unmeasured_moderation"


@pytest.fixture(scope="module")
def logs(tmp_path_factory) -> Path:
    """Logs of a small arena, whose images need no service."""
    folder = tmp_path_factory.mktemp("unwell")
    generate_arena(folder, conversations=12, battles=3, seed=9, images_max=4, problems=False)
    return folder / "logs"


@pytest.fixture
def impatient(monkeypatch):
    """Retries wait almost no time, and a service counts as down after a few calls."""
    monkeypatch.setenv("OPENAI_API_KEY", "test-key")
    monkeypatch.setattr(Service, "first_seconds", 0.001)
    monkeypatch.setattr(Service, "failures_until_down", 3)


def _reasons(store: Store) -> pl.Series:
    return store.read("decisions").filter(item_kind="conversation")["reasons"]


def _calls(store: Path) -> dict[str, int]:
    """Signal -> model calls of the newest run."""
    record = json.loads(max((store / "runs").iterdir()).read_text())
    stages = pl.DataFrame([stage["model_calls"] for stage in record["stages"] if stage["stage"] != "canaries"])
    return {name: total for name, total in stages.sum().row(0, named=True).items() if total}


@pytest.mark.usefixtures("prefect_server", "impatient")
def test_a_run_carries_on_without_its_service_and_the_next_one_asks_for_what_is_missing(
    curate, logs, tmp_path, monkeypatch
):
    root = tmp_path / "store"
    command = ("run", "--logs", logs, "--store", root, "--provider", "moderation=openai")
    unwell, well = HttpServer(), ModerationServer()
    try:
        unwell.answer(*[Reply(body={}, status=503)] * 12, Reply(body=None))  # errors first, then no answer at all
        monkeypatch.setenv("OPENAI_BASE_URL", f"{unwell.url}/v1")
        status, out, err = curate(*command)
        assert status == 0, err
        store = Store(str(root))
        assert re.search(r"FAILED moderation: [a-z_]+ \d+", err.replace("\n", " "))
        assert all(UNMEASURED in reasons for reasons in _reasons(store)), "none is released unseen"
        assert UNMEASURED in out and "= kept 0 +" in out.splitlines()[-1]
        missing = store.read("signals/text_pii").height

        monkeypatch.setenv("OPENAI_BASE_URL", f"{well.url}/v1")
        status, out, err = curate(*command)
        assert status == 0 and "FAILED" not in err, err
        assert not any(UNMEASURED in reasons for reasons in _reasons(store))
        assert "= kept 0 +" not in out.splitlines()[-1]
        calls = _calls(root)
        assert calls.pop("moderation") == missing
        assert "text_pii" not in calls and "nsfw" not in calls
    finally:
        unwell.close()
        well.close()
