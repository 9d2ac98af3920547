"""Judging as a product of the core: the judge's board of a release, and boards of written benchmarks.

Other modules are imported late, for a plain run needs none.
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from schemas.run import StageReport
from schemas.settings import Settings
from tasks.product import JUDGE_TEXT_SCHEMA, Product
from tasks.storage.queries.signals import Versions
from tasks.storage.tables import Store

if TYPE_CHECKING:
    from schemas.items.review import ReviewerAgreement
    from tasks.release.registered import BoardOf, OpenRelease, ReleasePart, ShownBoard
    from tasks.report.page import Part


def _reviewer_agreements(reviews: pl.DataFrame) -> "list[ReviewerAgreement]":
    from tasks.judging.agreement.experts import reviewer_agreements

    return reviewer_agreements(reviews)


def _judge_texts(store: Store) -> pl.DataFrame:
    """Answers and verdicts that `judge_cards` names."""
    if not store.parts("judge_cards"):
        return pl.DataFrame(schema=JUDGE_TEXT_SCHEMA)
    from tasks.judging.released_texts import released_judge_texts

    return released_judge_texts(store)


def _unscreened_judge_texts(store: Store) -> dict[str, str]:
    from tasks.judging.released_texts import texts_on_bench

    return texts_on_bench(store)


def _ratings(settings: Settings, versions: Versions, staging: Path) -> Iterator[StageReport]:
    """Rate what a judge said about the benchmark of the release, then models on written benchmarks."""
    store = Store.open(settings.store)
    if any(store.height(table) for table in ("verdicts", "judge_ratings", "judge_agreement", "judge_cards")):
        from tasks.judging.steps import rate_judged

        yield rate_judged(settings, versions, staging)
    if store.height("verdicts") and (store.height("bench_items") or store.height("captions")):
        from tasks.judging.agreement.choices import choices_on
        from tasks.judging.steps import rate_written

        yield rate_written(settings, partial(choices_on, store))


def _stand_ins(store: Store) -> Iterator[str]:
    if store.height("judge_agreement"):
        from tasks.judging.released_texts import embedded_judge

        yield from embedded_judge(store)
    if store.height("written_board"):
        from tasks.judging.boards.written_boards import stand_ins

        yield from stand_ins(store.read("written_board"))


def _item_boards(board_of: "BoardOf") -> "Iterator[ShownBoard]":
    from tasks.judging.boards.written_boards import shown_boards

    return shown_boards(board_of)


def _report_sections(store: Store) -> "Iterator[Part]":
    if store.height("judge_agreement"):
        from tasks.judging.boards.judge_report import judge_parts

        yield from (part for part in judge_parts(store) if part is not None)
    if store.height("written_board") or store.height("written_metrics"):
        from tasks.judging.boards.judge_report import written_board_parts

        yield from written_board_parts(store)


def _parts_of_store(store: Store) -> "list[ReleasePart]":
    written = store.height("bench_items") or store.height("captions")
    return _boards(judge=bool(store.height("judge_agreement")), written=bool(written))


def _parts_of_release(release: "OpenRelease") -> "list[ReleasePart]":
    folder, manifest, store = release.folder, release.manifest, release.store
    judged = bool(manifest.judge) or "judge" in manifest.embedded_providers
    hidden = store is not None and any(store.height(table) for table in ("captions", "references"))
    return _boards(
        judge=judged or (folder / "leaderboard" / "judge").exists(),
        written=hidden or any((folder / name).exists() for name in ("written", "leaderboard/written")),
    )


def _boards(judge: bool, written: bool) -> "list[ReleasePart]":
    parts: list[ReleasePart] = []
    if judge:
        from tasks.judging.boards.judge_file import JUDGE_BOARD

        parts.append(JUDGE_BOARD)
    if written:
        from tasks.judging.boards.written_boards import WRITTEN_BOARDS

        parts.append(WRITTEN_BOARDS)
    return parts


JUDGING = Product(
    commands="flows.judging.command",
    kinds="flows.judging.review_kinds",
    estimates="flows.judging.estimates",
    reviewer_agreements=_reviewer_agreements,
    judge_texts=_judge_texts,
    unscreened_judge_texts=_unscreened_judge_texts,
    rating_stages=_ratings,
    stand_ins=_stand_ins,
    item_boards=_item_boards,
    report_sections=_report_sections,
    parts_of_store=_parts_of_store,
    parts_of_release=_parts_of_release,
)
