"""Prefect tasks of publishing. Both verify the release; nothing is kept between them."""

from collections.abc import Sequence
from datetime import UTC, datetime

from prefect import task
from prefect.cache_policies import NO_CACHE

from schemas.errors import ReleaseConflict
from tasks.publish.hub import hub_api
from tasks.publish.plan import plan_lines, plan_upload, summary_lines
from tasks.publish.push import check_hub, publish_release
from tasks.release.build import MANIFEST_DIGITS
from tasks.release.fetched import fetched_of_store
from tasks.release.registered import PartsOf


@task(cache_policy=NO_CACHE)
def describe_release(
    release: str, repo: str, public: bool, per_config: bool, preview: bool, parts: PartsOf, accepted: Sequence[str] = ()
) -> str:
    """The text for approval. Raises CurateError when the release or the Hub does not allow publishing."""
    api = hub_api()  # a missing token is reported before the long verification
    with fetched_of_store(release) as (folder, store):
        plan = plan_upload(folder, repo, parts, public, per_config, preview, store, accepted=accepted)
        check_hub(api, folder, plan, store)
        return "\n".join([*summary_lines(folder, plan, store, parts), *plan_lines(plan)])


@task(cache_policy=NO_CACHE)
def push_release(
    release: str, repo: str, public: bool, per_config: bool, preview: bool, manifest: str, parts: PartsOf,
    accepted: Sequence[str] = (), by: str = "",
) -> dict[str, str]:  # fmt: skip
    """Publish; returns repository -> commit. Raises ReleaseConflict when `manifest`, the approved digits, differs.

    `by` is who approved it, of whom the audit log has a keyed hash.
    """
    api = hub_api()
    with fetched_of_store(release) as (folder, store):
        plan = plan_upload(folder, repo, parts, public, per_config, preview, store, accepted=accepted)
        if plan.manifest_sha256[:MANIFEST_DIGITS] != manifest:
            raise ReleaseConflict(
                f"{release!r} is not what was approved: its manifest is {plan.manifest_sha256[:MANIFEST_DIGITS]}, "
                f"{manifest!r} was approved; run publish again and read what changed"
            )
        return publish_release(api, folder, plan, store, datetime.now(UTC), by=by)
