"""Which releases of a store are on the Hub. The record is begun before anything leaves, so that none is forgotten."""

from collections.abc import Iterable
from datetime import datetime

import polars as pl

from schemas.publication import Publication, UploadPlan
from tasks.tables import Store, frame_of

_UNKNOWN = ""


def begin(store: Store, plan: UploadPlan, now: datetime) -> None:
    """Say that a version may be on the Hub from now on."""
    known = {row.repo for row in of_version(store, plan.version) if row.revision == _revision(plan)}
    _add(store, plan, {upload.repo: _UNKNOWN for upload in plan.uploads if upload.repo not in known}, now)


def end(store: Store, plan: UploadPlan, commits: dict[str, str], now: datetime) -> None:
    """Say that it is there."""
    again = pl.col("repo").is_in(list(commits)) & (pl.col("revision") == _revision(plan))
    store.replace("published", store.read("published").filter(~again))
    _add(store, plan, commits, now)


def _add(store: Store, plan: UploadPlan, commits: dict[str, str], now: datetime) -> None:
    about = {"version": plan.version, "revision": _revision(plan), "public": plan.public, "published_at": now}
    rows = [Publication(repo=repo, commit=commit, **about) for repo, commit in commits.items()]
    store.append("published", frame_of(Publication, rows))


def forget(store: Store, revision: str, repo: str) -> bool:
    """Say that a version is no longer there. Whether there was a record of it."""
    known = store.read("published")
    left = known.filter(~((pl.col("revision") == revision) & (pl.col("repo") == repo)))
    if left.height < known.height:
        store.replace("published", left)
    return left.height < known.height


def unfinished(store: Store | None, plan: UploadPlan) -> set[str]:
    """Repositories of a plan where an earlier attempt did not end."""
    rows = of_version(store, plan.version) if store else []
    return {row.repo for row in rows if row.commit == _UNKNOWN and row.revision == _revision(plan)}


def of_version(store: Store, version: str) -> list[Publication]:
    """Where a version was published."""
    rows = store.read("published").filter(version=version).iter_rows(named=True)
    return [Publication(**row) for row in rows]


def previous(store: Store, repos: Iterable[str], version: str) -> str | None:
    """The version that was published to one of the repositories last."""
    rows = store.read("published").filter(pl.col("repo").is_in(list(repos)) & (pl.col("version") != version))
    return None if rows.is_empty() else str(rows.sort("published_at")["version"][-1])


def _revision(plan: UploadPlan) -> str:
    return plan.tag or plan.branch
