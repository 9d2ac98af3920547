"""Which releases of a store are on the Hub: one small file each, so that two who publish at once lose neither.

`published/ORG/NAME/REVISION.json` is begun before anything leaves, so that none is forgotten. Nobody rewrites the
record of another publication, on a folder or on an object store.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from urllib.parse import quote

from pydantic import ValidationError

from schemas.errors import StoreUnwell, why_unreadable
from schemas.publication import Publication, UploadPlan
from tasks.storage.tables import Store

_FOLDER = "published"
_UNKNOWN = ""


def begin(store: Store, plan: UploadPlan, now: datetime) -> None:
    """Say that a version may be on the Hub from now on."""
    known = {row.repo for row in of_version(store, plan.version) if row.revision == _revision(plan)}
    _write(store, plan, {upload.repo: _UNKNOWN for upload in plan.uploads if upload.repo not in known}, now)


def end(store: Store, plan: UploadPlan, commits: dict[str, str], now: datetime) -> None:
    """Say that it is there."""
    _write(store, plan, commits, now)


def forget(store: Store, revision: str, repo: str) -> bool:
    """Say that a version is no longer there. Whether there was a record of it."""
    place = _place(repo, revision)
    with _writing(store):
        there = store.read_bytes(place) is not None
        if there:
            store.fs.rm_file(store.at(place))
    return there


def unfinished(store: Store, plan: UploadPlan) -> set[str]:
    """Repositories of a plan where no attempt is known to have ended."""
    rows = of_version(store, plan.version)
    ended = {row.repo for row in rows if row.commit != _UNKNOWN and row.revision == _revision(plan)}
    return {upload.repo for upload in plan.uploads} - ended


def of_version(store: Store, version: str) -> list[Publication]:
    """Where a version was published."""
    return [row for row in publications(store) if row.version == version]


def previous(store: Store, repos: Iterable[str], version: str) -> str | None:
    """The version that was published to one of the repositories last."""
    rows = [row for row in publications(store) if row.repo in set(repos) and row.version != version]
    return max(rows, key=lambda row: row.published_at).version if rows else None


def publications(store: Store) -> Iterator[Publication]:
    """Everything on record, by repository and revision. Raises StoreUnwell for a record that cannot be read."""
    store.fs.invalidate_cache()
    for path in sorted(store.fs.find(store.at(_FOLDER))):
        relative = path.removeprefix(f"{store.path}/")
        content = store.read_bytes(relative) if path.endswith(".json") else None
        if content is None:  # half a file of a killed writer, or a record that went meanwhile
            continue
        try:
            yield Publication.model_validate_json(content)
        except ValidationError:
            raise StoreUnwell(
                f"store {store.root!r} is damaged: {relative!r} cannot be read, which says that a version is on the "
                "Hub; put a copy of it in its place, or take that version back with `curate yank` and remove the file"
            ) from None


def _write(store: Store, plan: UploadPlan, commits: dict[str, str], now: datetime) -> None:
    about = {"version": plan.version, "revision": _revision(plan), "public": plan.public, "published_at": now}
    rows = [Publication(repo=repo, commit=commit, **about) for repo, commit in commits.items()]
    with _writing(store):
        for row in rows:
            store.write_bytes(_place(row.repo, row.revision), row.model_dump_json(indent=2).encode())


@contextmanager
def _writing(store: Store) -> Iterator[None]:
    """Raises StoreUnwell when a record cannot be kept; the same command again mends that."""
    try:
        yield
    except Exception as error:  # every object store has its own errors
        raise StoreUnwell(
            f"store {store.root!r} cannot be written to ({why_unreadable(error)}), and it keeps the record of what is "
            "on the Hub; mend that, and run the same command again"
        ) from None


def _place(repo: str, revision: str) -> str:
    return f"{_FOLDER}/{repo}/{quote(revision, safe='')}.json"


def _revision(plan: UploadPlan) -> str:
    return plan.tag or plan.branch
