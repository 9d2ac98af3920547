"""`curate sql`: questions in SQL to the tables of a store or a release, one on the command line or many at a prompt."""

import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flows.commands.options import JsonOption, measured_versions, takes
from flows.commands.tables import note, print_cells, print_rows
from schemas.errors import BadInput, CurateError
from schemas.settings import Settings
from tasks.runtime.untrusted import json_text, one_line

if TYPE_CHECKING:
    import pyarrow as pa

    from tasks.explore.asked_place import AskedPlace

_ROWS_SHOWN = 40
"""Rows of an answer on a terminal; a file has all."""
_COLUMNS_BESIDE = 12
"""Most columns of a table; an answer with more is one column a line."""
_CELL_CHARACTERS = 80
_LISTED, _DESCRIBED, _ENDED = {".tables", r"\d"}, (".schema ", r"\d "), {".quit", ".exit", r"\q", "quit", "exit"}
_HELP = r"a question ends in a semicolon; .tables lists what can be asked, \d NAME its columns; .quit or Ctrl-D ends"


@takes("providers", store="")
def sql(
    settings: Settings,
    place: Annotated[
        str, typer.Argument(metavar="STORE|RELEASE", help="Folder of a store or a release, or its s3://… address.")
    ],
    question: Annotated[
        str | None, typer.Argument(metavar="SQL", help="One question; without it, a prompt. It can only read.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="New .csv, .json, .jsonl or .parquet file for all rows."),
    ] = None,
    unmask: Annotated[
        bool, typer.Option("--unmask", help="Texts, ids and images of a store as they are; the audit log says who did.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Ask the tables of a store, or the files of a release, in SQL (DuckDB's).

    Found personal data in texts of a store is masked before the question sees them. docs/sql.md has ten questions.
    """
    from tasks.explore.answer_files import check_answer_file
    from tasks.explore.asked_place import asked_place

    if out is not None and question is None:
        raise BadInput(f"--out {str(out)!r}: give the question, too; a prompt prints its answers")
    if out is not None and as_json:
        raise BadInput(
            f"--out {str(out)!r} and --json: give one of them; a name in .json or .jsonl gives a file of JSON"
        )
    if out is not None:
        check_answer_file(out)
    with asked_place(place, unmask, lambda: measured_versions(settings)) as opened:
        if question is None:
            _prompt(opened, as_json)
        elif out is None:
            _print_answer(opened.answer(question), as_json)
        else:
            _write(opened, question, out)


def _write(opened: "AskedPlace", question: str, out: Path) -> None:
    from schemas.publication import ExportKind
    from tasks.explore.answer_files import write_answer
    from tasks.export.destination import record_export

    batches = opened.answer(question)
    record_export(opened.store, str(out), ExportKind.ANSWER, opened.version, True, datetime.now(UTC))
    rows = write_answer(batches, out)
    print(f"{out}: {rows:,} rows")


def _prompt(opened: "AskedPlace", as_json: bool) -> None:
    """Answer questions until the input ends. What was typed is kept in memory only."""
    if sys.stdin.isatty():
        import readline  # noqa: F401 - lines can be edited and recalled

        note(_HELP)
    for question in _typed():
        try:
            if question in _LISTED:
                print_rows("tables", [{"name": name, "a row is": about} for name, about in opened.views().items()])
            elif question.startswith(_DESCRIBED):
                columns = opened.columns(question.partition(" ")[2].strip().strip('";'))
                print_rows("columns", [column._asdict() for column in columns])
            else:
                _print_answer(opened.answer(question), as_json)
        except CurateError as error:
            note(str(error))
        except KeyboardInterrupt:
            note("stopped")


def _typed() -> Iterator[str]:
    """Commands, which are one line, and questions, which end in a semicolon or with the input."""
    lines = list[str]()
    while True:
        try:
            line = input(("   ...> " if lines else "curate> ") if sys.stdin.isatty() else "")
        except EOFError:
            break
        except KeyboardInterrupt:
            lines = []
            print()
            continue
        if not lines and line.strip().rstrip(";") in _ENDED:
            return
        if not lines and line.strip().startswith((".", "\\")):
            yield line.strip()
            continue
        lines += [line] if lines or line.strip() else []
        if line.rstrip().endswith(";"):
            yield "\n".join(lines)
            lines = []
    if lines:
        yield "\n".join(lines)


def _print_answer(batches: "Iterator[pa.RecordBatch]", as_json: bool) -> None:
    """Print an answer: all rows as JSON, or the first as a table, with how many there are."""
    from tasks.explore.answer_files import as_json as plain
    from tasks.explore.answer_files import rows_of

    names, first_rows, rows = list[str](), list[dict[str, Any]](), 0
    for batch in batches:
        if as_json:
            for row in rows_of(batch):
                print(json_text(plain(row)))
            continue
        names = batch.schema.names
        missing = max(0, _ROWS_SHOWN - len(first_rows))
        first_rows += rows_of(batch.slice(0, missing))
        rows += batch.num_rows
    if as_json:
        return
    if len(names) > _COLUMNS_BESIDE:
        for number, row in enumerate(first_rows, 1):
            fields = [[one_line(name), _cell(row[name])] for name in names]
            print_cells([f"row {number}", ""], fields)
    elif first_rows:
        is_number = {name: all(isinstance(row[name], int | float | None) for row in first_rows) for name in names}
        print_cells(
            names, [[_cell(row[name]) for name in names] for row in first_rows], [is_number[name] for name in names]
        )
    if not first_rows:
        print(f"no rows ({', '.join(one_line(name) for name in names)})")
    elif rows > len(first_rows):
        note(f"the first {len(first_rows)} of {rows:,} rows; --out FILE writes all")


def _cell(value: Any) -> str:
    """A value in a bounded width, without characters that steer a terminal."""
    from tasks.explore.answer_files import as_json as plain

    if value is None:
        return "-"
    if isinstance(value, bytes):
        return f"<{len(value):,} bytes>"
    if isinstance(value, float):
        return f"{value:.6g}"
    text = json_text(_without_bytes(value)) if isinstance(value, list | dict) else str(plain(value))
    return one_line(text, _CELL_CHARACTERS)


def _without_bytes(value: Any) -> Any:
    from tasks.explore.answer_files import as_json as plain

    if isinstance(value, dict):
        return {name: _without_bytes(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_without_bytes(inner) for inner in value]
    return f"<{len(value):,} bytes>" if isinstance(value, bytes) else plain(value)
