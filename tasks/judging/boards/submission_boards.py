"""The board of a written benchmark: Elo, Bradley-Terry, coverage and wins against the reference, kept in dated files.

All items and each family have a board. One judge with two sets of captions, those for the instruction and generic ones,
says whether captions must be written for their instruction (VisIT-Bench sec. 3).
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import numpy as np
import orjson
import polars as pl

from schemas.benches.judging import STAND_IN, CaptionsCompared, SubmissionRating, WrittenRating
from schemas.benches.written import SAMPLED, Split
from schemas.errors import BadInput
from schemas.rating import OVERALL, Rating, RatingMethod
from tasks.judging.boards.judge_board import COVERAGE_MIN
from tasks.judging.released_texts import public_version
from tasks.judging.visit_battles import ITEMS_DRAW, REFERENCE, one_answer_version, visit_battles, visit_verdicts
from tasks.leaderboard.leaderboard import slice_boards
from tasks.leaderboard.records import elo_ratings, expected_score
from tasks.leaderboard.votes import votes
from tasks.storage.tables import Store
from tasks.written_bench.written_items import items_for_judging

_FOLDER = "boards"
"""In the store: a folder for each benchmark, a file for each board."""


def stored_board(
    store: Store, bench: str, judge_version: str | None, method: RatingMethod, shuffled: bool
) -> list[SubmissionRating]:
    """The board now. Raises BadInput without battles, or for several judges or versions of a model's answers."""
    verdicts = one_answer_version(visit_verdicts(store, bench, judge_version))
    # the items that coverage is a share of: hidden ones only where some of them are judged
    judged, items = set(verdicts["question_id"]), items_for_judging(store, bench, not_given=True)
    needs_reference = verdicts["protocol"][0] == "visit-reference"
    hidden = any(item.split is Split.HIDDEN for item in items if item.item_id in judged)
    able = [item for item in items if item.captions and (item.reference or not needs_reference)]
    families = {item.item_id: item.family for item in able if hidden or item.split is not Split.HIDDEN}
    rows = submission_board(verdicts, families, bench, method, shuffled, datetime.now(UTC))
    if not rows:
        raise BadInput(f"no battle on benchmark {bench!r} has verdicts in both orders yet; ask for the rest again")
    return rows


def judged_benches(store: Store) -> dict[str, list[str]]:
    """Written benchmark with verdicts -> its judge versions, the one with most verdicts first, then the newest.

    The embedded judge comes last.
    """
    verdicts = store.read("verdicts", ["draw", "judge", "judge_version"]).with_row_index("place")
    verdicts = verdicts.filter(pl.col("draw").str.starts_with(ITEMS_DRAW))
    counted = verdicts.group_by("draw", "judge", "judge_version").agg(pl.len(), pl.col("place").max())
    order = (pl.col("judge") == STAND_IN, -pl.col("len").cast(pl.Int64), -pl.col("place").cast(pl.Int64))
    benches = {*store.read("bench_items", ["bench"])["bench"], SAMPLED}
    return {
        bench: versions
        for bench in sorted(benches)
        if (versions := counted.filter(draw=f"{ITEMS_DRAW}{bench}").sort(*order)["judge_version"].to_list())
    }


def board_for_release(
    store: Store, bench: str, versions: list[str], judge_version: str | None, method: RatingMethod, shuffled: bool
) -> list[WrittenRating]:
    """The board by one of `judged_benches`: the wanted judge version where it has verdicts, or the first.

    Raises BadInput as `stored_board` does.
    """
    board = stored_board(store, bench, judge_version if judge_version in versions else versions[0], method, shuffled)
    rows = (row.model_dump(exclude={"made_at"}) for row in board)
    return [WrittenRating(**row | {"judge_version": public_version(row["judge_version"])}) for row in rows]


def keep_board(store: Store, board: list[SubmissionRating]) -> str:
    """Write the board beside the earlier ones; returns its path in the store."""
    name = re.sub(r"[^A-Za-z0-9_-]", "_", board[0].bench)
    path = f"{_FOLDER}/{name}/{re.sub('[-:]', '', board[0].made_at)}.jsonl"
    store.write_bytes(path, b"".join(orjson.dumps(row.model_dump(mode="json")) + b"\n" for row in board))
    return path


def submission_board(
    verdicts: pl.DataFrame, families: Mapping[str, str], bench: str, method: RatingMethod, shuffled: bool, now: datetime
) -> list[SubmissionRating]:
    """Best player first in every slice; empty without a battle that has both orders.

    `verdicts`: of one judge version; `families`: item -> its family, of all items that could be judged.
    """
    battles = visit_battles(verdicts)
    battles = battles.with_columns(family=pl.col("question_id").replace_strict(families, default=""))
    if battles.is_empty():
        return []
    about = {name: verdicts[name][0] for name in ("judge", "judge_version", "protocol")}
    about |= {"bench": bench, "made_at": now.strftime("%Y-%m-%dT%H:%M:%SZ")}
    cast = votes(battles, method.cluster and method.cluster.value)
    named = sorted(set(battles["family"]) - {""})
    slices = {OVERALL: np.ones(battles.height, bool)}
    slices |= {f"family:{name}": (battles["family"] == name).to_numpy() for name in named}
    rated = slice_boards(cast, slices, method)
    rows = []
    for name, chosen in slices.items():
        of_slice = [row for row in rated if row.slice == name]
        items = [item for item, family in families.items() if name in (OVERALL, f"family:{family}")]
        part = battles.filter(pl.Series(chosen))
        elo_rows = elo_ratings(cast.only(chosen), method.seed if shuffled else None, method.elo_k)
        elo = {row.model: row.rating for row in elo_rows}
        rows += [_row(row, elo[row.model], part, len(items), of_slice, about) for row in of_slice]
    return rows


def _row(
    rated: Rating, elo: float, battles: pl.DataFrame, items: int, board: list[Rating], about: Mapping[str, Any]
) -> SubmissionRating:
    player_battles = battles.filter((pl.col("model_a") == rated.model) | (pl.col("model_b") == rated.model))
    won = (pl.col("winner") == "model_a") == (pl.col("model_a") == rated.model)
    with_reference = player_battles.filter((pl.col("model_a") == REFERENCE) | (pl.col("model_b") == REFERENCE))
    decisive = with_reference.filter(pl.col("winner") != "tie")
    is_reference = rated.model == REFERENCE
    wins, counted = (0, 0) if is_reference else (decisive.filter(won).height, decisive.height)
    reference = next((row.rating for row in board if row.model == REFERENCE), None)
    coverage = player_battles["question_id"].n_unique() / max(items, 1)
    low = [] if is_reference or coverage >= COVERAGE_MIN else ["low_coverage"]
    return SubmissionRating(
        **rated.model_dump(exclude={"battles", "flags"}), **about, elo=elo, matches=player_battles.height,
        ties=player_battles.filter(winner="tie").height, coverage=coverage, wins_vs_reference=wins,
        decisive_vs_reference=counted, battles_vs_reference=0 if is_reference else with_reference.height,
        win_rate_vs_reference=wins / counted if counted else None,
        expected_vs_reference=None if is_reference or reference is None else expected_score(rated.rating, reference),
        flags=[*rated.flags, *low],
    )  # fmt: skip


_SAME_BATTLE = ["question_id", "model_a", "model_b", "answer_a", "answer_b"]
_WON = {"model_a": 1.0, "tie": 0.5, "model_b": 0.0}


def captions_compared(store: Store, bench: str, judge_version: str | None) -> list[CaptionsCompared]:
    """Every player's share of wins under both sets, by name; the first row is about all battles.

    Only battles that have both orders under both. Raises BadInput without any, and as `visit_verdicts` does.
    """
    verdicts = visit_verdicts(store, bench, judge_version)
    version = verdicts["judge_version"][0]
    sides = verdicts, visit_verdicts(store, bench, version, generic=True)
    battles, generic = (visit_battles(one_answer_version(side)).select(*_SAME_BATTLE, "winner") for side in sides)
    both = battles.join(generic, on=_SAME_BATTLE, suffix="_generic")
    if both.is_empty():
        raise BadInput(
            f"benchmark {bench!r} has no battle that judge {version!r} has decided with both sets of captions; add "
            "`--set evaluate.captions=generic` to `curate judge compare --protocol visit`"
        )
    same = pl.col("winner") == pl.col("winner_generic")
    wins = both.with_columns(
        pl.col("winner", "winner_generic").replace_strict(_WON, return_dtype=pl.Float64), same=same
    )
    turned = wins.select(pl.col("model_b").alias("model"), "same", pl.col("winner", "winner_generic") * -1 + 1)
    player_rows = pl.concat([wins.select(pl.col("model_a").alias("model"), "same", "winner", "winner_generic"), turned])
    shares = pl.len().alias("battles"), pl.col("same").mean(), pl.col("winner", "winner_generic").mean()
    # One row is one player: its battles, and its shares of equal outcomes and of wins with either captions.
    players = player_rows.group_by("model").agg(*shares).sort("model").to_dicts()
    everything = {"model": None, **wins.select(*shares).to_dicts()[0], "winner": None, "winner_generic": None}
    return [
        CaptionsCompared(
            model=row["model"], judge_version=version, battles=row["battles"], same_outcome=row["same"],
            won=row["winner"], won_generic=row["winner_generic"],
        )
        for row in [everything, *players]
    ]  # fmt: skip
