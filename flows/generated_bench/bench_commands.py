"""`curate bench generate` and what is done with such a benchmark."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

import flows.commands.options as opt
from flows.commands.export import OutOption, write_new_figures
from flows.commands.listed import Added
from flows.commands.options import existing, takes
from flows.commands.pipeline import run_stages
from flows.commands.tables import note, print_rows
from schemas.errors import BadInput, known_values
from schemas.settings import Settings
from tasks.runtime.untrusted import one_line

if TYPE_CHECKING:
    from tasks.generated_bench.results.examined import Examined

GeneratedNameOption = Annotated[str, typer.Option("--bench", help="Name of the benchmark.")]
CapabilityArgument = Annotated[
    str, typer.Argument(help="basic, spatial, semantic, reasoning or atmospheric, or a YAML file of your own.")
]
GeneratedAnswerVersionOption = Annotated[
    list[str] | None,
    typer.Option("--answer-version", help="Version of a model's answers, where it has several; repeatable."),
]


@takes(
    "store", "generate.name", "policy", "providers", "prompts", "known_hashes", "budget_usd", "prices", "seed",
    "workers", required=["generate.name"], policy="generated",
)  # fmt: skip
def generate(
    settings: Settings,
    capability: CapabilityArgument,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only estimate calls, images and US dollars; send and write nothing.")
    ] = False,
) -> None:
    """Make a benchmark for a capability: images, questions and keys. The same command goes on where it stopped.

    How large it is, and its levels, are settings: `--set generate.general=2`, `generate.levels=easy,hard` and the like.
    """
    from tasks.generated_bench.aspects import check_author, known_levels, load_capability
    from tasks.providers import Providers
    from tasks.storage.tables import Store

    load_capability(capability)
    chosen = {"capability": capability, "levels": known_levels(settings.generate.levels)}
    settings = settings.model_copy(update={"generate": settings.generate.model_copy(update=chosen)})
    check_author(Providers(settings.providers)["author"], settings.generate)
    if dry_run:
        _print_estimate(settings)
        return
    Store.open(settings.store)
    run_stages(settings, ("flows.generated_bench.made_benches", "generate"))


def _print_estimate(settings: Settings) -> None:
    from flows.commands.estimate import print_estimates, tokens_in
    from schemas.policy import GeneratedRule
    from tasks.generated_bench.aspects import levels, load_capability
    from tasks.generated_bench.making import estimate_making
    from tasks.policy.policy_file import load_policy
    from tasks.providers import Providers
    from tasks.runtime.budget import load_prices

    chosen, providers = settings.generate, Providers(settings.providers)
    rule = load_policy(settings.policy).generated or GeneratedRule()
    prices, capability = load_prices(settings.prices), load_capability(chosen.capability)
    estimates = estimate_making(chosen, capability, levels(), rule, providers, prices, tokens_in())
    print_estimates(estimates, settings)
    note("images are screened by the chosen providers, too; that is not counted here")


@takes("store", others=False)
def accuracy(
    settings: Settings,
    bench: Annotated[
        list[str],
        typer.Option("--bench", help="Name of the benchmark; give two of one capability to see both side by side."),
    ],
    slices: Annotated[
        list[str] | None,
        typer.Option("--slice", help="overall, level, aspect or type; repeatable.", show_default="overall and level"),
    ] = None,
    table: Annotated[
        Literal["accuracy", "ranks", "errors", "alignment", "diversity"],
        typer.Option(
            "--table",
            help="accuracy; ranks for a heat map; errors, what wrong answers are errors of; alignment, how scores of "
            "images are distributed; diversity of the first n general and m fine aspects.",
        ),
    ] = "accuracy",
    answer_version: GeneratedAnswerVersionOption = None,
    svg: Annotated[
        Path | None,
        typer.Option("--svg", help="With --table ranks: also write a heat map of ranks to this file, .svg or .pdf."),
    ] = None,
    as_json: opt.JsonOption = False,
) -> None:
    """Accuracy of every model on the items that all of them answered, with intervals and coverage."""
    from tasks.generated_bench.accuracy import accuracy_rows as rows_of
    from tasks.generated_bench.accuracy import levels_that_do_not_fall, rank_table
    from tasks.generated_bench.results.examined import SLICES, marked_bench

    chosen = [*(slices or ("overall", "level"))]
    if unknown := [name for name in chosen if name not in SLICES]:
        raise BadInput(f"--slice {known_values(unknown[0], SLICES)}")
    if svg and (table != "ranks" or svg.suffix not in (".svg", ".pdf")):
        raise BadInput(f"--svg {str(svg)!r}: give --table ranks with it, and a name that ends in .svg or .pdf")
    if len(bench) > 2:
        raise BadInput(f"--bench is given {len(bench)} times; two benchmarks can be side by side")
    if table in ("errors", "alignment", "diversity") and len(bench) == 1:
        _print_of_making(settings.store, bench[0], table, as_json)
        return
    opened = existing(settings.store)
    marked, *other = (marked_bench(opened, name, answer_version or ()) for name in bench)
    if other:
        _print_side_by_side(marked, other[0], chosen, table, as_json)
        return
    rows = rows_of(marked.items, marked.answers, chosen, marked.author)
    if not rows:
        raise BadInput(f"--bench {bench[0]!r}: no model has answered; run `curate judge answer --bench {bench[0]}`")
    if table == "ranks":
        print_rows("ranks", rank_table(rows), as_json, titled=True)
        if svg:
            _write_heat_map(rank_table(rows), svg)
    else:
        print_rows("accuracy", rows, as_json, titled=True)
    notes = levels_that_do_not_fall(rows)
    notes += [f"left out: {reason} {count:,}" for reason, count in marked.dropped.items()]
    for line in [*notes, *_of_makers(marked.embedded)]:
        note(one_line(line))


@takes("store", "providers")
def figures(
    settings: Settings,
    bench: Annotated[
        list[str], typer.Option("--bench", help="Name of the benchmark; repeatable, for benchmarks of one capability.")
    ],
    out: OutOption,
) -> None:
    """Figures of descriptions and questions as SVG and PDF, with tables as CSV: how alike they are, and their words.

    Give a benchmark made with the graph of words and one made without, `--set generate.graph=no`, to compare both.
    """
    from tasks.generated_bench.results.texts import bench_texts, text_parts, unlike
    from tasks.providers import Providers

    texts = bench_texts(existing(settings.store), bench)
    write_new_figures(out, lambda: [*text_parts(texts, Providers(settings.providers)["text_embedding"])])
    embedded = dict.fromkeys(maker for bench_texts in texts for maker in bench_texts.made.embedded)
    for line in [*unlike(texts), *_of_makers([*embedded])]:
        note(one_line(line, 300))


def _print_of_making(store: str, bench: str, table: str, as_json: bool) -> None:
    from tasks.generated_bench.bench_state import read_bench
    from tasks.generated_bench.results.errors import error_rows
    from tasks.generated_bench.results.figures import alignment_rows, diversity_rows
    from tasks.providers import Providers

    opened = existing(store)
    state = read_bench(opened, bench)
    if table == "alignment":
        print_rows(table, alignment_rows(state), as_json, titled=True)
    elif table == "diversity":
        print_rows(table, diversity_rows(state, Providers()["text_embedding"]), as_json, titled=True)
    elif rows := error_rows(opened, bench):
        print_rows(table, rows, as_json, titled=True)
    else:
        raise BadInput(
            f"--bench {bench!r}: nobody has sorted a wrong answer; `curate bench audit --judge FILE` asks a model, and "
            "`curate review out wrong_answers` people"
        )


def _write_heat_map(ranks: list[dict[str, object]], svg: Path) -> None:
    import numpy as np

    from tasks.report.figures import matrix

    slices = [str(row["slice"]) for row in ranks]
    models = [name for name in ranks[0] if name != "slice"]
    values = np.array([[row.get(model) for row in ranks] for model in models], np.float64)  # null becomes NaN
    drawn = matrix(models, slices, values, low_is_dark=True)
    svg.write_bytes(drawn.pdf()[0] if svg.suffix == ".pdf" else drawn.svg.encode())
    note(f"heat map of ranks: {svg}")


def _print_side_by_side(one: "Examined", other: "Examined", slices: list[str], table: str, as_json: bool) -> None:
    from tasks.generated_bench.results.examined import side_by_side

    if table != "accuracy":
        raise BadInput(f"--table {table} is of one benchmark; give one --bench")
    rows, over = side_by_side(one, other, slices)
    print_rows("examiners", rows, as_json, titled=True)
    print_rows("agreement", over, as_json, titled=True)
    notes = [f"{examined.bench} was written by {examined.author}" for examined in (one, other)]
    if one.author == other.author:
        notes.append("both have one author: what differs is chance, or how they were made")
    for line in dict.fromkeys([*notes, *_of_makers(one.embedded), *_of_makers(other.embedded)]):
        note(one_line(line))


@takes(
    "store", "evaluate.generated", "evaluate.models", "evaluate.judge", "prompts", "budget_usd", "prices",
    required=["evaluate.generated"],
)  # fmt: skip
def audit(
    settings: Settings,
    answer_version: GeneratedAnswerVersionOption = None,
    dry_run: opt.PricedDryRunOption = False,
    as_json: opt.JsonOption = False,
) -> None:
    """Ask models again without the image, with the description instead, and with every key at A or at the end.

    With --judge, ask that model what the wrong answers of all models are errors of: comprehension or reasoning.
    `--set evaluate.audit_modes=blind,all_a` asks in some of these ways only.
    """
    from tasks.generated_bench.results.examined import audited_rows, marked_bench
    from tasks.providers.asked_models import EMBEDDED_JUDGE

    chosen = settings.evaluate
    if (chosen.models is None) == (chosen.judge is None) or chosen.judge == EMBEDDED_JUDGE:
        raise BadInput("give --models FILE, whom to ask again, or --judge FILE, a model that sorts wrong answers")
    if dry_run:
        _print_audit_estimate(settings)
        return
    run_stages(settings, ("flows.generated_bench.made_benches", "audit"), as_json)
    if chosen.judge:
        _print_of_making(settings.store, chosen.generated or "", "errors", as_json)
        return
    opened = existing(settings.store)
    marked = marked_bench(opened, chosen.generated or "", answer_version or ())
    rows = audited_rows(opened, marked, answer_version or ())
    print_rows("audit", [row.model_dump(exclude={"bench"}) for row in rows], as_json, titled=True)
    for line in _of_makers(marked.embedded):
        note(one_line(line))


def _print_audit_estimate(settings: Settings) -> None:
    from flows.commands.estimate import print_estimates, tokens_in
    from schemas.benches.generated_results import AuditMode
    from tasks.generated_bench.audit import estimate_audit
    from tasks.generated_bench.results.errors import estimate_sorting
    from tasks.providers.asked_models import to_ask
    from tasks.runtime.budget import load_prices

    chosen, opened = settings.evaluate, existing(settings.store)
    modes = [AuditMode(mode) for mode in chosen.audit_modes]
    prices = load_prices(settings.prices)
    bench, models = chosen.generated or "", to_ask(settings)
    if chosen.judge:
        sorting = [row for model in models for row in estimate_sorting(opened, bench, model, prices, tokens_in())]
        print_estimates(sorting, settings)
        return
    print_estimates(estimate_audit(opened, bench, models, modes, prices, tokens_in()), settings)


def _of_makers(embedded: Sequence[str]) -> list[str]:
    """A note where stand-ins made the benchmark. `embedded`: which makers they were."""
    from tasks.generated_bench.steps import STAND_INS

    return [STAND_INS.format(", ".join(embedded))] if embedded else []


COMMANDS = tuple(Added(command, "bench") for command in (generate, accuracy, figures, audit))
