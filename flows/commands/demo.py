"""`curate demo` and `curate planted`: a synthetic arena with planted problems, and how many were caught."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from flows.commands.options import StoreOption, settings_of
from flows.commands.pipeline import curate_all, print_result
from schemas.errors import BadInput
from schemas.run import PlantedScore

EXPECTED = "expected.jsonl"


def demo(
    out: Annotated[Path, typer.Option("--out", help="Folder for the arena, its store and its release.")] = Path("demo"),
    conversations: Annotated[int, typer.Option(min=0, help="Direct chats to draw.")] = 600,
    battles: Annotated[int, typer.Option(min=0, help="Battles to draw, of two conversations each.")] = 400,
    seed: Annotated[int, typer.Option(help="Seed of the arena.")] = 0,
) -> None:
    """Generate an arena with planted problems and curate it; needs no logs, keys, network or GPU.

    Its invented models answer the benchmark, and the embedded judge, a stand-in, ranks them.
    """
    from tasks.demo.answers import BASELINE
    from tasks.demo.arena import generate_arena

    if (out / EXPECTED).is_file():
        print(f"{out} already has an arena; curating it again", file=sys.stderr)
    else:
        generate_arena(out, conversations=conversations, battles=battles, seed=seed)
    judged = {"models": str(out / "answers"), "judge": "embedded", "baseline": BASELINE}
    settings = settings_of(logs=str(out / "logs"), store=str(out), evaluate=judged)
    reports = curate_all(settings, ("flows.demo", "demo"))
    planted(out / EXPECTED, str(out))
    _print_board(out)
    print_result(settings, reports)


def planted(
    expected: Annotated[Path, typer.Argument(help="List of planted problems (expected.jsonl).")],
    store: StoreOption,
) -> None:
    """Count the planted problems that a curated store caught and missed, per kind."""
    from tasks.demo.planted import score_planted
    from tasks.storage.tables import Store

    if not expected.is_file():
        raise BadInput(f"{str(expected)!r} does not exist or is not a file")
    _print_scores(score_planted(expected, Store.existing(store)))


def _print_board(out: Path) -> None:
    """The judge's board beside the planted strengths, and how well the two agree."""
    from tasks.demo.answers import board_beside_strengths
    from tasks.storage.tables import Store

    found = board_beside_strengths(out / EXPECTED, Store.existing(str(out)))
    if found is None:
        return
    print(f"{'judged (embedded stand-in)':<28}{'score':>8}{'planted':>8}")
    for model, score, strength in found.models:
        print(f"  {model:<26}{score:>8.1f}{strength:>8.0f}")
    print(f"  Spearman {found.spearman:.3f}, Kendall {found.kendall:.3f} with the planted strengths")


def _print_scores(scores: Sequence[PlantedScore]) -> None:
    print(f"{'planted':<28}{'caught':>8}{'missed':>8}")
    for score in scores:
        print(f"  {score.kind:<26}{score.caught:>8}{score.missed:>8}")
        for item in score.missed_ids[:5]:
            print(f"      missed {item}")
    print(f"  {'all kinds':<26}{sum(s.caught for s in scores):>8}{sum(s.missed for s in scores):>8}")
