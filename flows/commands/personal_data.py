"""`curate subject`, `scrub` and `processing`: what is held of a person, logs without addresses, a record of it all."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer

from flows.commands.export import OutOption
from flows.commands.options import existing, option, settings_of, takes
from flows.commands.takedown import given_or_read
from schemas.errors import BadInput
from schemas.settings import Settings
from tasks.runtime.untrusted import one_line

_DAYS_MAX = 36_500
"""A hundred years, before which no log is."""


@takes("store", others=False)
def subject(
    settings: Settings,
    person: Annotated[
        str,
        typer.Argument(
            metavar="USER",
            help="A user id, or an address as the raw logs have it; - reads it from standard input.",
        ),
    ],
    out: OutOption,
) -> None:
    """Write out everything that tables, releases and exports of the store hold of a person, with the images.

    DIR gets a page, index.html, the rows as JSON and the images. Rows that name another person are left out. What was
    exported or published is listed. The audit log says that it was done.
    """
    from tasks.export.destination import destination
    from tasks.storage.lock import storage_errors
    from tasks.storage.tables import Store
    from tasks.takedown.subject import hand_out

    store = Store.existing(settings.store, any_layout=True)
    people = given_or_read([person])
    if len(people) != 1:
        raise BadInput("give one person")
    with storage_errors(store), destination(out) as folder:
        copies = hand_out(store, people[0], folder)
    for place, rows in copies.rows.items():
        print(f"{rows:>8,}  {place}")
    print(f"{out}: {sum(copies.rows.values()):,} rows, {copies.images:,} images")
    print(f"left out, because they name another person: {copies.left_out:,} rows")
    print(f"the raw logs had {copies.lines:,} lines of this person")
    for publication in copies.published:
        print(one_line(f"on the Hub: {publication.repo}, {publication.revision}"))
    for export in copies.exported:
        where = f"{export.place} on {export.machine}" if export.machine else export.place
        named = " ".join(filter(None, (export.kind.value, export.version)))
        print(one_line(f"perhaps in: {named} at {where}", 1000))


@takes("store", others=False)
def scrub(
    settings: Settings,
    logs: Annotated[str, typer.Argument(metavar="LOGS", help="Folder of raw logs that the store has read.")],
    older: Annotated[
        int,
        typer.Option(
            "--older", metavar="DAYS", min=0, max=_DAYS_MAX, help="Copy log files of days more than so long ago (UTC)."
        ),
    ],
    out: Annotated[str, typer.Option("--out", metavar="DIR", help="New folder for the copies.")],
) -> None:
    """Copy raw logs without addresses and cookie hashes; the originals stay as they are.

    An address becomes the keyed hash that the store has for it. Copies have the files' names and lines: put in place of
    the files, they are known as these, and nothing is read again. A file that the store has not read as it is now is
    left out and listed.
    """
    from tasks.ingest.scrub import scrub as scrub_logs
    from tasks.storage.lock import storage_errors, writing

    existing(settings.store)
    before = datetime.now(UTC).date() - timedelta(days=older)
    with writing(settings.store) as store, storage_errors(store):
        copied = scrub_logs(store, Path(logs), before, Path(out))
    for source in copied.left_out:
        print(one_line(f"left out, not read as it is now: {source}", 1000))
    print(
        f"{out}: {copied.files:,} files, {copied.lines:,} lines; {copied.addresses:,} addresses became keyed hashes, "
        f"{copied.broken:,} lines that are no record were emptied"
    )
    print("put the copies in place of the files; the next run reads nothing of them again")


def processing(
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="The page, in HTML; an earlier one is replaced.")],
    place: Annotated[
        str | None,
        typer.Argument(
            metavar="STORE", help="Folder of a store, or its s3://… address.", show_default="of curate.yaml"
        ),
    ] = None,
    config: Annotated[str | None, option("config")] = None,
) -> None:
    """Write the record of processing: what is kept where and how long, who receives it, and who saw or removed it.

    It is made of the settings, the store's tables and records, and the audit log. Purpose and legal basis are for you
    to fill in.
    """
    from tasks.storage.tables import Store
    from tasks.upkeep.processing import write_processing

    settings = settings_of(place, config)
    write_processing(Store.existing(settings.store, any_layout=True), settings, out, datetime.now(UTC))
    print(out)
