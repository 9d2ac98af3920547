"""The Prefect task of the benchmark: `topics` -> `bench` and `hidden`."""

from prefect import task
from prefect.cache_policies import NO_CACHE

from schemas.run import StageReport
from schemas.settings import Settings
from tasks.bench.build import write_bench
from tasks.runtime.timing import timed
from tasks.storage.queries.signals import Versions


@task(cache_policy=NO_CACHE)
@timed
def draw_bench(settings: Settings, versions: Versions) -> StageReport:
    """`topics` -> `bench`, uniformly over topics of what the filters leave, and `hidden`, which nothing releases."""
    return write_bench(settings, versions)
