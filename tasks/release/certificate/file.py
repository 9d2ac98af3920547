"""The certificate among the files of a release: written, checked, and told in the card."""

import json
import math
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import polars as pl
from pydantic import ValidationError

from schemas.benches.certificate import Certificate, DroppedVotes, OffTheBoard
from schemas.errors import BadInput, why_refused
from tasks.release.checks.boards import RANKS_SINCE, released_tables, tables_of
from tasks.release.contents import READ_ERRORS
from tasks.release.registered import CardSection, OpenRelease, ReleasePart, Stated, Unsealed
from tasks.runtime.times import IS_DATED
from tasks.runtime.untrusted import markdown_text, one_file, one_line
from tasks.storage.queries.released import battles_as_released
from tasks.storage.tables import Store

CERTIFICATE, PAGE = "leaderboard/certificate.json", "leaderboard/certificate.html"
_TEMPLATE = Path(__file__).with_name("page.html")
_TOLERANCE = 1e-3
"""Machines add up in different order."""
CERTIFICATE_TITLE = "## How far the leaderboard can be trusted"
_OF_INTERVALS = {"apart", "filters", "lives", "best_of"}
"""Numbers that rest on ranks and intervals, which releases of before `RANKS_SINCE` have by another rule."""
_SHOWN = 5
"""Models and providers that the card names; the page has all."""


def _write(unsealed: Unsealed) -> Stated:
    from tasks.release.certificate.numbers import certificate_of, rounded  # imported late: the explorer needs no scipy

    files = sorted((unsealed.folder / "battle").rglob("*.parquet"))
    if not unsealed.counts["battle"]:
        return Stated()
    # a row is one released battle; below, both sides are one column, whose names are the models on the board
    released = pl.concat(pl.read_parquet(path, columns=["model_a", "model_b"]) for path in files)
    gone = _off_the_board(unsealed.store, pl.concat([*released]).unique())
    votes = tables_of(unsealed.folder, unsealed.settings, unsealed.policy).whole
    certificate = certificate_of(unsealed.folder, votes, gone, _dropped(unsealed.store))
    if certificate is not None:
        values = rounded(certificate.model_dump(mode="json"))
        text = json.dumps(values, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
        (unsealed.folder / CERTIFICATE).write_text(text, encoding="utf-8")
        (unsealed.folder / PAGE).write_text(_page(Certificate.model_validate(values)), encoding="utf-8")
    return Stated()


def _off_the_board(store: Store, released_models: pl.Series) -> list[OffTheBoard]:
    """Models of anonymous battles in the store that are not `released_models`: no released vote is on them."""
    battles = battles_as_released(store).filter("anonymous", IS_DATED)
    # a row is one side of an anonymous battle; below, one model that is on no released side
    sides = pl.concat(battles.select(pl.col(side).alias("model"), "tstamp") for side in ("model_a", "model_b"))
    day = pl.col("tstamp").dt.date()
    gone = sides.filter(~pl.col("model").is_in(released_models.implode())).group_by("model")
    models = gone.agg(battles=pl.len(), first_day=day.min(), last_day=day.max()).sort("model")
    return [OffTheBoard(**row) for row in models.iter_rows(named=True)]


def _dropped(store: Store) -> list[DroppedVotes]:
    """Votes of the store that the policy drops, by reason, most first."""
    votes = store.read("decisions", ["item_kind", "keep", "reasons"]).filter(~pl.col("keep"), item_kind="battle")
    # A row is a reason and the votes that it drops; a vote counts once for each of its reasons.
    counted = votes.select(reason=pl.col("reasons").list.unique()).explode("reason").group_by("reason").len("votes")
    reasons = counted.with_columns(pl.col("votes").cast(pl.Int64)).sort("votes", "reason", descending=[True, False])
    return [DroppedVotes(**row) for row in reasons.iter_rows(named=True)]


def _page(certificate: Certificate) -> str:
    """The page, which holds no more than the JSON file."""
    return one_file(_TEMPLATE, {"cell": _cell, "line": one_line}, told=certificate) + "\n"


def _cell(value: object) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.3f}" if abs(value) < 1 else f"{value:,.1f}"
    if isinstance(value, date):
        return value.isoformat()
    return f"{value:,}" if isinstance(value, int) else one_line(str(value))


def _wrong(release: OpenRelease) -> Iterator[str]:
    """Problems: a certificate that is missing, says other numbers than the battles give, or has another page."""
    from tasks.release.certificate.numbers import certificate_of, rounded

    folder, manifest = release.folder, release.manifest
    try:
        certificate = Certificate.model_validate_json((folder / CERTIFICATE).read_bytes())
    except FileNotFoundError:
        certificate = None
    except ValidationError as error:
        yield f"{CERTIFICATE}: cannot be read ({why_refused(error)})"
        return
    if certificate is None and manifest.layout < CERTIFICATE_SINCE:
        return
    try:
        on_record = (certificate.off_the_board, certificate.dropped) if certificate else ([], [])
        votes = released_tables(release)
        right = certificate_of(folder, votes.whole, *on_record) if votes else None
    except READ_ERRORS:
        return  # the part of the file says so
    except (BadInput, ValidationError) as error:
        yield f"{CERTIFICATE}: the votes of battle cannot be rated as the manifest says ({why_refused(error)})"
        return
    if certificate is None or right is None:
        if (certificate is None) != (right is None):
            yield f"{CERTIFICATE}: {'missing' if certificate is None else 'there, and the release has no votes'}"
        return
    changed = _OF_INTERVALS if manifest.layout < RANKS_SINCE else set()
    yield from _unlike(certificate.model_dump(mode="json"), rounded(right.model_dump(mode="json", exclude=changed)))
    # a name is a model on both lists, which exclude each other
    on_board = {row.model for row in certificate.lives} & {row.model for row in certificate.off_the_board}
    yield from (f"{CERTIFICATE}: {name!r} is on the board and off it" for name in sorted(on_board))
    if not (folder / PAGE).is_file() or (folder / PAGE).read_text(encoding="utf-8") != _page(certificate):
        yield f"{PAGE}: not the page of {Path(CERTIFICATE).name}"


def _unlike(stated: dict[str, Any], right: dict[str, Any]) -> Iterator[str]:
    for name, value in right.items():
        if not _same(stated[name], value):
            yield f"{CERTIFICATE}: {name} is not what the votes of battle give"


def _same(stated: Any, right: Any) -> bool:
    if isinstance(stated, dict) and isinstance(right, dict):
        return stated.keys() == right.keys() and all(_same(stated[name], right[name]) for name in right)
    if isinstance(stated, list) and isinstance(right, list):
        return len(stated) == len(right) and all(map(_same, stated, right))
    if isinstance(stated, float) or isinstance(right, float):
        return (
            stated is not None
            and right is not None
            and math.isclose(stated, right, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE)
        )
    return bool(stated == right)


def _card(folder: Path, _: int) -> str:
    if not (folder / CERTIFICATE).is_file():
        return ""
    certificate = Certificate.model_validate_json((folder / CERTIFICATE).read_bytes())
    lines = [f"* {line}" for line in _sentences(certificate)]
    return f"""{CERTIFICATE_TITLE}

All numbers are in `{CERTIFICATE}`, and to read in `{PAGE}`. `curate verify` computes them again from the votes.

{chr(10).join(lines)}

"""


def _sentences(certificate: Certificate) -> Iterator[str]:
    apart = certificate.apart
    voters = "" if certificate.voters is None else f" by {certificate.voters:,} people"
    yield f"{certificate.votes:,} votes{voters} on {certificate.models:,} models."
    yield f"{apart.neighbours_apart:,} of {apart.neighbours:,} pairs of neighbours have different ranks."
    # a row is one way to put a rival first, by removing or by reversing votes; the card names that of fewest votes
    contests = [row for row in certificate.fragility if row.contest == "first_place" and row.needed is not None]
    if contests:
        fewest = min(contests, key=lambda row: row.needed or 0)
        change = f"{_counted(fewest.needed or 0, 'vote')}, {fewest.change}"
        yield f"What puts {_name(fewest.rival or '')} in first place: {change}."
    votes_by_check = {row.check: row.votes for row in certificate.checks if row.votes}
    if lighter := votes_by_check.pop("not_in_full", 0):
        yield f"Votes that do not count in full on the boards: {lighter:,}."
    if certificate.dropped:
        # a reason with its votes, most votes first, as the file has them
        listed = ", ".join(f"{_name(row.reason)} {row.votes:,}" for row in certificate.dropped[:_SHOWN])
        yield f"Votes that the policy leaves out of the release, by reason: {listed}."
    if votes_by_check:
        listed = ", ".join(f"{name.replace('_', ' ')} {votes:,}" for name, votes in votes_by_check.items())
        yield f"Votes by what checks found: {listed}."
    if certificate.largest_to_smallest is not None:
        yield (
            f"The most voted model has {certificate.largest_to_smallest:,.1f} times as many votes as the least voted "
            "one."
        )
    for by in ("provider", "licence", "weights"):
        # a row is one group, such as a provider, with its share of the votes; the largest are first
        rows = [row for row in certificate.exposure if row.by == by][:_SHOWN]
        if rows:
            yield f"Votes by {by}: {', '.join(f'{_name(row.group)} {row.share:.1%}' for row in rows)}."
    if silent_models := [row for row in certificate.lives if row.left]:
        yield (
            f"{len(silent_models):,} models on the board have had no vote for 30 days: "
            f"{_few(row.model for row in silent_models)}."
        )
    if gone := certificate.off_the_board:
        yield f"{len(gone):,} models fought anonymously and are not on the board: {_few(row.model for row in gone)}."
    if split := [month.month for month in certificate.months if month.groups > 1]:
        yield (
            f"In {len(split):,} of {len(certificate.months):,} months the votes do not connect all models: "
            f"{_few(split)}."
        )
    if moved := [row for row in certificate.lives if abs(row.moved or 0) > (row.moved_by_chance or 0)]:
        names = _few(row.model for row in moved)
        yield f"Without the earlier half of the votes these move beyond the 95 % interval of chance: {names}."
    if seen := [month for month in certificate.months if month.seen_before]:
        most = max(seen, key=lambda month: month.seen_before or 0)
        yield f"In {most.month} {most.seen_before:.1%} of the prompts were of earlier months; in no month were more."
    if certificate.best_of:
        best = certificate.best_of[0]
        yield (
            f"Choosing the best of {best.models:,} models of {_name(best.provider)} adds {best.bias:,.1f} points "
            "on average; no other provider gains more by it."
        )
    for effect in certificate.filters:
        same = "the same model is first" if effect.same_first else "another model is first"
        yield f"`{effect.board}`: {same}; another rank: {_counted(effect.moved_models, 'model')}."


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'s' * (number != 1)}"


def _name(text: str) -> str:
    return markdown_text(text, characters_max=80)


def _few(names: Any) -> str:
    listed = list(names)
    more = f" and {len(listed) - _SHOWN:,} more" if len(listed) > _SHOWN else ""
    return ", ".join(map(_name, listed[:_SHOWN])) + more


CERTIFICATE_SINCE = 7
CERTIFICATE_PART = ReleasePart(
    write=_write,
    wrong=_wrong,
    section=CardSection(
        CERTIFICATE_TITLE, "how far the leaderboard can be trusted", CERTIFICATE, _card, CERTIFICATE_SINCE
    ),
)
"""The part of every release with votes."""
