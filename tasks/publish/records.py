"""The store's record of publications on the Hub: one file each, `published/ORG/NAME/REVISION.json`.

The file is written before anything is sent, so that no publication is missed. One file for each lets several publish at
the same time. It stays when a version is taken back: copies that others downloaded stay, too.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from urllib.parse import quote

from pydantic import ValidationError

from schemas.errors import StoreUnwell, why_unreadable
from schemas.publication import Publication, UploadPlan
from schemas.upkeep import Audited
from tasks.storage.records import add_audit_entry
from tasks.storage.tables import Store

_FOLDER = "published"
_UNKNOWN = ""


def record_publication(store: Store, plan: UploadPlan, now: datetime, by: str = "") -> None:
    """Record that a version may be on the Hub from now on. `by`: who approved it, in the audit log."""
    counts = {"repositories": len(plan.uploads), "public": int(plan.public)}
    if accepted := plan.accepted_embedded:
        about = f"{plan.version}: {', '.join(accepted)}"
        add_audit_entry(store, Audited.ACCEPTED, {"stand-ins": len(accepted)}, about, by)
    add_audit_entry(store, Audited.PUBLISHED, counts, plan.version, by)
    recorded_repos = {row.repo for row in of_version(store, plan.version) if row.revision == plan.revision}
    record_commits(
        store, plan, {upload.repo: _UNKNOWN for upload in plan.uploads if upload.repo not in recorded_repos}, now
    )


def record_commits(store: Store, plan: UploadPlan, commits: dict[str, str], now: datetime) -> None:
    """Record the commits of a publication by repository."""
    about = plan.model_dump(include={"version", "public", "accepted_embedded"})
    about |= {"revision": plan.revision, "published_at": now}
    rows = [Publication(repo=repo, commit=commit, **about) for repo, commit in commits.items()]
    with _writing(store):
        for row in rows:
            store.write_bytes(_place(row.repo, row.revision), row.model_dump_json(indent=2).encode())


def record_yank(store: Store, revision: str, repo: str, now: datetime) -> bool:
    """Record that a version was taken back. Returns whether one was on record as on the Hub."""
    taken_back = [row for row in publications(store) if (row.repo, row.revision) == (repo, revision)]
    for row in taken_back:
        add_audit_entry(store, Audited.YANKED, {"repositories": 1}, f"{revision} of {repo}")
        with _writing(store):
            content = row.model_copy(update={"yanked_at": now}).model_dump_json(indent=2)
            store.write_bytes(_place(repo, revision), content.encode())
    return bool(taken_back)


def unfinished(store: Store, plan: UploadPlan) -> set[str]:
    """Repositories of a plan without a recorded, finished publication."""
    rows = of_version(store, plan.version)
    finished_repos = {row.repo for row in rows if row.commit != _UNKNOWN and row.revision == plan.revision}
    return {upload.repo for upload in plan.uploads} - finished_repos


def of_version(store: Store, version: str) -> list[Publication]:
    """Publications of a version."""
    return [row for row in publications(store) if row.version == version]


def previous(store: Store, repos: Iterable[str], version: str) -> str | None:
    """The version that was last published to one of the repositories, other than `version`."""
    rows = [row for row in publications(store) if row.repo in set(repos) and row.version != version]
    return max(rows, key=lambda row: row.published_at).version if rows else None


def publications(store: Store) -> Iterator[Publication]:
    """Publications that are on the Hub, or may be. Order and errors are those of `ever_published`."""
    return (row for row in ever_published(store) if row.yanked_at is None)


def ever_published(store: Store) -> Iterator[Publication]:
    """All publications on record, also those that were taken back, by repository and revision.

    Raises StoreUnwell for a record that cannot be read.
    """
    store.fs.invalidate_cache()
    for path in sorted(store.fs.find(store.at(_FOLDER))):
        relative = path.removeprefix(f"{store.path}/")
        content = store.read_bytes(relative) if path.endswith(".json") else None
        if content is None:  # the temporary file of a killed writer, or a record deleted meanwhile
            continue
        try:
            yield Publication.model_validate_json(content)
        except ValidationError:
            raise StoreUnwell(
                f"store {store.root!r} is damaged: {relative!r} cannot be read, which says that a version is on the "
                "Hub; put a copy of it in its place, or take that version back with `curate yank` and remove the file"
            ) from None


@contextmanager
def _writing(store: Store) -> Iterator[None]:
    """Raises StoreUnwell when a record cannot be written."""
    try:
        yield
    except Exception as error:  # every object store has its own errors
        raise StoreUnwell(
            f"store {store.root!r} cannot be written to ({why_unreadable(error)}), and it keeps the record of what is "
            "on the Hub; mend that, and run the same command again"
        ) from None


def _place(repo: str, revision: str) -> str:
    return f"{_FOLDER}/{repo}/{quote(revision, safe='')}.json"
