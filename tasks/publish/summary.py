"""The text that a person approves before publishing: files, funnel, and changes since the last published version."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from schemas.errors import CurateError
from schemas.publication import UploadPlan
from schemas.release_diff import ReleaseDiff
from schemas.run import Funnel
from tasks.publish.records import previous
from tasks.release.diff import diff_releases
from tasks.release.fetched import fetched
from tasks.release.layout import MANIFEST_DIGITS
from tasks.release.verify import read_manifest
from tasks.storage.tables import Store


def plan_lines(plan: UploadPlan) -> Iterator[str]:
    """Every file with its repository."""
    for upload in plan.uploads:
        visible = "public" if plan.public else "private"
        where = f"tag {plan.tag}" if plan.tag else f"branch {plan.branch}"
        files = f"{len(upload.files):,} files, {upload.size_bytes:,} bytes"
        yield f"{upload.repo} ({visible}), one commit on {plan.branch}, {where}: {files}"
        yield from (f"  {path}" for path in upload.files)


def summary_lines(release: Path, plan: UploadPlan, store: Store | None) -> Iterator[str]:
    """Counts, licence, the funnel, and the difference to the version published before."""
    manifest = read_manifest(release)
    gone = Funnel.model_validate(manifest.funnel)
    counts = ", ".join(f"{name} {rows:,}" for name, rows in manifest.counts.items())
    yield f"version {manifest.version}, manifest {plan.manifest_sha256[:MANIFEST_DIGITS]}: {counts}"
    yield f"licence {manifest.policy.get('licence') or 'not chosen: the policy names one (`licence`)'}"
    yield f"in {gone.lines:,} = kept {gone.kept:,} + dropped {gone.dropped:,} + rejected {gone.rejected:,}"
    for fate, reasons in (("dropped", gone.dropped_by), ("rejected", gone.rejected_by)):
        yield from (f"  {fate} {count:,} {reason}" for reason, count in reasons.items())
    yield from _changes(release, plan, store)


def _changes(release: Path, plan: UploadPlan, store: Store | None) -> Iterator[str]:
    before = previous(store, [upload.repo for upload in plan.uploads], plan.version) if store else None
    if store is None or before is None:
        yield "no earlier version of it is on record"
        return
    try:
        with fetched(f"{store.root}/releases/{before}") as earlier:
            found = diff_releases(earlier, release)
    except CurateError as error:
        yield f"no difference to {before} can be shown: {error}"
        return
    yield f"since version {before}:"
    yield from diff_lines(found)


def diff_lines(found: ReleaseDiff) -> Iterator[str]:
    """A difference without its rows."""
    yield from (f"  {line}" for line in [*found.rules, *found.schema_changes])
    yield from (f"  {name} {count:,}" for name, count in sorted(found.rows.items()) if not name.endswith("same"))
    columns = sum((Counter(counts) for counts in found.columns.values()), Counter[str]())
    if columns:
        yield "  changed columns: " + ", ".join(f"{name} {count:,}" for name, count in columns.most_common())
    yield f"  suggested version bump: {found.bump}"
