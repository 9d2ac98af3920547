"""Gives the core what the products add: written and generated benchmarks, and judges.

Each function first looks whether the store (or the release) has the product's tables, so that a plain run imports none
of them.
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from schemas.run import StageReport
from schemas.settings import Settings
from tasks.storage.queries.signals import Versions
from tasks.storage.tables import Store

if TYPE_CHECKING:  # slow to load, and not all who need this module release something
    from tasks.release.registered import OpenRelease, ReleasePart
    from tasks.report.page import Part


def item_ids(store: Store) -> pl.Series:
    """Conversations that are items of written or generated benchmarks: their prompts are public like drawn ones."""
    return pl.concat(store.read(table, ["item_id"])["item_id"] for table in ("bench_items", "generated_items"))


def hidden_texts(store: Store) -> pl.DataFrame:
    """item_id and text of the captions and references of written benchmarks that no release may hold."""
    if not (store.parts("captions") or store.parts("references")):
        return store.empty("captions", ["item_id", "text"])
    from tasks.written_bench import written_items

    return written_items.hidden_texts(store)


def item_findings(store: Store, conversation_ids: pl.Series) -> pl.DataFrame:
    """Findings on conversations as items of written benchmarks, in the order of the ids (`ITEM_COLUMNS`).

    No columns when the store has no such items.
    """
    if not (store.parts("bench_items") or store.parts("references")):
        return pl.DataFrame()
    from tasks.written_bench import findings

    return findings.item_findings(store, conversation_ids)


def item_images(store: Store, bench: str | None = None) -> dict[str, tuple[str, str, int]]:
    """Image id -> (table, part, row group) of images that kept items show: of one written benchmark, or of all."""
    named = [bench] if bench else sorted(set(store.read("bench_items", ["bench"])["bench"]))
    if not named:
        return {}
    from tasks.written_bench import written_items

    return {image_id: part for name in named for image_id, part in written_items.item_images(store, name).items()}


def validation_texts(store: Store) -> list[str]:
    """The captions and references that a release may hold once they are screened."""
    if not store.parts("captions"):
        return []
    from tasks.written_bench import written_items

    return written_items.validation_texts(store)


def judge_texts(store: Store) -> pl.DataFrame:
    """item_id, question_id, model and text of the answers and verdicts that `judge_cards` names."""
    if not store.parts("judge_cards"):
        return pl.DataFrame(schema=dict.fromkeys(("item_id", "question_id", "model", "text"), pl.String))
    from tasks.judging.released_texts import released_judge_texts

    return released_judge_texts(store)


def left_out_items(store: Store) -> set[str]:
    """Items of generated benchmarks that no release holds, for what audits and people found."""
    if not store.height("generated_items"):
        return set()
    from tasks.generated_bench.items import found_wanting

    return set[str]().union(*found_wanting(store).values())


def rate_judge(settings: Settings, versions: Versions, staging: Path) -> Iterator[StageReport]:
    """Rate what a judge said about the benchmark of a release; nothing without verdicts."""
    store = Store.open(settings.store)
    if any(store.height(table) for table in ("verdicts", "judge_ratings", "judge_agreement", "judge_cards")):
        from tasks.judging.steps import rate_judged

        yield rate_judged(settings, versions, staging)


def rate_items(settings: Settings) -> Iterator[StageReport]:
    """Rate models on written benchmarks and on those made on demand; nothing without verdicts or items."""
    store = Store.open(settings.store)
    if store.height("verdicts") and (store.height("bench_items") or store.height("captions")):
        from tasks.judging.steps import rate_written

        yield rate_written(settings, partial(_choices, store))
    if store.height("generated_items"):
        from tasks.generated_bench.steps import rate_generated

        yield rate_generated(settings)


def _choices(store: Store, bench: str) -> pl.DataFrame:
    """Single choices of people between two answers to a written benchmark, as battles; no rows without any."""
    from tasks.judging.agreement.stored import stored
    from tasks.review.preferences import BATTLES, answer_pairs, preferred
    from tasks.storage.keyed_ids import Pseudonyms, store_key
    from tasks.storage.reviews import reviews_of
    from tasks.written_bench.written_items import items_for_judging

    if reviews_of(store).filter(queue="preferences").is_empty():
        return pl.DataFrame(schema=BATTLES)
    pairs = answer_pairs(items_for_judging(store, bench), stored(store, bench, True), True)
    return preferred(store, pairs, Pseudonyms(store_key(store)))[0]


def judge_stand_ins(store: Store) -> list[str]:
    """Names of the embedded judges whose boards the release has."""
    found: list[str] = []
    if store.height("judge_agreement"):
        from tasks.judging.released_texts import embedded_judge

        found += embedded_judge(store)
    if store.height("written_board"):
        from tasks.judging.boards.written_boards import stand_ins

        found += stand_ins(store.read("written_board"))
    return found


def report_sections(store: Store) -> "Iterator[Part]":
    """The report's sections about the judge, and written and generated benchmarks."""
    if store.height("judge_agreement"):
        from tasks.judging.boards.judge_report import judge_parts

        yield from (part for part in judge_parts(store) if part is not None)
    if store.height("bench_items"):
        from tasks.written_bench.written_report import written_parts

        yield from written_parts(store)
    if store.height("written_board") or store.height("written_metrics"):
        from tasks.judging.boards.judge_report import written_board_parts

        yield from written_board_parts(store)
    if store.height("generated_alignment"):
        from tasks.generated_bench.results.sections import generated_parts

        yield from generated_parts(store)


def parts_of_store(store: Store) -> "list[ReleasePart]":
    """The parts that products add to a release of the store."""
    has = {table for table in ("judge_agreement", "bench_items", "captions", "generated_items") if store.height(table)}
    return _parts(
        judge="judge_agreement" in has, written=bool(has & {"bench_items", "captions"}), made="generated_items" in has
    )


def parts_of_release(release: "OpenRelease") -> "list[ReleasePart]":
    """The parts that products add to a release on disk, by its files, and by what its manifest and its store say."""
    folder, manifest, store = release.folder, release.manifest, release.store
    judged = bool(manifest.judge) or "judge" in manifest.embedded_providers
    hidden = store is not None and any(store.height(table) for table in ("captions", "references"))
    return _parts(
        judge=judged or (folder / "leaderboard" / "judge").exists(),
        written=hidden or any((folder / name).exists() for name in ("written", "leaderboard/written")),
        made=any((folder / name).exists() for name in ("generated", "leaderboard/generated")),
    )


def _parts(judge: bool, written: bool, made: bool) -> "list[ReleasePart]":
    parts: list[ReleasePart] = []
    if judge:
        from tasks.judging.boards.judge_file import JUDGE_BOARD

        parts.append(JUDGE_BOARD)
    if written:
        from tasks.judging.boards.written_boards import WRITTEN_BOARDS
        from tasks.written_bench.written_file import WRITTEN_ITEMS

        parts += [WRITTEN_ITEMS, WRITTEN_BOARDS]
    if made:
        from tasks.generated_bench.generated_file import GENERATED_ITEMS
        from tasks.generated_bench.results.boards import GENERATED_BOARDS

        parts += [GENERATED_ITEMS, GENERATED_BOARDS]
    return parts


def problems_of(folder: Path, store: Store | None = None) -> list[str]:
    """All problems of a release with the parts of products, one line each; empty when it is whole."""
    from tasks.release.verify import verify_release

    return verify_release(folder, parts_of_release, store)
