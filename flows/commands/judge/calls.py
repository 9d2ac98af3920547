"""`curate judge answer` and `curate judge compare`: ask models, and ask a judge about their answers."""

from typing import Annotated

import typer

from flows.commands.options import BatchHoursOption, BatchOption, BudgetOption, PricesOption, StoreOption, settings_of
from flows.commands.pipeline import run_stages
from schemas.errors import BadInput, known_values

ModelsOption = Annotated[
    str,
    typer.Option(
        "--models",
        help="Models file (YAML), or answers made elsewhere: a file (docs/judge_calls.md) or a folder of them.",
    ),
]
OfModelsOption = Annotated[
    str | None,
    typer.Option(
        "--models",
        help="Compare only the models of this models file or of these answer files; the baseline may be missing there.",
        show_default="all",
    ),
]
JudgeOption = Annotated[
    str,
    typer.Option(
        "--judge",
        help="Models file (YAML) with the judge as its only entry, or embedded: a stand-in that needs no network.",
    ),
]
ProtocolOption = Annotated[
    str,
    typer.Option(
        "--protocol",
        help="visionarena (both orders), wildvision (baseline first, once) or visit (captions instead of images, both "
        "orders).",
    ),
]
BaselineOption = Annotated[
    str | None,
    typer.Option(
        "--baseline",
        help="Model that every other one is compared with; under visit also reference.",
        show_default="under visit, every two models",
    ),
]
WithReferenceOption = Annotated[
    bool, typer.Option("--with-reference", help="Under visit: show the judge the verified reference, too.")
]
WrittenBenchOption = Annotated[
    str | None,
    typer.Option("--bench", help="Written benchmark of the store.", show_default="the drawn one"),
]
BenchReleaseOption = Annotated[
    str | None, typer.Option("--release", help="Release whose benchmark is used.", show_default="the store's benchmark")
]
HiddenOption = Annotated[
    bool, typer.Option("--hidden", help="Use the hidden split; only for models with `own: true` in their file.")
]
AnsweredBenchOption = Annotated[
    str | None,
    typer.Option("--bench", help="Written or generated benchmark of the store.", show_default="the drawn one"),
]
PROTOCOLS = ("visionarena", "wildvision", "visit")
VISIT = PROTOCOLS[2]


def answer(
    store: StoreOption,
    models: ModelsOption,
    release: BenchReleaseOption = None,
    hidden: HiddenOption = False,
    bench: AnsweredBenchOption = None,
    budget: BudgetOption = None,
    prices: PricesOption = None,
    batch: BatchOption = False,
    batch_hours: BatchHoursOption = None,
) -> None:
    """Ask models every prompt of the benchmark, with its images. What is answered already is not asked again."""
    from tasks.storage.tables import Store

    if release is not None:
        Store.open(store)  # it may be new, because its logs are not needed
    chosen = {"models": models, "bench_release": release, "hidden": hidden, **bench_named(store, bench, hidden)}
    settings = settings_of(
        store=store, budget=budget, prices=prices, batch=batch, batch_hours=batch_hours, evaluate=chosen
    )
    run_stages(settings, ("flows.evaluate", "answer"))


def compare(
    store: StoreOption,
    baseline: BaselineOption = None,
    judge: JudgeOption = "embedded",
    protocol: ProtocolOption = PROTOCOLS[0],
    with_reference: WithReferenceOption = False,
    bench: WrittenBenchOption = None,
    models: OfModelsOption = None,
    release: BenchReleaseOption = None,
    hidden: HiddenOption = False,
    budget: BudgetOption = None,
    prices: PricesOption = None,
    batch: BatchOption = False,
    batch_hours: BatchHoursOption = None,
) -> None:
    """Ask a judge which answer is better, each model's or the baseline's. Verdicts that are there are not asked for.

    Under --protocol visit the judge sees no image: it reads the captions of `curate bench write`.
    """
    _check_visit(known_protocol(protocol), baseline, with_reference, bench, release)
    chosen = {
        "with_reference": with_reference,
        "bench": bench,
        "models": models,
        "judge": judge,
        "protocol": known_protocol(protocol),
        "baseline": baseline,
        "bench_release": release,
        "hidden": hidden,
    }
    settings = settings_of(
        store=store, budget=budget, prices=prices, batch=batch, batch_hours=batch_hours, evaluate=chosen
    )
    run_stages(settings, ("flows.evaluate", "compare"))


def bench_named(store: str, bench: str | None, hidden: bool) -> dict[str, str | None]:
    """The setting that chooses a benchmark: `bench` for a written one, `generated` for one made on demand."""
    from schemas.written import SAMPLED
    from tasks.storage.tables import Store

    if bench is None:
        return {}
    if bench != SAMPLED and bench not in Store.existing(store).read("bench_items", ["bench"])["bench"]:
        return {"generated": bench}
    if hidden:
        raise BadInput("--hidden: instructions and images of a written benchmark are public; leave the option out")
    return {"bench": bench}


def _check_visit(
    protocol: str, baseline: str | None, with_reference: bool, bench: str | None, release: str | None
) -> None:
    """Raises BadInput for options that do not go with the protocol."""
    if protocol == VISIT:
        if release is not None:
            raise BadInput("--release has no captions; --protocol visit judges items of the store, leave it out")
        return
    if baseline is None:
        raise BadInput(f"--baseline: {protocol} compares with one model; name it, or choose --protocol visit")
    if with_reference or bench is not None:
        option = "--with-reference" if with_reference else "--bench"
        raise BadInput(f"{option} belongs to --protocol visit; choose it, or leave {option} out")


def known_protocol(name: str) -> str:
    """The protocol's name. Raises BadInput for an unknown one."""
    if name not in PROTOCOLS:
        raise BadInput(f"--protocol {known_values(name, PROTOCOLS)}")
    return name
