"""The record of processing of a store: what is kept where and how long, who receives it, and who did what with it.

In: the settings, the tables' footers, the records of runs, publications and exports, and the audit log. Out: one page
without any id, text or address. A further place or recipient is a row of `_places` or `_recipients`.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from schemas.row import Held
from schemas.settings import Settings
from schemas.tables import TABLES
from schemas.upkeep import AuditEntry
from tasks.export.destination import exports, write_option_file
from tasks.ingest.scrub import scrubbed_files
from tasks.publish.records import ever_published
from tasks.runtime.untrusted import one_file, one_line
from tasks.storage.records import audit_entries, known_people, record_paths, run_records
from tasks.storage.reviews import journalled
from tasks.storage.tables import Store
from tasks.upkeep.standing import BATCHES, Records, holdings, service_uses

_FOR_EVER = "until it is removed"
_PEOPLE = {Held.USER, Held.LINE, Held.CONVERSATION, Held.CONTENT, Held.IMAGE, Held.IMAGE_NAME}


class _Row(NamedTuple):
    """A row of a table of the page."""

    what: str
    about: str
    amount: str
    kept: str


def write_processing(store: Store, settings: Settings, file: Path, now: datetime) -> None:
    """Write the record of processing as a page, which replaces an earlier one.

    Raises BadInput for a file that cannot be written.
    """
    records = run_records(store)
    page = one_file(
        Path(__file__).with_name("processing.html"),
        {"line": one_line},
        made_at=now,
        places=list(_places(store, settings, records)),
        tables=list(_tables(store)),
        recipients=list(_recipients(store, settings, records)),
        people=list(_people(store)),
        audited=_span(list(audit_entries(store))),
    )
    write_option_file("--out", file, page)


def _places(store: Store, settings: Settings, records: Records) -> Iterator[_Row]:
    """Places with something of people, and how long it is kept there."""
    retention, holds, logs = settings.retention, holdings(store, records), store.read("log_files", ["source", "lines"])
    copies = len(scrubbed_files(store))
    yield _Row(
        "raw logs and uploaded images",
        "conversations, votes, addresses as the server logged them; this software only reads them",
        f"{logs.height:,} files, {logs['lines'].sum():,} lines; {copies:,} copied without addresses",
        "the operators of the server remove them",
    )
    yield _Row(
        "store, tables/",
        "texts and images as they were, what was measured, decisions; people as keyed hashes of their addresses",
        f"{holds.conversations:,} conversations, {holds.battles:,} votes, {holds.images:,} images",
        "until a takedown, or until the store is deleted",
    )
    yield _Row("store, secret/", "the keys of the hashes", "", "as long as the store")
    kept_releases = ["the last of each day for a month, of each month for ever"] if retention.thin_releases else []
    kept_releases += [f"the newest {retention.keep_releases:,}"] if retention.keep_releases else []
    kept_releases += ["those that are or were on the Hub, or in use"] if kept_releases else []
    yield _Row(
        "store, releases/",
        "what the policy keeps, redacted where it says so",
        f"{holds.releases:,} with data",
        " and ".join(kept_releases) or _FOR_EVER,
    )
    yield _Row(
        "store, exports/",
        "rows of releases with the columns of a published dataset",
        f"{len(store.fs.glob(store.at('exports/*'))):,} exports",
        f"as long as their release, or {_FOR_EVER}",
    )
    yield _Row("store, runs/", "counts of runs", f"{len(record_paths(store)):,} records", _days(retention.runs_days))
    yield _Row("store, policies/", "rules and thresholds, nothing of people", "", "as long as the store")
    yield _Row("store, boards/", "ratings of models, nothing of people", "", "as long as the store")
    yield _Row("store, canaries/", "planted probes, nothing of people", "", _days(retention.probes_days))
    yield _Row(
        "store, batches/",
        "hashes of the questions that a paid service was sent together",
        f"{len(store.json_files(BATCHES)):,} records",
        "until a run has the answers, or they have expired",
    )
    yield _Row(
        "store, reviews/",
        "verdicts of people with their names, which wait for their table",
        f"{len(journalled(store)):,} verdicts",
        "until the next run",
    )
    yield _Row("store, takedown/", "how much was taken down, when and why; not what", "", "for ever")
    yield _Row("store, published/ and exported/", "places of copies: see below", "", _FOR_EVER)
    yield _Row("store, audit/", "who did what, as keyed hashes", "", "for ever")
    takedowns = store.height("takedowns")
    yield _Row("store, table takedowns", "keyed hashes of what must not come back", f"{takedowns:,}", "for ever")
    yield _Row("history of Prefect", "parameters and log lines of runs", "", _days(retention.prefect_days))
    yield _Row("log of the worker", "the same log lines", "", "what keeps it decides: journald or Docker")


def _days(days: int | None) -> str:
    return _FOR_EVER if days is None else f"{days:,} days"


def _tables(store: Store) -> Iterator[_Row]:
    """Tables with rows about people, their images or texts."""
    for name, table in TABLES.items():
        kinds = {kind.value for kind in {*table.holds.values(), *table.mentions.values()} & _PEOPLE}
        if kinds and (rows := store.height(name)):
            about = (table.row.__doc__ or "").partition("\n")[0]
            yield _Row(name, about, f"{rows:,}", ", ".join(sorted(kinds)))


def _recipients(store: Store, settings: Settings, records: Records) -> Iterator[_Row]:
    """Services that were asked, publications, exports and backups."""
    for service, use in sorted(service_uses(records).items()):
        requests = f"{use.calls:,} requests"
        yield _Row(f"service {service}", "texts or images that it was asked about", requests, "see its terms")
    for capability, provider in sorted(settings.providers.items()):
        if provider != "embedded":
            yield _Row(f"provider {provider}", f"chosen for {capability}", "", "see its terms, if it is a service")
    for row in ever_published(store):
        reach = "everybody" if row.public else "those whom the repository lets in"
        until = f"taken back on {_day(row.yanked_at)}" if row.yanked_at else "until a yank"
        yield _Row(f"Hub, {row.repo}", f"version {row.version}, for {reach}", _day(row.published_at), until)
    for export in exports(store):
        version = f" of version {export.version}" if export.version else ""
        yield _Row(f"{export.kind.value}{version}", "a copy outside of the store", _day(export.exported_at), _FOR_EVER)


def _day(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d}"


def _people(store: Store) -> Iterator[_Row]:
    """Person and action, by the audit log: how often, how much, and when."""
    names = known_people(store)
    by_person = defaultdict[tuple[str, str], list[AuditEntry]](list)
    for entry in audit_entries(store):
        by_person[names.get(entry.who, entry.who or "unknown"), entry.what.value].append(entry)
    for (person, what), entries in sorted(by_person.items()):
        amounts = defaultdict[str, int](int)
        for entry in entries:
            for name, count in entry.counts.items():
                amounts[name] += count
        amounts_in_words = ", ".join(f"{name} {count:,}" for name, count in sorted(amounts.items()))
        yield _Row(
            person,
            what.replace("_", " "),
            f"{len(entries):,} times: {amounts_in_words}" if amounts_in_words else "",
            _span(entries),
        )


def _span(entries: Sequence[AuditEntry]) -> str:
    """First and last day of some entries; empty without any."""
    days = [_day(entry.at) for entry in entries]
    return "" if not days else days[0] if days[0] == days[-1] else f"{days[0]} to {days[-1]}"
