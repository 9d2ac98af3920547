"""`curate verify` and `curate diff`: check a release, compare two."""

import json
from typing import TYPE_CHECKING, Annotated

import typer

from flows.commands.options import JsonOption

if TYPE_CHECKING:
    from schemas.publication import ReleaseDiff, RowChange

_SHOWN = 10
"""Changed rows of each configuration that `curate diff` prints."""


def verify(release: Annotated[str, typer.Argument(help="Folder of a release, or its s3://… address.")]) -> None:
    """Check checksums, columns, counts, image metadata, identifiers, leaks and the card. Exit 1 on problems."""
    from flows.products import problems_of
    from tasks.release.build import MANIFEST_DIGITS, manifest_sha256
    from tasks.release.checks.failing import unmeasured_line
    from tasks.release.fetched import fetched, read_manifest, store_of
    from tasks.runtime.untrusted import one_line

    with fetched(release) as folder:
        problems = problems_of(folder, store_of(release))
        lacking = "" if problems else unmeasured_line(read_manifest(folder))
        sealed = manifest_sha256(folder)[:MANIFEST_DIGITS]
    for problem in problems[:50]:
        print(one_line(problem.encode(errors="backslashreplace").decode(), 1000))
    if problems:
        print(f"{len(problems)} problems: this release was changed after it was made, or an older version made it")
        raise typer.Exit(1)
    print(f"{release} is whole; its manifest is {sealed}")
    if lacking:
        print(f"not measured, and null: {one_line(lacking, 1000)}")


def diff(
    old: Annotated[str, typer.Argument(help="Folder of the earlier release, or its s3://… address.")],
    new: Annotated[str, typer.Argument(help="Folder of the later release, or its s3://… address.")],
    store: Annotated[
        str | None, typer.Option("--store", help="Store of the later release, to give removal reasons.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Compare two releases: rules, columns, rows added, removed and changed, and the version bump."""
    from flows.products import parts_of_release
    from schemas.release import CONFIGS
    from tasks.release.diff import diff_releases
    from tasks.release.fetched import fetched
    from tasks.storage.queries.explain import removal_reasons
    from tasks.storage.tables import Store

    known = {"why": removal_reasons(Store.existing(store))} if store else {}
    first: dict[str, list[RowChange]] = {config: [] for config in CONFIGS}

    def on_change(change: "RowChange") -> None:
        if as_json:
            print(change.model_dump_json())
        elif len(first[change.config]) < _SHOWN and not _by_topics(change):
            first[change.config].append(change)

    with fetched(old) as earlier, fetched(new) as later:
        found = diff_releases(earlier, later, parts_of_release, tell=on_change, **known)
    if as_json:
        print(found.model_dump_json())
    else:
        _print(found, first)


def _by_topics(change: "RowChange") -> bool:
    """Whether only a new topic fit changed the row; there may be thousands of these."""
    return change.change == "changed" and set(change.columns) <= {"topic", "topic_id", "in_bench"}


def _print(found: "ReleaseDiff", first: "dict[str, list[RowChange]]") -> None:
    for line in [*found.rules, *found.schema_changes]:
        print(line)
    for config, rows in first.items():
        counts = {change: found.rows.get(f"{config} {change}", 0) for change in ("added", "removed", "changed", "same")}
        print(f"{config:<7}" + "  ".join(f"{change} {count:,}" for change, count in counts.items()))
        for what, of in (("changed columns", found.columns[config]), ("why", found.why[config])):
            if of:
                print(f"  {what}: " + ", ".join(f"{name} {count:,}" for name, count in of.items()))
        for row in rows:
            reasons = f" ({', '.join(row.why)})" if row.columns and row.why else ""
            print(f"  {row.change:<8} {json.dumps(row.id)}  {', '.join(row.columns or row.why)}{reasons}")
        more = sum(counts.values()) - counts["same"] - len(rows)
        if more:
            print(f"  … {more:,} more; all with --json")
    print(f"suggested version bump: {found.bump}" + (f", {found.next_version}" if found.next_version else ""))
