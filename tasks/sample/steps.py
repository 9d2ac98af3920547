"""The Prefect skin of sample: topics of what is kept, and the benchmark drawn from them."""

from prefect import task
from prefect.cache_policies import NO_CACHE

from schemas.run import StageReport
from schemas.settings import Settings
from tasks.lookup.facts import Versions
from tasks.providers import Providers
from tasks.running.timing import timed
from tasks.sample.bench import write_bench
from tasks.sample.topics import write_topics


@task(cache_policy=NO_CACHE)
@timed
def find_topics(settings: Settings, providers: Providers, versions: Versions) -> StageReport:
    """Embeddings of kept documents -> `topics`."""
    return write_topics(settings, providers, versions)


@task(cache_policy=NO_CACHE)
@timed
def draw_bench(settings: Settings, versions: Versions) -> StageReport:
    """`topics` -> `bench`, uniformly over topics of what the filters leave, and `hidden`, which nothing releases."""
    return write_bench(settings, versions)
