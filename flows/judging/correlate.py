"""`curate correlate`: correlations of boards and benchmarks; and agreement of two boards with other names of models."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flows.commands.options import JsonOption
from flows.commands.tables import note, print_rows
from schemas.errors import BadInput
from tasks.runtime.untrusted import one_line

if TYPE_CHECKING:
    from schemas.rating import Agreement, Rating


NEAR_SHOWN = 5
"""Pairs of like names in a note."""
TablesArgument = Annotated[
    list[Path],
    typer.Argument(help="Tables (.csv, .jsonl, .parquet) with a column model and one column a benchmark; or boards."),
]
ColumnOption = Annotated[
    list[str] | None, typer.Option("--column", help="Only this column; repeatable.", show_default="all with numbers")
]
ScoreRenamesOption = Annotated[
    Path | None, typer.Option("--renames", help="YAML file with `name in a table: the model's name` lines.")
]
SvgOption = Annotated[Path | None, typer.Option("--svg", help="Also write a heat map of Spearman x 100 to this file.")]


def correlate(
    tables: TablesArgument,
    column: ColumnOption = None,
    renames: ScoreRenamesOption = None,
    svg: SvgOption = None,
    as_json: JsonOption = False,
) -> None:
    """Spearman, Kendall and Pearson of every two columns, over the models that both have."""
    from tasks.judging.agreement.correlation import as_matrix, read_scores, score_correlations

    scores, near = read_scores(tables, read_renames(renames) if renames else {}, column or ())
    if svg and svg.suffix != ".svg":
        raise BadInput(f"--svg {str(svg)!r}: the heat map is an SVG; give a name that ends in .svg")
    if near:
        name_pairs = ", ".join(f"{one_line(a, 60)!r} and {one_line(b, 60)!r}" for a, b in near[:NEAR_SHOWN])
        note(f"names that only one table has look alike: {name_pairs}; --renames FILE joins them")
    rows = score_correlations(scores)
    print_rows("correlations", rows, as_json)
    if svg:
        from tasks.export.destination import write_option_file
        from tasks.report.figures import matrix

        names = list(scores)
        write_option_file("--svg", svg, matrix(names, names, 100 * as_matrix(names, rows)).svg)
        note(f"heat map of Spearman (x 100): {svg}")


def agreement_with(board: "Sequence[Rating]", against: Path, renames: Path | None) -> "Agreement":
    """The agreement with the board in `against`, after `renames`; models that only one has are named on stderr."""
    from tasks.leaderboard.agreement import agreement
    from tasks.leaderboard.battle_files import read_board

    names = read_renames(renames) if renames else {}
    renamed = [row.model_copy(update={"model": names.get(row.model, row.model)}) for row in board]
    reference = read_board(against, "overall")
    ours, theirs = {row.model for row in renamed}, {row.model for row in reference}
    if ours != theirs and len(ours & theirs) > 1:
        apart = f"only here: {_names(ours - theirs)}; only in {str(against)!r}: {_names(theirs - ours)}"
        note(f"{apart}; --renames FILE says which are the same")
    return agreement(renamed, reference)


def _names(models: set[str]) -> str:
    return one_line(", ".join(sorted(models))) or "none"


def read_renames(file: Path) -> dict[str, str]:
    """Our model -> its name in the other board."""
    import yaml

    from tasks.runtime.untrusted import read_yaml

    try:
        names = read_yaml(file)
    except OSError:
        raise BadInput(f"--renames {str(file)!r} cannot be read; give a YAML file") from None
    except (yaml.YAMLError, UnicodeDecodeError):
        names = None
    if not isinstance(names, dict) or not all(isinstance(name, str) for pair in names.items() for name in pair):
        raise BadInput(f"--renames {str(file)!r}: write one `our model: its name in the other board` a line")
    return names
