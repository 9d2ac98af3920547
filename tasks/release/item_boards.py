"""Boards of written and generated items in a release: written as a store rated them, checked, and shown on the card."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import polars as pl

from tasks.release.registered import (
    BOARD_PATHS,
    RELEASED_TABLES,
    BoardOf,
    CardSection,
    OpenRelease,
    ReleasePart,
    ShownBoard,
    Stated,
    Unsealed,
    read_released,
    write_table,
)
from tasks.runtime.untrusted import markdown_text
from tasks.storage.queries.bench import best_first

ITEM_BOARDS_SINCE = 7
"""Releases of an earlier layout have no such boards."""
Rules = Mapping[str, Sequence[tuple[pl.Expr, str]]]
"""Table of a store -> (rows that cannot be, what is wrong with them)."""


def item_boards(
    title: str,
    items: str,
    rules: Rules,
    boards: Callable[[BoardOf], Iterator[ShownBoard]],
    stand_ins: Callable[[pl.DataFrame], Sequence[str]] = lambda _: (),
) -> ReleasePart:
    """The part of some boards. `items`: the released table with their items, each of which names its benchmark.

    `rules` has every table. `stand_ins`: (rows of the first table) -> embedded models that made the board.
    """
    folder = Path(BOARD_PATHS[next(iter(rules))]).parent.as_posix()
    return ReleasePart(
        tuple(BOARD_PATHS[name] for name in rules),
        partial(_write, tuple(rules), items, stand_ins),
        partial(_wrong, rules, items, stand_ins),
        section=CardSection(title, title[3:].lower(), folder, partial(_section, title, boards), ITEM_BOARDS_SINCE),
        boards=boards,
    )


def _benches(folder: Path, items: str) -> set[str]:
    rows = read_released(folder, items)
    return set() if rows is None else {*rows["bench"]}


def _write(
    names: Sequence[str], items: str, stand_ins: Callable[[pl.DataFrame], Sequence[str]], unsealed: Unsealed
) -> Stated:
    """Write the tables, of benchmarks that have a released item."""
    embedded_models, benches = set[str](), _benches(unsealed.folder, items)
    for name in names:
        rows = unsealed.store.read(name).filter(pl.col("bench").is_in(benches))
        if rows.height:
            write_table(unsealed.folder, BOARD_PATHS[name], rows)
            embedded_models |= {*stand_ins(rows)} if name == names[0] else set()
    return Stated(stand_ins=sorted(embedded_models))


def _wrong(
    rules: Rules, items: str, stand_ins: Callable[[pl.DataFrame], Sequence[str]], release: OpenRelease
) -> Iterator[str]:
    """Problems of the tables: unlike their CSV files, impossible values, benchmarks without items, identifiers."""
    from tasks.release.contents import wrong_identifiers  # imported late: the explorer needs no `datasets`
    from tasks.release.core_parts import wrong_board

    for name, of_table in rules.items():
        path = release.folder / f"{BOARD_PATHS[name]}.parquet"
        if not path.is_file():
            continue
        if unlike := list(wrong_board(release.folder, path, RELEASED_TABLES[BOARD_PATHS[name]].csv_digits)):
            yield from unlike
            continue
        rows, named = read_released(release.folder, BOARD_PATHS[name]), path.relative_to(release.folder).as_posix()
        assert rows is not None
        for bench in sorted({*rows["bench"]} - _benches(release.folder, items)):
            yield f"{named}: {bench!r} is a benchmark of no released item"
        for impossible, problem in of_table:
            if count := rows.filter(impossible).height:
                yield f"{named}: {count:,} rows where {problem}"
        texts = pl.concat([pl.Series([], dtype=pl.String), *rows.select(pl.selectors.string()).iter_columns()])
        yield from wrong_identifiers(named, texts.drop_nulls().unique(maintain_order=True))
        for stand_in in stand_ins(rows) if name == next(iter(rules)) else ():
            if stand_in not in release.manifest.embedded_providers:
                yield f"{named}: made by the stand-in {stand_in}, which the manifest does not name"


def _section(title: str, shown_boards: Callable[[BoardOf], Iterator[ShownBoard]], folder: Path, _prompts: int) -> str:
    """The boards as Markdown, with an empty line at the end; empty without the files."""
    boards = list(shown_boards(boards_of_release(folder)))
    return "".join([f"{title}\n\n", *map(_markdown, boards)]) if boards else ""


def boards_of_release(folder: Path) -> BoardOf:
    """Reads the tables of a release. A table that it lacks has no rows."""

    def read(name: str) -> pl.DataFrame:
        rows = read_released(folder, BOARD_PATHS[name])
        return pl.DataFrame() if rows is None else rows

    return read


def _markdown(board: ShownBoard) -> str:
    names = [markdown_text(name) for name in board.rows.columns]
    rules = ["--:" if dtype.is_numeric() else "---" for dtype in board.rows.dtypes]
    rows = [[markdown_text(_cell(value)) for value in row] for row in board.rows.iter_rows()]
    table = "\n".join(f"| {' | '.join(cells)} |" for cells in [names, rules, *rows])
    return f"**{markdown_text(board.title)}.** {markdown_text(board.about, characters_max=2_000)}\n\n{table}\n\n"


def _cell(value: object) -> str:
    return "–" if value is None else f"{value:,}" if isinstance(value, int) else str(value)


def percent_of(share: str, number_column: str) -> pl.Expr:
    """A share with the number that it is of, such as `75 % of 4`; – where it is null."""
    whole = (100 * pl.col(share)).round(0).cast(pl.Int64)
    return pl.format("{} % of {}", whole, pl.col(number_column)).fill_null("–").alias(share)


def ranked(rows: pl.DataFrame, value: str) -> pl.DataFrame:
    """Rows in the order of all boards, with the rank as text and the flags as words."""
    flags = pl.col("flags").list.join(", ").str.replace_all("_", " ")
    return best_first(rows, value).with_columns(pl.col("rank").cast(pl.String).fill_null("–"), flags)


def wide(rows: pl.DataFrame, index: str, columns: str, values: str) -> pl.DataFrame:
    """A table with a row for each value of `index` and a column for each of `columns`, in the order of the rows."""
    return rows.pivot(columns, index=index, values=values, maintain_order=True).with_columns(
        pl.selectors.string().fill_null("–")
    )
