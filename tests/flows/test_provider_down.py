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
from tests.small_store import small_store

UNMEASURED = "unmeasured_moderation"


@pytest.fixture(scope="module")
def logs(tmp_path_factory) -> Path:
    """Logs of a small arena, whose images need no service."""
    folder = tmp_path_factory.mktemp("unwell")
    generate_arena(folder, conversations=12, battles=3, seed=9, images_max=4, problems=False)
    return folder / "logs"


@pytest.fixture
def impatient(monkeypatch):
    """Retries wait almost no time."""
    monkeypatch.setenv("OPENAI_API_KEY", "test-key")
    monkeypatch.setattr(Service, "first_seconds", 0.001)


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
        assert status == 3, err
        # canaries: ten failures, those under way meanwhile, and one call with its attempts; then one attempt a step
        assert len(unwell.requests) <= 10 + 8 + Service.attempts + 6
        store = Store(str(root))
        (line,) = [line for line in err.splitlines() if line.startswith("curate: ")]
        assert re.search(r"held before the release: moderation=openai failed for (\d+) of \1 items, 100.0% \(\w+", line)
        assert all(UNMEASURED in reasons for reasons in _reasons(store)), "none would be released unseen"
        assert list(root.glob("releases/*/manifest.json")) == []
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


def _held_line(err: str) -> str:
    (line,) = [line for line in err.splitlines() if line.startswith("curate: ")]
    return line


@pytest.mark.usefixtures("prefect_server", "impatient")
def test_a_provider_that_nothing_answers_for_holds_the_release_and_one_made_all_the_same_says_what_it_lacks(
    curate, tmp_path, monkeypatch
):
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    store = small_store(tmp_path)
    root = Path(store.root)
    chosen = ("--store", root, "--provider", "categories=openai")
    assert curate("measure", *chosen, "--budget", "0.05")[0] == 0
    status, _, err = curate("release", *chosen)
    assert status == 3 and list(root.glob("releases/*/manifest.json")) == []
    assert re.search(r"categories=openai failed for \d+ of \d+ items, 100.0% \(connection_failed \d", _held_line(err))
    held = json.loads(max((root / "runs").iterdir()).read_text())
    assert held["state"] == "held" and "connection_failed" in held["error"]

    status, out, err = curate("release", *chosen, "--set", "failed_share_max=1", "--release", "1")
    assert status == 0, err
    release = root / "releases" / "1"
    lacking = json.loads((release / "manifest.json").read_text())["unmeasured"]["categories"]
    assert lacking["unmeasured"] == lacking["items"] > 0
    said = f"categories=openai: {lacking['items']} of {lacking['items']} items"
    assert f"**Not measured**, and null: {said}." in (release / "README.md").read_text()
    status, out, _ = curate("verify", release)
    assert (status, f"not measured, and null: {said}" in out) == (0, True)
    assert curate("release", *chosen)[0] == 0, "what was accepted does not hold the next release"
