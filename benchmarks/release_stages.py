"""The stages that `benchmarks.release_memory` measures: a release of a store, without Prefect's engine."""

import os
import shutil
from pathlib import Path

from benchmarks.release_store import VERSIONS
from flows.products import item_ids, parts_of_release, problems_of, report_sections
from schemas.release import CONFIGS
from schemas.settings import Settings
from tasks.leaderboard.steps import rate_models
from tasks.providers import Providers
from tasks.release.diff import diff_releases
from tasks.release.gather import Gathered
from tasks.release.steps import Built, build_release, seal_release
from tasks.report.steps import report_release
from tasks.storage.queries.explain import removal_reasons
from tasks.storage.tables import Store

_built: list[Built] = []


def join(store: str) -> None:
    """Read every row of the release and write none."""
    gathered = Gathered(Store(store), VERSIONS, Settings(store=store).bench, item_ids(Store(store)))
    for config in CONFIGS:
        for _ in gathered.rows(config):
            pass


def shards(store: str) -> None:
    """Join, and write shards and leaderboards."""
    _built.append(build_release.fn(Settings(store=store), VERSIONS, item_ids(Store(store)), ()))
    rate_models.fn(Settings(store=store), VERSIONS, _built[0].staging)


def report(store: str) -> None:
    """The report, with the funnel."""
    report_release.fn(Settings(store=store), Providers(), _built[0].staging, _built[0].tallies, report_sections, ())


def seal(store: str) -> None:
    """Card, checksums, manifest."""
    seal_release.fn(Settings(store=store, release="1.0.0"), Providers(), VERSIONS, _built.pop(), ())


def verify(store: str) -> None:
    """Raises AssertionError when the release is not whole."""
    problems = problems_of(Path(store) / "releases" / "1.0.0")
    assert not problems, problems[:3]


def diff(store: str) -> None:
    """Compare the release with itself."""
    old = Path(store) / "releases" / "1.0.0"
    new = Path(shutil.copytree(old, old.with_name("1.1.0"), copy_function=os.link))
    diff_releases(old, new, parts_of_release, removal_reasons(Store(store)))
    shutil.rmtree(new)
