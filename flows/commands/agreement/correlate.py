"""`curate correlate`: score_correlations of boards and benchmarks."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from flows.commands.options import JsonOption
from flows.commands.tables import print_rows
from schemas.errors import BadInput
from tasks.runtime.untrusted import one_line

NEAR_SHOWN = 5
"""Pairs of like names in a note."""
TablesArgument = Annotated[
    list[Path],
    typer.Argument(help="Tables (.csv, .jsonl, .parquet) with a column model and one column a benchmark; or boards."),
]
ColumnOption = Annotated[
    list[str] | None, typer.Option("--column", help="Only this column; repeatable.", show_default="all with numbers")
]
RenamesOption = Annotated[
    Path | None, typer.Option("--renames", help="YAML file with `name in a table: the model's name` lines.")
]
SvgOption = Annotated[Path | None, typer.Option("--svg", help="Also write a heat map of Spearman x 100 to this file.")]


def correlate(
    tables: TablesArgument,
    column: ColumnOption = None,
    renames: RenamesOption = None,
    svg: SvgOption = None,
    as_json: JsonOption = False,
) -> None:
    """Spearman, Kendall and Pearson of every two columns, over the models that both have."""
    from flows.commands.judge.board_agreement import read_renames
    from tasks.judging.agreement.correlation import as_matrix, read_scores, score_correlations

    scores, near = read_scores(tables, read_renames(renames) if renames else {}, column or ())
    if svg and svg.suffix != ".svg":
        raise BadInput(f"--svg {str(svg)!r}: the heat map is an SVG; give a name that ends in .svg")
    if near:
        told = ", ".join(f"{one_line(a, 60)!r} and {one_line(b, 60)!r}" for a, b in near[:NEAR_SHOWN])
        print(f"curate: names that only one table has look alike: {told}; --renames FILE joins them", file=sys.stderr)
    rows = score_correlations(scores)
    print_rows("correlations", rows, as_json)
    if svg:
        from tasks.report.figures import matrix

        names = list(scores)
        svg.write_text(matrix(names, names, 100 * as_matrix(names, rows)), encoding="utf-8")
        print(f"curate: heat map of Spearman (x 100): {svg}", file=sys.stderr)
