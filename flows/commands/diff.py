"""`curate diff`: what changed between two releases."""

import json
from collections import Counter
from typing import TYPE_CHECKING, Annotated

import typer

from flows.commands.options import JsonOption

if TYPE_CHECKING:
    from schemas.release_diff import ReleaseDiff

_SHOWN = 10


def diff(
    old: Annotated[str, typer.Argument(help="Folder of the earlier release, or its s3://… address.")],
    new: Annotated[str, typer.Argument(help="Folder of the later release, or its s3://… address.")],
    store: Annotated[
        str | None, typer.Option("--store", help="Store of the later release, to say why rows left.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """What changed from one release to another: rules, columns, rows in, out and changed, and the version bump."""
    from tasks.lookup.why_out import why_out
    from tasks.release.diff import diff_releases
    from tasks.release.fetched import fetched
    from tasks.tables import Store

    known = (why_out(Store.existing(store)),) if store else ()
    with fetched(old) as earlier, fetched(new) as later:
        found = diff_releases(earlier, later, *known)
    if as_json:
        for change in found.changes:
            print(change.model_dump_json())
        print(found.model_dump_json(exclude={"changes"}))
    else:
        _print(found)


def _print(found: "ReleaseDiff") -> None:
    for line in [*found.rules, *found.schema_changes]:
        print(line)
    for config in ("chat", "battle", "bench"):
        counts = {change: found.rows.get(f"{config} {change}", 0) for change in ("added", "removed", "changed", "same")}
        print(f"{config:<7}" + "  ".join(f"{change} {count:,}" for change, count in counts.items()))
        rows = [change for change in found.changes if change.config == config]
        columns = Counter(column for row in rows for column in row.columns)
        if columns:
            print("  changed columns: " + ", ".join(f"{name} {count:,}" for name, count in columns.most_common()))
        reasons = Counter(reason for row in rows for reason in row.why)
        if reasons:
            print("  why rows left: " + ", ".join(f"{name} {count:,}" for name, count in reasons.most_common()))
        for row in rows[:_SHOWN]:
            print(f"  {row.change:<8} {json.dumps(row.id)}  {', '.join(row.columns or row.why)}")
        if len(rows) > _SHOWN:
            print(f"  … {len(rows) - _SHOWN:,} more; all with --json")
    print(f"suggested version bump: {found.bump}")
