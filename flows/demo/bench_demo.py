"""`curate bench demo`: a benchmark that people write, with planted faults, raters and models."""

import json
from pathlib import Path
from typing import Annotated

import typer

from flows.commands.options import existing
from schemas.items.review import Draws
from schemas.run import StageReport
from schemas.settings import EvaluateSettings, Settings


def demo(
    out: Annotated[Path, typer.Option("--out", help="Folder for items, images, raters, answers and the store.")] = Path(
        "demo/written"
    ),
    items: Annotated[int, typer.Option("--items", min=1, help="Items to draw.")] = 60,
    seed: Annotated[int, typer.Option(help="Seed of the items.")] = 0,
) -> None:
    """Draw items with planted faults, invented raters and models; take them in, count the caught faults, judge all."""
    from flows.commands.review.command import take_sheets
    from flows.judging.submit import board_in_file, print_board
    from flows.written_bench.command import take_in
    from tasks.demo.items import BENCH, files_of, write_demo_items
    from tasks.review.qualification import read_qualification
    from tasks.written_bench.written_items import items_for_judging

    store = str(out / "store")
    write_demo_items(out, items, seed)
    files, summaries, boards = files_of(out), list[str](), list[str | None]()

    def rated(settings: Settings) -> list[StageReport]:
        right_answers, draws = read_qualification(files["known"]), Draws(store=settings.store, bench=BENCH)
        summaries.append(take_sheets("items", [files["raters"]], draws, "", right_answers)[0])
        return []

    def judged(settings: Settings) -> list[StageReport]:
        reports = _submitted(settings, out)
        boards.append(reports[-1].result)
        return reports

    settings = Settings(store=store, format="bench-items", policy="authored")
    take_in(files["items"], settings, BENCH, out / "images", then=rated, last=judged)
    print(summaries[0])
    planted = {json.loads(line)["item_id"] for line in files["expected"].read_text(encoding="utf-8").splitlines()}
    kept = {item.item_id for item in items_for_judging(existing(store), BENCH)}
    print(f"planted faults: {len(planted - kept)} caught, {len(planted & kept)} missed; {len(kept):,} items kept")
    print_board(board_in_file(store, boards[-1]), as_json=False)


def _submitted(settings: Settings, folder: Path) -> list[StageReport]:
    """Judge the three models as submissions, one after the other; the last report names the board."""
    from flows.judging.evaluate import submit
    from tasks.demo.items import BENCH, INVENTED_MODELS

    reports: list[StageReport] = []
    for model in INVENTED_MODELS:
        submission = str(folder / "answers" / f"{model}.jsonl")
        chosen = EvaluateSettings(submission=submission, submitted_as=model, bench=BENCH, protocol="visit", hidden=True)
        reports += submit(Settings(store=settings.store, evaluate=chosen))
    return reports
