"""The Prefect skin of publishing. Nothing is kept between the two steps: what is pushed was verified just before."""

from datetime import UTC, datetime
from pathlib import Path

from prefect import task
from prefect.cache_policies import NO_CACHE

from tasks.publish.hub import hub_api
from tasks.publish.plan import plan_upload
from tasks.publish.publish import publish_release
from tasks.publish.summary import plan_lines, summary_lines


@task(cache_policy=NO_CACHE)
def describe_release(release: str, repo: str, public: bool, per_config: bool, preview: bool) -> str:
    """What would go where, and the funnel and difference a person decides by, as text. Raises CurateError."""
    plan = plan_upload(Path(release), repo, public, per_config, preview)
    return "\n".join([*summary_lines(Path(release), plan), *plan_lines(plan)])


@task(cache_policy=NO_CACHE)
def push_release(release: str, repo: str, public: bool, per_config: bool, preview: bool) -> dict[str, str]:
    """Publish. Returns repository -> commit."""
    plan = plan_upload(Path(release), repo, public, per_config, preview)
    return publish_release(hub_api(), Path(release), plan, datetime.now(UTC))
