"""The Prefect task of topics: vectors of kept documents -> `topics`."""

from prefect import task
from prefect.cache_policies import NO_CACHE

from schemas.run import StageReport
from schemas.settings import Settings
from tasks.providers import Providers
from tasks.runtime.timing import timed
from tasks.storage.queries.signals import Versions
from tasks.topics.find import write_topics


@task(cache_policy=NO_CACHE)
@timed
def find_topics(settings: Settings, providers: Providers, versions: Versions) -> StageReport:
    """Embeddings of kept documents -> `topics`."""
    return write_topics(settings, providers, versions)
