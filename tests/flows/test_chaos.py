"""Runs are killed at random changes of one store, drawn from all stages; the last run finishes their work.

Every run continues where the killed one stopped. CURATE_CHAOS_SEED draws other changes to be killed at.
"""

import os
import random
import signal
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import pytest

from schemas.settings import Settings
from schemas.tables import SIGNALS
from tasks.demo.arena import generate_arena
from tasks.storage.content_id import text_id
from tasks.storage.tables import Store
from tests.flows.killed_run import Change, KillAt, fork_server, run

pytest.importorskip("openai", reason="production extra")
from tests.flows.moderation_server import ModerationServer

pytestmark = pytest.mark.timeout(1800)  # five runs on a machine that may be busy
SEED = int(os.environ.get("CURATE_CHAOS_SEED", "20261121"))
KILLS = 3
KILLS_AMONG_PROBES = 1
PRODUCTS = ("written_bench", "generated_bench", "judging", "review", "explore", "arena", "demo")
Facts = dict[tuple[str, str, str], str]
"""(signal, content id, version) -> time of measurement."""


def _changes(log: Path) -> list[Change]:
    """The changes of an undisturbed run, in order, without new folders and the write that tests the store."""
    changes = [Change(*line.split(" ", 1)) for line in log.read_text().splitlines()]
    return [each for each in changes if each.kind != "mkdir" and "/.writable" not in f"/{each.place}"]


def kill_points(changes: list[Change], seed: int) -> list[KillAt]:
    """The run is split into equal shares, in order, with one random change from each: kills happen in every phase."""
    draw = random.Random(seed)
    probes = [each for each in changes if each.place.startswith("canaries/")]
    own = [each for each in changes if not each.place.startswith("canaries/")]
    points = []
    for some, count in ((probes, KILLS_AMONG_PROBES), (own, KILLS - KILLS_AMONG_PROBES)):
        borders = [round(number * len(some) / count) for number in range(count + 1)]
        points += [KillAt(draw.choice(some[a:b]), 1, draw.random() < 0.5) for a, b in pairwise(borders)]
    # By the place in the run: one that comes before an earlier kill may not come again.
    return sorted(points, key=lambda point: changes.index(point.change))


@dataclass
class Chaos:
    """An undisturbed store, a store whose runs were killed, and what was observed after each kill."""

    undisturbed: Path
    killed: Path
    modules: list[str] = field(default_factory=list)
    """What the undisturbed run, verifying its release and what publishes it have imported."""
    codes: list[int] = field(default_factory=list)
    recorded: Facts = field(default_factory=dict)
    """Every signal that was in the store when a run was killed."""
    paid_again: list[str] = field(default_factory=list)
    """Texts that were sent to a service although their signal was stored."""
    asked: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    """Releases that were visible without a manifest."""


def _facts(store: Path) -> list[tuple[tuple[str, str, str], str]]:
    tables = {
        name: Store(str(store)).read(f"signals/{name}", ["content_id", "version", "measured_at"]) for name in SIGNALS
    }
    return [((name, i, v), str(at)) for name, table in tables.items() for i, v, at in table.iter_rows()]


@pytest.fixture(scope="module")
def chaos(prefect_server, tmp_path_factory):
    from prefect.settings import PREFECT_API_URL

    folder, service = tmp_path_factory.mktemp("chaos"), ModerationServer()
    generate_arena(folder, conversations=7, battles=3, seed=9, images_max=4, problems=False)
    seen = Chaos(folder / "undisturbed", folder / "killed")
    patch = pytest.MonkeyPatch()
    patch.setenv("CURATE_USER_KEY", "one key for both stores of this test")
    patch.setenv("OPENAI_API_KEY", "test-key")
    patch.setenv("OPENAI_BASE_URL", service.url)
    providers = {"moderation": "openai"}
    with fork_server() as context:

        def curate(store: Path, kill_at: KillAt | None = None) -> int:
            settings = Settings(logs=str(folder / "logs"), store=str(store), workers=2, providers=providers)
            return run(context, PREFECT_API_URL.value(), settings, kill_at, folder / "changes")

        assert curate(seen.undisturbed) == 0
        seen.modules = (folder / "changes.modules").read_text().splitlines()
        for point in [*kill_points(_changes(folder / "changes"), SEED), None]:
            service.requests.clear()
            seen.codes.append(curate(seen.killed, point))
            ids = {text_id(text) for text in service.asked}
            paid = {content_id for signal_name, content_id, _ in seen.recorded if signal_name == "moderation"}
            seen.paid_again += sorted(ids & paid)
            seen.asked += service.asked
            seen.recorded = dict(_facts(seen.killed)) | seen.recorded
            visible = [p for p in seen.killed.glob("releases/*") if not p.name.startswith(".")]
            seen.broken += [str(p) for p in visible if not (p / "manifest.json").exists()]
    patch.undo()
    service.close()
    return seen


def _files(store: Path, pattern: str) -> dict[str, bytes]:
    return {str(path.relative_to(store)): path.read_bytes() for path in sorted(store.glob(pattern)) if path.is_file()}


def test_runs_were_killed_in_every_share_of_the_work_and_the_last_one_finished(chaos):
    *killed, last = chaos.codes
    assert set(killed) <= {-signal.SIGKILL, 0} and last == 0, f"seed {SEED}: exit codes {chaos.codes}"
    assert killed.count(-signal.SIGKILL) >= KILLS - 1, f"seed {SEED}: too few died: {chaos.codes}"


def test_a_run_without_benchmarks_and_judges_loads_of_products_only_what_they_give_the_core(chaos):
    assert {"tasks.release.verify", "tasks.report.content", "tasks.publish.steps"} <= set(chaos.modules)
    products = [module for name in PRODUCTS for module in chaos.modules if f"{module}.".startswith(f"tasks.{name}.")]
    entrances = {f"tasks.{name}{module}" for name in PRODUCTS for module in ("", ".product")}
    assert [module for module in products if module not in entrances] == []


def test_killed_runs_leave_the_release_and_tables_of_an_undisturbed_run_and_nothing_beside_them(chaos):
    expected, found = (_files(store, "releases/*/**/*") for store in (chaos.undisturbed, chaos.killed))
    assert expected and found.keys() == expected.keys(), f"seed {SEED}"
    assert [name for name in found if found[name] != expected[name]] == [], f"seed {SEED}"
    assert chaos.broken == [], f"seed {SEED}"
    for name in ("conversations", "battles", "decisions", "near_images", "topics", "bench", "ratings", "rejects"):
        expected, found = (_files(store, f"tables/{name}/*") for store in (chaos.undisturbed, chaos.killed))
        assert found == expected != {}, f"seed {SEED}: {name}"
    assert [str(p) for p in chaos.killed.rglob("*.tmp")] == [], f"seed {SEED}"
    assert not (chaos.killed / "ingest" / "unfinished").exists(), f"seed {SEED}"


def test_no_row_is_there_twice_and_no_recorded_fact_was_measured_or_paid_again(chaos):
    for table, key in (("sightings", ["source", "line", "side"]), ("images", ["image_id"]), ("image_files", ["name"])):
        rows = Store(str(chaos.killed)).read(table, key)
        assert rows.height == rows.n_unique() > 0, f"seed {SEED}: {table}"
    facts = _facts(chaos.killed)
    assert len(facts) == len(dict(facts)) == len(_facts(chaos.undisturbed)), f"seed {SEED}"
    assert {key: at for key, at in facts if chaos.recorded[key] != at} == {}, f"seed {SEED}"
    assert chaos.paid_again == [], f"seed {SEED}"
