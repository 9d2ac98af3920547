"""`curate verify` and `curate diff`: check a release, compare two."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from flows.commands.options import JsonOption, existing, takes
from flows.commands.tables import note, print_rows
from schemas.errors import BadInput
from schemas.settings import Settings

if TYPE_CHECKING:
    from schemas.publication import ReleaseDiff, RowChange

_SHOWN = 10
"""Changed rows of each configuration that `curate diff` prints."""


@takes(store="")
def verify(
    settings: Settings, release: Annotated[str, typer.Argument(help="Folder of a release, or its s3://… address.")]
) -> None:
    """Check checksums, columns, counts, image metadata, identifiers, leaks and the card. Exit 1 on problems."""
    from flows.products import problems_of
    from tasks.release.build import MANIFEST_DIGITS, manifest_sha256
    from tasks.release.checks.report import MADE_AGAIN_SINCE
    from tasks.release.dataset_card import unmeasured_line
    from tasks.release.fetched import fetched, maker, read_manifest, store_of
    from tasks.runtime.untrusted import one_line

    with fetched(release) as folder:
        problems = problems_of(folder, store_of(release))
        manifest = read_manifest(folder)
        sealed = manifest_sha256(folder)[:MANIFEST_DIGITS]
    for problem in problems[:50]:
        print(one_line(problem.encode(errors="backslashreplace").decode(), 1000))
    if problems:
        made_by = maker(manifest.software)
        print(f"{len(problems)} problems: this release was changed after it was made, or {made_by} made it")
        raise typer.Exit(1)
    print(f"{release} is whole; its manifest is {sealed}")
    if manifest.layout < MADE_AGAIN_SINCE:
        print("its report, of an earlier version, was compared with its own tables alone")
    if lacking := unmeasured_line(manifest):
        print(f"not measured, and null: {one_line(lacking, 1000)}")


@takes(store="")
def diff(
    settings: Settings,
    old: Annotated[str, typer.Argument(help="Folder of the earlier release, or its s3://… address.")],
    new: Annotated[str, typer.Argument(help="Folder of the later release, or its s3://… address.")],
    store: Annotated[
        str | None, typer.Option("--store", help="Store of the later release, to give removal reasons.")
    ] = None,
    table: Annotated[
        Literal["changes", "topics"],
        typer.Option("--table", help="changes; or topics: the share of each in both, and those that only one has."),
    ] = "changes",
    out: Annotated[
        Path | None, typer.Option("--out", help="With --table topics: also write a page with pictures, FILE.html.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Compare two releases: rules, columns, rows added, removed and changed, and the version bump; or topics."""
    from flows.products import parts_of_release
    from schemas.release import CONFIGS
    from tasks.release.diff import diff_releases
    from tasks.release.fetched import fetched
    from tasks.storage.queries.explain import removal_reasons

    if table == "topics":
        if store:
            raise BadInput(f"--store {store!r} gives reasons of changes; leave it or --table topics out")
        _print_topics(old, new, out, as_json)
        return
    if out:
        raise BadInput(f"--out {str(out)!r} is a page of topics; add --table topics")
    reasons = {"why": removal_reasons(existing(store))} if store else {}
    first: dict[str, list[RowChange]] = {config: [] for config in CONFIGS}
    by_topics = {"topic", "topic_id", "in_bench"}  # a new topic fit changes these in thousands of rows

    def on_change(change: "RowChange") -> None:
        if as_json:
            print(change.model_dump_json())
        elif len(first[change.config]) < _SHOWN and (change.change != "changed" or not by_topics >= {*change.columns}):
            first[change.config].append(change)

    with fetched(old) as earlier, fetched(new) as later:
        difference = diff_releases(earlier, later, parts_of_release, tell=on_change, **reasons)
    note("neither release was verified; `curate verify` says whether one is whole")
    if as_json:
        print(difference.model_dump_json())
    else:
        _print(difference, first)


def _print_topics(old: str, new: str, out: Path | None, as_json: bool) -> None:
    from flows.commands.pages import opened
    from flows.products import explorer_here
    from tasks.export.destination import write_option_file

    if out and (out.suffix != ".html" or not out.parent.is_dir()):
        raise BadInput(f"--out {str(out)!r}: give a name that ends in .html, in a folder that exists")
    with opened(old, None) as (first, _), opened(new, None) as (second, _):
        for place, source in ((old, first), (new, second)):
            if source.private:
                raise BadInput(f"{place!r} is a store; give two releases, such as {place}/releases/VERSION")
            source.refresh()
        compared = explorer_here().compared_topics(first, second)
        for place, source in ((old, first), (new, second)):
            for problem in source.problems:
                note(f"{place}: {problem}")
        if not compared.rows:
            raise BadInput(f"neither {old!r} nor {new!r} has topics; `curate sample` finds them before a release")
        page = compared.page() if out else ""
    if out:
        write_option_file("--out", out, page)
    print_rows("topics", compared.rows, as_json)
    note(compared.rule)
    if out:
        note(f"{out}")


def _print(difference: "ReleaseDiff", first: "dict[str, list[RowChange]]") -> None:
    for line in [*difference.rules, *difference.schema_changes]:
        print(line)
    for config, rows in first.items():
        counts = {
            change: difference.rows.get(f"{config} {change}", 0) for change in ("added", "removed", "changed", "same")
        }
        print(f"{config:<6} " + "  ".join(f"{change} {count:,}" for change, count in counts.items()))
        for what, numbers in (("changed columns", difference.columns[config]), ("why", difference.why[config])):
            if numbers:
                print(f"  {what}: " + ", ".join(f"{name} {count:,}" for name, count in numbers.items()))
        for row in rows:
            reasons = f" ({', '.join(row.why)})" if row.columns and row.why else ""
            print(f"  {row.change:<8} {json.dumps(row.id)}  {', '.join(row.columns or row.why)}{reasons}")
        more = sum(counts.values()) - counts["same"] - len(rows)
        if more:
            print(f"  … {more:,} more; all with --json")
    print(difference.bump_in_words)
