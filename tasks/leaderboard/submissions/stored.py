"""The board of a store's verdicts, and the dated files in which boards are kept."""

import re
from datetime import UTC, datetime

import orjson
import polars as pl

from schemas.errors import BadInput
from schemas.judging import SubmissionRating
from schemas.rating import RatingMethod
from schemas.written import Split
from tasks.leaderboard.submissions.board import submission_board
from tasks.storage.queries.benches.visit_battles import one_version, visit_verdicts
from tasks.storage.queries.benches.written_items import ItemForJudging, items_for_judging
from tasks.storage.tables import Store

FOLDER = "boards"
"""In the store: a folder for each benchmark, a file for each board."""


def stored_board(
    store: Store, bench: str, judge_version: str | None, method: RatingMethod, shuffled: bool
) -> list[SubmissionRating]:
    """The board now. Raises BadInput without battles, or for several judges or versions of a model's answers."""
    verdicts = one_version(visit_verdicts(store, bench, judge_version))
    families = {item.item_id: item.family for item in _could_be_judged(store, bench, verdicts)}
    rows = submission_board(verdicts, families, bench, method, shuffled, datetime.now(UTC))
    if not rows:
        raise BadInput(f"no battle on benchmark {bench!r} has verdicts in both orders yet; ask for the rest again")
    return rows


def _could_be_judged(store: Store, bench: str, verdicts: pl.DataFrame) -> list[ItemForJudging]:
    """The items that coverage is a share of: hidden ones only where some of them are judged."""
    judged, items = set(verdicts["question_id"]), items_for_judging(store, bench)
    needs_reference = verdicts["protocol"][0] == "visit-reference"
    hidden = any(item.split is Split.HIDDEN for item in items if item.item_id in judged)
    able = [item for item in items if item.captions and (item.reference or not needs_reference)]
    return [item for item in able if hidden or item.split is not Split.HIDDEN]


def keep_board(store: Store, board: list[SubmissionRating]) -> str:
    """Write the board beside the earlier ones; returns its path in the store."""
    name = re.sub(r"[^A-Za-z0-9_-]", "_", board[0].bench)
    path = f"{FOLDER}/{name}/{re.sub('[-:]', '', board[0].made_at)}.jsonl"
    store.write_bytes(path, b"".join(orjson.dumps(row.model_dump(mode="json")) + b"\n" for row in board))
    return path
