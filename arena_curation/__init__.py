"""Arena Curation from Python and notebooks: what the commands of `curate` give, as polars frames and plain values.

    import arena_curation as arena

    release = arena.open("demo/releases/1.0.0")
    arena.sql(release, "SELECT winner, count(*) AS votes FROM battle GROUP BY 1")
    arena.rate(release)

Each function calls what the command of its name calls, and reads the same settings file (`curate.yaml`); keys of it can
be given as arguments, which win. Errors are the project's own: `CurateError` and, for what cannot be used, `BadInput`;
their text is one line that says what to do. Nothing heavy is imported before a function is called.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any

from schemas.errors import BadInput, CurateError

if TYPE_CHECKING:  # they take seconds to load
    import polars as pl

    from flows.accounts import ItemAccount
    from schemas.release import Manifest
    from schemas.run import StageReport

__all__ = ["BadInput", "CurateError", "Opened", "explain", "inspect", "open", "rate", "run", "sql", "verify"]


@dataclass(frozen=True)
class Opened:
    """A store or a release that can be asked. It holds no file open, and may be given wherever a place may."""

    place: str
    """Folder, or address such as s3://bucket/store."""
    tables: Mapping[str, str]
    """Name of each table and view that `sql` may name -> what one of its rows is."""
    manifest: "Manifest | None"
    """Contents of a release and how it was made; None for a store."""

    def __repr__(self) -> str:
        """The place and what it is, in a line; `tables` has what can be asked."""
        kind = "a store" if self.manifest is None else f"release {self.manifest.version}"
        return f"<{self.place}: {kind} with {len(self.tables)} tables and views>"

    def __fspath__(self) -> str:
        """The place, for functions that take a path."""
        return self.place


def open(place: str | PathLike[str]) -> Opened:
    """A store or a release, from its folder or address; of a release also its manifest.

    Raises BadInput where there is neither, and StoreUnwell (a CurateError) where it cannot be reached.
    """
    from flows.products import asked_tables
    from tasks.release.fetched import fetched, is_store, read_manifest

    name = _name(place)
    with asked_tables(name, False, _no_versions) as asked:
        tables = dict(asked.views())
    if is_store(name):
        return Opened(name, tables, None)
    with fetched(name) as folder:
        return Opened(name, tables, read_manifest(folder))


def sql(place: str | PathLike[str], question: str, *, unmask: bool = False, **settings: Any) -> "pl.DataFrame":
    """The rows of one reading statement (DuckDB's SQL) about a store or a release, all of them in memory.

    Personal data in texts of a store is masked before the question sees them, ids are keyed, and images are left out.
    `unmask` gives them as they are, and the audit log of the store says so; of a release nothing is masked.

    Raises BadInput for a statement that does more than read, for unknown names, and where `place` cannot be asked.
    """
    import polars as pl
    import pyarrow as pa

    from flows.commands.options import measured_versions, settings_in_force
    from flows.products import asked_tables

    chosen = settings_in_force(settings, store="")
    with asked_tables(_name(place), unmask, lambda: measured_versions(chosen)) as asked:
        return pl.DataFrame(pa.Table.from_batches(asked.answer(question)))


def rate(
    battles: "str | PathLike[str] | pl.DataFrame",
    *,
    table: str = "ratings",
    slices: "tuple[str, ...] | list[str]" = (),
    reference: str | None = None,
    named: bool = False,
    **settings: Any,
) -> "pl.DataFrame":
    """A rating table of battles: of a file, a folder of Parquet, a release, a store (its kept battles), or a frame.

    Battles need columns `model_a`, `model_b` and `winner` (model_a, model_b, tie, tie_bothbad), or those of a published
    set. `table` is one of those of `curate rate --table`: `ratings` has a row a model and slice with `rating`,
    `ci95_low` and `ci95_high` in Elo points (400 points are odds of 10 to 1; mean 1000 without `anchor_model` and
    `anchor_rating`), `rank` (1 + the number of models that are clearly better; null without a finite interval),
    `battles` and `flags`. `slices` are such as `language:English`, or `all`; `reference` is the model of win rates;
    `named` adds votes on models whose names were shown. Settings are such as `bootstraps`, `cluster`, `policy`,
    `since` and `until` (days, UTC). What is left out is noted on stderr. Nothing is stored.

    Raises BadInput for an unknown table, slice or setting, and for what holds no battle between two models.
    """
    import polars as pl

    from flows.commands.options import settings_in_force
    from flows.rated_battles import RatingView, rating_tables
    from tasks.release.fetched import is_store
    from tasks.storage.tables import frame_of

    view = RatingView(table, tuple(slices), reference, named)
    place = battles if isinstance(battles, pl.DataFrame) else _name(battles)
    of_store = isinstance(place, str) and is_store(place)
    chosen = settings_in_force(settings, store=place if of_store else "")
    rows = rating_tables(None if of_store else place, chosen, view).rows(table)
    return frame_of(type(rows[0]), rows) if rows else pl.DataFrame()


def inspect(*files: str | PathLike[str], **settings: Any) -> list[dict[str, Any]]:
    """Every signal of image files, and of each `text` in .jsonl files; no store is needed, and nothing is stored.

    Each is `{"item": name, "signals": {signal: {column: value}}}`, as `curate inspect --json` prints it; a signal that
    failed has `{"error": reason}`. `providers={"nsfw": "opennsfw2"}` chooses others than the embedded ones.

    Raises BadInput for a file that does not exist, and MissingProvider (a CurateError) for one without key or package.
    """
    from pathlib import Path

    from flows.commands.options import settings_in_force
    from tasks.providers import Providers
    from tasks.signals.loose_files import inspect_files

    chosen = settings_in_force(settings, store="")
    return list(inspect_files([Path(file) for file in files], Providers(chosen.providers)))


def explain(store: str | PathLike[str], item: str) -> "ItemAccount":
    """Why a conversation, battle, image or user of a store is in or out, by any id of it, or LOGFILE:LINE.

    `sentences` has one to five lines for people, `facts` all that they rest on, as `curate explain --json` prints it.

    Raises BadInput where there is no store, and where it does not have the item.
    """
    from flows.accounts import item_account

    return item_account(_name(store), item)


def verify(release: str | PathLike[str]) -> list[str]:
    """All problems of a release, one line each; empty when it is whole.

    Checked are checksums, columns, counts, images, identifiers, leaks of the benchmark, boards, report and card, as
    `curate verify` does. Raises BadInput where there is no release.
    """
    from flows.products import problems_of
    from tasks.release.fetched import fetched, store_of

    name = _name(release)
    with fetched(name) as folder:
        return problems_of(folder, store_of(name))


def run(**settings: Any) -> "list[StageReport]":
    """Run the whole pipeline, raw logs to a release, as `curate run` does: `run(logs=DIR, store=DIR, …)`.

    Settings are the keys of `curate.yaml`, sections as mappings: `bench={"size": 200}`. Each stage gives a report with
    `stage`, `seconds`, `counts` and `result`; that of the last one names the release, relative to the store.

    Raises BadInput for a setting that cannot be used, StoreBusy while another run writes, and DriftHeld, ProviderHeld
    or LogsHeld (CurateErrors) when the release is held; what was measured stays.
    """
    from flows.commands.options import settings_in_force
    from flows.commands.pipeline import curate_all

    return curate_all(settings_in_force(settings, needed=("logs", "store")))


def _name(place: str | PathLike[str]) -> str:
    """A place as text: a folder, a file or an address."""
    from os import fspath

    return fspath(place)


def _no_versions() -> "dict[str, str]":
    """Versions of signals where no question is asked, so that no provider is loaded."""
    return {}
