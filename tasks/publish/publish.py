"""Publishes a release that somebody approved."""

import time
from datetime import datetime
from pathlib import Path

from huggingface_hub import HfApi

from schemas.publication import UploadPlan
from tasks.publish.push import Push, require_unchanged, version_exists
from tasks.publish.records import begin, end, unfinished
from tasks.publish.remote import Wait
from tasks.release.build import WITHDRAWN
from tasks.tables import Store


def check_hub(
    api: HfApi, release: Path, plan: UploadPlan, store: Store | None, wait: Wait = time.sleep
) -> dict[Push, str | None]:
    """Ask every repository whether it would take its part, so that nobody is asked to approve what cannot go.

    Returns each part and its commit where that is there already. Changes nothing on the Hub. Raises HubError, BadInput
    or ReleaseConflict; the last also when all is there and on record.
    """

    def withdrawn() -> bool:
        return store is not None and store.read_bytes(f"releases/{plan.version}/{WITHDRAWN}") is not None

    parts = [Push(api, release, plan, upload, wait, withdrawn) for upload in plan.uploads]
    pushes = {push: push.check() for push in parts}
    if all(pushes.values()) and not (store and unfinished(store, plan)):
        raise version_exists(plan.uploads[0].repo, plan.version)
    return pushes


def publish_release(
    api: HfApi, release: Path, plan: UploadPlan, store: Store | None, now: datetime, wait: Wait = time.sleep
) -> dict[str, str]:
    """Put every repository of the plan on the Hub. Returns repository -> commit; a store remembers it.

    A takedown withdraws a release first and reads the store's record of publications last; here the record comes first
    and is followed by a look whether the release was withdrawn: so one of the two always knows of the other.

    All are checked before any is changed. Interrupted, the same call completes it: of several repositories those
    that are done stay as they are. Raises HubError, BadInput or ReleaseConflict.
    """
    for upload in plan.uploads:
        require_unchanged(release, upload.sha256)
    pushes = check_hub(api, release, plan, store, wait)
    if store:
        begin(store, plan, now)
    commits = {push.repo: there or push.run() for push, there in pushes.items()}
    if store:
        end(store, plan, commits, now)
    return commits
