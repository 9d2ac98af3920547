"""`curate judge metrics`: how many majorities of people text metrics and judges reproduce."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flows.commands.agreement.agree import ROUNDS
from flows.commands.options import JsonOption, existing, takes
from flows.commands.tables import note, print_rows
from schemas.errors import BadInput
from schemas.settings import Settings

if TYPE_CHECKING:
    from tasks.judging.agreement.stored import Stored

VotesArgument = Annotated[
    Path,
    typer.Argument(
        help="Single votes (.csv, .jsonl, .parquet): item, model_a, model_b, winner and, with several people, rater."
    ),
]
AnswersOption = Annotated[
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


@takes("store", "evaluate.bench", "providers", "bootstraps", "seed", store="", bootstraps=ROUNDS)
def metrics(
    settings: Settings,
    votes: VotesArgument,
    answers: AnswersOption = None,
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
    said = dict(said_of(compared.rows, inputs, embedder, settings.seed, metric or []))
    found, boards, nothing = every(compared.rows, said, settings.bootstraps, settings.seed)
    if not found:
        raise BadInput("no comparison has the answers of both models; items and models are named as in the votes")
    print_rows("metrics", found, as_json)
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

    found, bench = Stored({}, {}, {}), settings.evaluate.bench or SAMPLED
    if settings.store:
        found = stored(existing(settings.store), bench, not answers)
    if answers:
        found = found._replace(answers={(name, model): text for model, name, text in texts_of_files(answers)})
    if references:
        wanted = {name for names in REFERENCE_COLUMNS.values() for name in names}
        found = found._replace(references=read_references(read_table(references, wanted), repr(str(references))))
    return found
