"""Commands of the explorer: `curate view`, a store or a release in a browser or as static pages, and `curate sql`."""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flows.commands.listed import Added
from flows.commands.options import measured_versions, takes
from flows.commands.pages import NoBrowserOption, PortOption, opened, serve
from flows.explore.sql import sql
from schemas.errors import BadInput
from schemas.settings import Settings

if TYPE_CHECKING:
    from tasks.shown import Comparison, Source


@takes("providers", store="")
def view(
    settings: Settings,
    place: Annotated[
        str, typer.Argument(metavar="RELEASE|STORE", help="Folder of a release or a store, or its s3://… address.")
    ],
    port: PortOption = None,
    no_browser: NoBrowserOption = False,
    against: Annotated[
        str | None, typer.Option("--against", metavar="OLD", help="Earlier release to compare this one with.")
    ] = None,
    export: Annotated[
        Path | None, typer.Option("--export", metavar="DIR", help="Write a release's pages to a new folder instead.")
    ] = None,
    rows_max: Annotated[
        int, typer.Option("--rows-max", min=1, help="Items of an export; more are sampled evenly over topics.")
    ] = 5_000,
) -> None:
    """Look at conversations, battles, topics, boards and what was dropped, in a browser on this machine.

    A release shows what is in its files. A store is private: the link holds a token, found personal data is masked and
    images that may show a person are blurred until you ask for them. Nothing is written; Ctrl-C ends it.
    """
    from tasks.shown import Gone

    try:
        with opened(place, against, export is None, lambda: measured_versions(settings)) as (source, comparison):
            if export is not None:
                _export(place, source, export, rows_max, comparison)
                return
            serve(source, comparison, port, not no_browser)
    except Gone as gone:
        raise BadInput(f"{place!r} cannot be shown: {gone}") from None


def _export(place: str, source: "Source", folder: Path, rows_max: int, comparison: "Comparison | None") -> None:
    from schemas.publication import ExportKind
    from tasks.explore.static_pages import export_pages
    from tasks.export.destination import record_export
    from tasks.release.fetched import store_of

    if not source.private:
        _ = source.listing, source.boards(), source.item_boards()  # what cannot be read is known before it is exported
        if source.problems:
            raise BadInput(f"{place!r} is not exported: {source.problems[0].replace(' and is left out', '')}")
        part = source.listing.height > rows_max
        record_export(store_of(place), str(folder), ExportKind.PAGES, source.title, part, datetime.now(UTC))
    rows = export_pages(source, folder, rows_max, comparison)
    every = source.listing.height
    sample = f", sampled evenly over topics from {every:,}" if rows < every else ""
    print(f"{rows:,} items in {folder / 'index.html'}{sample}")


COMMANDS = (Added(view, "Look", before="explain"), Added(sql, "Look", before="explain"))
