"""`curate judge agree`, `votes` and `metrics`: how far labels, judges and text metrics agree with people."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flows.commands.options import AGREEMENT_BOOTSTRAPS, JsonOption, existing, takes
from flows.commands.pipeline import PAID, run_stages
from flows.commands.tables import note, print_rows
from flows.judging.calls import DEFAULT_JUDGE
from schemas.benches.agreement import Agreed, AgreedByRaters, LabelAgreement, RaterAgreement
from schemas.errors import BadInput
from schemas.settings import Settings
from tasks.runtime.untrusted import one_line

if TYPE_CHECKING:
    from tasks.judging.agreement.stored import Stored

LabelFilesArgument = Annotated[
    list[Path],
    typer.Argument(
        help="Labels (.csv, .jsonl, .parquet) with columns item, label and, with several people an item, rater; or "
        "battle tables, whose labels are the votes. The first file is what the others are held to."
    ),
]


@takes("bootstraps", "seed", store="", bootstraps=AGREEMENT_BOOTSTRAPS)
def agree(settings: Settings, files: LabelFilesArgument, as_json: JsonOption = False) -> None:
    """Agreement of labels on the same items: confusion, accuracy, F1, kappa, alpha, Pearson, each with its interval.

    With one file, the agreement of its raters.
    """
    from tasks.judging.agreement.agree import label_agreement, rater_agreement
    from tasks.judging.agreement.label_files import read_labels

    if twice := next((file for file in files if files.count(file) > 1), None):
        raise BadInput(f"{str(twice)!r} is given twice; give files of different people or judges")
    stems = [file.stem for file in files]
    read = [read_labels(file, file.stem if stems.count(file.stem) == 1 else str(file)) for file in files]
    rounds, seed = settings.bootstraps, settings.seed
    if len(read) == 1:
        print_raters([rater_agreement(read[0], rounds, seed)], as_json)
    else:
        print_agreement([label_agreement(read[0], labels, rounds, seed) for labels in read[1:]], as_json)


@takes(
    "store", "evaluate.sample", "evaluate.judge", "prompts", *PAID, "providers", "bootstraps", "seed",
    bootstraps=AGREEMENT_BOOTSTRAPS, **DEFAULT_JUDGE,
)  # fmt: skip
def votes(settings: Settings, as_json: JsonOption = False) -> None:
    """Ask a judge for left, right, tie, both bad or NA on battles; print how every judge agrees with people.

    Without --sample nothing is asked; a larger one adds to a smaller one.
    """
    from tasks.judging.agreement.experts import judges_against_people

    if settings.evaluate.sample is not None:
        run_stages(settings, ("flows.judging.evaluate", "vote"), as_json)
    agreements = judges_against_people(existing(settings.store), settings.bootstraps, settings.seed)
    print_agreement(agreements, as_json)


_FIGURES = {"accuracy": "accuracy (f1_micro)"} | {
    name: name for name in ("f1_macro", "f1_weighted", "kappa", "alpha", "pearson")
}
"""Figure -> its heading."""
_CONFUSIONS_MAX = 12
"""Most labels of a confusion that is printed, with names that differ in their beginnings; JSON always has it."""
_NAME_CHARACTERS = 40
_WIDTH = 190
"""Columns where the output is no terminal."""


def print_agreement(agreements: Sequence[LabelAgreement], as_json: bool) -> None:
    """All comparisons side by side, form by form; then confusions, and agreement within files."""
    if as_json:
        print_rows("agreement", agreements, as_json)
        return
    print_rows("agreement", [figures for row in agreements for figures in _figures(row)], width=_WIDTH)
    for row in agreements:
        left_out = {
            f"items only in {row.a}": row.only_a,
            f"items only in {row.b}": row.only_b,
            f"rows of {row.a} without a verdict": row.no_verdict_a,
            f"rows of {row.b} without a verdict": row.no_verdict_b,
        }
        if counts := ", ".join(f"{count:,} {what}" for what, count in left_out.items() if count):
            note(f"left out: {one_line(counts)}")
        if 0 < len(row.labels) == len({*map(_name, row.labels)}) <= _CONFUSIONS_MAX:
            print_rows("confusion", list(_confusion(row)), width=_WIDTH)
    print_raters(list({agreement.file: agreement for row in agreements for agreement in row.raters}.values()), False)


def print_raters(agreements: Sequence[RaterAgreement], as_json: bool) -> None:
    """Agreement of the raters of each file, form by form."""
    if as_json or not agreements:
        print_rows("raters", agreements, True)
        return
    print_rows("raters", [figures for row in agreements for figures in _rater_figures(row)], width=_WIDTH)


def _figures(row: LabelAgreement) -> Iterator[dict[str, Any]]:
    names = {"a": _name(row.a), "b": _name(row.b)}
    for form in (row, *row.forms):
        figures = {heading: _with_interval(form, name) for name, heading in _FIGURES.items()}
        yield {**names, "form": form.form.value, "items": form.items, "pairs": form.pairs, **figures}


def _rater_figures(row: RaterAgreement) -> Iterator[dict[str, Any]]:
    for form in (row, *row.forms):
        counts = {"items": form.items, "raters": form.raters or None, "pairs": form.pairs, "agreeing": form.agreeing}
        figures = {name: _with_interval(form, name) for name in ("agreement", "alpha")}
        yield {"raters of": _name(row.file), "form": form.form.value, **counts, **figures}


def _confusion(row: LabelAgreement) -> Iterator[dict[str, Any]]:
    corner = f"{_name(row.a)} \\ {_name(row.b)}"
    for label, counts in zip(row.labels, row.confusion, strict=True):
        yield {corner: _name(label)} | {_name(other): count for other, count in zip(row.labels, counts, strict=True)}


def _with_interval(row: Agreed | AgreedByRaters, name: str) -> str | None:
    value, low, high = (getattr(row, f"{name}{end}") for end in ("", "_ci95_low", "_ci95_high"))
    return None if value is None else f"{value:.3f}" + ("" if low is None else f" ({low:.2f} to {high:.2f})")


def _name(text: str) -> str:
    return one_line(text, _NAME_CHARACTERS)


VotesArgument = Annotated[
    Path,
    typer.Argument(
        help="Single votes (.csv, .jsonl, .parquet): item, model_a, model_b, winner and, with several people, rater."
    ),
]
LabelledAnswersOption = Annotated[
    list[Path] | None,
    typer.Option("--answers", help="Answer files or folders in place of the store's answers; repeatable."),
]
ReferencesOption = Annotated[
    Path | None, typer.Option("--references", help="Table with columns item and reference, in place of the store's.")
]
VotesOption = Annotated[int, typer.Option("--votes", min=1, help="Only comparisons with so many votes, ties left out.")]
MetricOption = Annotated[
    list[str] | None, typer.Option("--metric", help="Only this metric; repeatable.", show_default="all, and all judges")
]


@takes("store", "evaluate.bench", "providers", "bootstraps", "seed", store="", bootstraps=AGREEMENT_BOOTSTRAPS)
def metrics(
    settings: Settings,
    votes: VotesArgument,
    answers: LabelledAnswersOption = None,
    references: ReferencesOption = None,
    five: VotesOption = 5,
    metric: MetricOption = None,
    as_json: JsonOption = False,
) -> None:
    """Hold text metrics and judges against comparisons that several people voted on, by how far they agreed.

    Answers, references and verdicts are those of --store on --bench, or those of files.
    """
    from tasks.judging.agreement.reproduced import every, read_comparisons
    from tasks.judging.agreement.stored import said_of
    from tasks.providers import Providers

    if not settings.store and not answers:
        raise BadInput("give --store DIR, or --answers FILE with the compared answers")
    compared, inputs = read_comparisons(votes, five), _inputs(settings, answers or [], references)
    embedder = Providers(settings.providers)["text_embedding"]
    winners_of_metric = dict(said_of(compared.rows, inputs, embedder, settings.seed, metric or []))
    metric_rows, boards, nothing = every(compared.rows, winners_of_metric, settings.bootstraps, settings.seed)
    if not metric_rows:
        raise BadInput("no comparison has the answers of both models; items and models are named as in the votes")
    print_rows("metrics", metric_rows, as_json)
    print_rows("boards", boards, as_json)
    if compared.left_out:
        note(f"{compared.left_out:,} comparisons have another number of votes; left out")
    if nothing:
        note(f"without a reference, or without a verdict: {', '.join(nothing)}")


def _inputs(settings: Settings, answers: list[Path], references: Path | None) -> "Stored":
    from schemas.benches.written import SAMPLED
    from tasks.judging.agreement.stored import REFERENCE_COLUMNS, Stored, read_references, stored
    from tasks.judging.files.answer_files import texts_of_files
    from tasks.leaderboard.battle_files import read_table

    inputs, bench = Stored({}, {}, {}), settings.evaluate.bench or SAMPLED
    if settings.store:
        inputs = stored(existing(settings.store), bench, not answers)
    if answers:
        inputs = inputs._replace(answers={(name, model): text for model, name, text in texts_of_files(answers)})
    if references:
        columns = {name for names in REFERENCE_COLUMNS.values() for name in names}
        inputs = inputs._replace(references=read_references(read_table(references, columns), repr(str(references))))
    return inputs
