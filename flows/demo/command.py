"""`curate demo`: a synthetic arena with planted problems, and how many were caught."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from flows.commands.listed import Added
from flows.commands.options import existing
from flows.commands.pipeline import curate_all, print_result
from flows.commands.tables import print_rows
from flows.demo import bench_demo
from schemas.errors import BadInput
from schemas.settings import EvaluateSettings, Settings
from tasks.demo.arena import EXPECTED


def demo(
    out: Annotated[Path, typer.Option("--out", help="Folder for the arena, its store and its release.")] = Path("demo"),
    conversations: Annotated[int, typer.Option(min=0, help="Direct chats to draw.")] = 240,
    battles: Annotated[int, typer.Option(min=0, help="Battles to draw, of two conversations each.")] = 160,
    seed: Annotated[int, typer.Option(help="Seed of the arena.")] = 0,
    check: Annotated[
        bool, typer.Option("--check", help="Only count the planted problems that a store caught and missed.")
    ] = False,
    store: Annotated[
        str | None, typer.Option("--store", help="With --check: a store made from the logs in OUT; by default OUT.")
    ] = None,
) -> None:
    """Draw an arena with planted problems and make a release of it; needs no logs, keys, network or GPU.

    Its invented models answer the benchmark, and the embedded judge, a stand-in, ranks them.
    """
    from tasks.demo.answers import BASELINE
    from tasks.demo.arena import generate_arena

    if check:
        _print_planted(out / EXPECTED, store or str(out))
        return
    if store is not None:
        raise BadInput(
            f"--store {store!r}: a new demo has its store in --out; add --check to count what a store caught"
        )
    if (out / EXPECTED).is_file():
        print(f"{out} already has an arena; curating it again", file=sys.stderr)
    else:
        generate_arena(out, conversations=conversations, battles=battles, seed=seed)
    judged = EvaluateSettings(models=str(out / "answers"), judge="embedded", baseline=BASELINE)
    settings = Settings(logs=str(out / "logs"), store=str(out), evaluate=judged)
    reports = curate_all(settings, ("flows.demo.demo_run", "demo"))
    _print_planted(out / EXPECTED, str(out))
    _print_board(out)
    print_result(settings, reports)


def _print_planted(expected: Path, store: str) -> None:
    """The planted problems that a curated store caught and missed, per kind."""
    from tasks.demo.planted import score_planted

    if not expected.is_file():
        raise BadInput(f"{str(expected)!r} does not exist or is not a file; give the folder of a demo as --out")
    scores = score_planted(expected, existing(store))
    counts = [(score.kind, score.caught, score.missed) for score in scores]
    counts.append(("all kinds", sum(score.caught for score in scores), sum(score.missed for score in scores)))
    print_rows("planted", [dict(zip(("planted", "caught", "missed"), row, strict=True)) for row in counts])
    for score in scores:
        for item in score.missed_ids[:5]:
            print(f"missed {score.kind}: {item}")


def _print_board(out: Path) -> None:
    """The judge's board beside the planted strengths, and how well the two agree."""
    from tasks.demo.answers import board_beside_strengths
    from tasks.storage.tables import Store

    board = board_beside_strengths(out / EXPECTED, Store.existing(str(out)))
    if board is None:
        return
    models, spearman, kendall = board
    columns = ("judged (embedded stand-in)", "score", "planted")
    rows = [(model, score, round(strength)) for model, score, strength in models]
    print_rows("judged", [dict(zip(columns, row, strict=True)) for row in rows])
    print(f"Spearman {spearman:.3f}, Kendall {kendall:.3f} with the planted strengths")


COMMANDS = (Added(demo, "Curate", before="init"), Added(bench_demo.demo, "bench", before="generate"))
