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
    str, typer.Option("--protocol", help="visionarena (both orders) or wildvision (baseline first, once).")
]
BaselineOption = Annotated[str, typer.Option("--baseline", help="Model that every other one is compared with.")]
BenchReleaseOption = Annotated[
    str | None, typer.Option("--release", help="Release whose benchmark is used.", show_default="the store's benchmark")
]
HiddenOption = Annotated[
    bool, typer.Option("--hidden", help="Use the hidden split; only for models with `own: true` in their file.")
]
PROTOCOLS = ("visionarena", "wildvision")


def answer(
    store: StoreOption,
    models: ModelsOption,
    release: BenchReleaseOption = None,
    hidden: HiddenOption = False,
    budget: BudgetOption = None,
    prices: PricesOption = None,
    batch: BatchOption = False,
    batch_hours: BatchHoursOption = None,
) -> None:
    """Ask models every prompt of the benchmark, with its images. What is answered already is not asked again."""
    from tasks.storage.tables import Store

    if release is not None:
        Store.open(store)  # it may be new, because its logs are not needed
    chosen = {"models": models, "bench_release": release, "hidden": hidden}
    settings = settings_of(
        store=store, budget=budget, prices=prices, batch=batch, batch_hours=batch_hours, evaluate=chosen
    )
    run_stages(settings, ("flows.evaluate", "answer"))


def compare(
    store: StoreOption,
    baseline: BaselineOption,
    judge: JudgeOption = "embedded",
    protocol: ProtocolOption = PROTOCOLS[0],
    models: OfModelsOption = None,
    release: BenchReleaseOption = None,
    hidden: HiddenOption = False,
    budget: BudgetOption = None,
    prices: PricesOption = None,
    batch: BatchOption = False,
    batch_hours: BatchHoursOption = None,
) -> None:
    """Ask a judge which answer is better, each model's or the baseline's. Verdicts that are there are not asked for."""
    chosen = {
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


def known_protocol(name: str) -> str:
    """The protocol's name. Raises BadInput for an unknown one."""
    if name not in PROTOCOLS:
        raise BadInput(f"--protocol {known_values(name, PROTOCOLS)}")
    return name
