"""All rating tables of a set of battles, each computed on first use."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from functools import cached_property
from typing import Self

import polars as pl

from schemas.benches.certificate import Suspect
from schemas.errors import BadInput, known_values, window_in_words
from schemas.policy import ModelFacts, VoteRules
from schemas.rating import (
    FEW_VOTES,
    OVERALL,
    STYLE_CONTROL,
    Fragility,
    OutlierJudge,
    PairRecord,
    PlannedVotes,
    RankChange,
    Rating,
    RatingMethod,
    StyleCoefficient,
    VoteShare,
)
from schemas.row import Row
from schemas.settings import Settings
from tasks.leaderboard.fairness import best_of, exposure, model_lives, months
from tasks.leaderboard.fragility import fragility, styled_fragility
from tasks.leaderboard.leaderboard import (
    UNKNOWN_MAX,
    default_slices,
    leaderboard,
    rate_slice,
    slice_boards,
    slice_masks,
    unknown_shares,
)
from tasks.leaderboard.records import (
    elo_ratings,
    outlier_judges,
    pair_cards,
    pair_records,
    vote_shares,
    win_rates,
    without_outliers,
)
from tasks.leaderboard.style_control import (
    KNOWN_ONLY,
    LEFT_OUT,
    NOT_ON_BOARD,
    UNKNOWN_COVARIATE,
    partly_known,
    rank_changes,
    sides_are_drawn,
    style_board,
    styleable,
)
from tasks.leaderboard.suspects.named import lacking, suspects, vote_checks
from tasks.leaderboard.vote_plan import boards_wanted, separations
from tasks.leaderboard.vote_statistics import length_differences, vote_statistics
from tasks.leaderboard.votes import Mask, beyond_day, rateable, repeats_counted_once, votes

ALL_SLICES = "all"
NAMED_VOTES = "named_votes"
"""Flag of boards with votes on models whose names were shown."""
PAIR_CARDS = "pair_cards"
FRAGILITY_TABLE, PLAN = "fragility", "plan"
VOTE_STATISTICS = "vote_statistics"
SUSPECTS, VOTE_CHECKS_TABLE = "suspects", "vote_checks"
WITHOUT_SUSPECTS = "without_suspects"
"""Slice of all votes but those of suspects; among all slices it is there when there are any."""
_NONE, _ONE = pl.Series([False]), pl.Series([1.0])


@dataclass(frozen=True)
class RatingTables:
    """Rating tables of `battles`, which have the columns that `read_battles` returns."""

    battles: pl.DataFrame
    method: RatingMethod
    slices: Sequence[str] = ()
    """Names of slices, or `all`; by default overall, and for vote shares every slice."""
    reference: str | None = None
    """Model that win rates are computed against."""
    exclude_outliers: bool = False
    """Whether votes of outlier judges are left out."""
    rules: VoteRules = field(default_factory=VoteRules)
    """Rules that say which votes count, and how much."""
    board: Sequence[Rating] | None = None
    """The board of all `battles`, if it is known."""
    facts: Mapping[str, ModelFacts] = field(default_factory=dict)
    """Model -> facts about it, for `FAIRNESS`."""
    of_drawn_sides: bool | None = None
    """`sides_drawn`, where another table says it: a slice of few votes may have one model on one side by chance."""

    @cached_property
    def outliers(self) -> list[OutlierJudge]:
        """Voters that the outlier test finds. Raises BadInput without a column `judge`."""
        if "judge" not in self.battles.columns:
            raise BadInput("the table names no voters; outlier judges need a column judge")
        battles = rateable(self.battles)
        return outlier_judges(votes(battles), battles["judge"])

    @cached_property
    def suspects(self) -> list[Suspect]:
        """Voters whose votes pull one model; none where the table names no voters."""
        return suspects(rateable(self.battles))

    def lacking(self, table: str) -> Iterator[str]:
        """Lines on what battles and facts lack, so that a table, or a rule about votes, cannot tell something."""
        columns = {*self.battles.columns}
        for rule in self.rules.about_voters:
            needed = {"judge", "tstamp"} if rule == "day_votes_max" else {"judge"}
            if gone := sorted(needed - columns):
                yield f"the table has no {' and no '.join(gone)}: {rule} of the policy leaves no vote out"
        if WITHOUT_SUSPECTS in self.slices and "judge" not in columns:
            yield f"the table names no voters (column judge): {WITHOUT_SUSPECTS} has all votes"
        for name, share in self._unknown.items():
            if share and name in self.slices:
                yield f"{name}: unknown of {share:.0%} of the battles, which are not on its board"
            elif share > UNKNOWN_MAX and ALL_SLICES in self.slices:
                yield f"{name}: unknown of {share:.0%} of the battles, so it has no board"
        if table in (STYLE_CONTROL, *_STYLED):
            for name, complete in partly_known(self.rated, self.measured).items():
                counted = f"{complete.height:,} of {self.rated.height:,} battles"
                yield f"{name}: counted on both sides of {counted}, less than half; the board is not adjusted for it"
        if table == SUSPECTS:
            yield from lacking(self.battles)
        if table == FRAGILITY_TABLE and "question_id" not in columns:
            yield "the table has no ids (column question_id): which votes these are is not told"
        if table in ("months", "model_lives") and "tstamp" not in columns:
            yield "the table has no times (column tstamp): who came and left when is not told"
        if table in ("exposure", "best_of") and not any(fact.provider for fact in self.facts.values()):
            yield "the policy names no provider of a model (models): whose models these are is not told"

    @property
    def same_model(self) -> int:
        """Number of battles of a model with itself, which are left out."""
        return self.battles.filter(pl.col("model_a") == pl.col("model_b")).height

    @cached_property
    def valid(self) -> pl.DataFrame:
        """Battles between different models that count, both-bad votes included; `vote` is their place in `battles`."""
        return repeats_counted_once(self._within_days, self.rules.pair_votes_max)

    @cached_property
    def _of_people(self) -> pl.DataFrame:
        """The battles between different models without votes of outliers, before the rules of the policy."""
        battles = rateable(self.battles.with_columns(vote=pl.int_range(pl.len())))
        return without_outliers(battles, self.outliers) if self.exclude_outliers else battles

    @cached_property
    def _trusted(self) -> pl.DataFrame:
        """The battles of `_of_people` without votes of suspects, where the policy leaves them out."""
        battles = self._of_people
        return battles.filter(self._unsuspected(battles)) if self.rules.exclude_suspects else battles

    @cached_property
    def _within_days(self) -> pl.DataFrame:
        """The battles of `_trusted` without votes beyond a voter's first of a day."""
        days = self.rules.day_votes_max
        return self._trusted if days is None else self._trusted.filter(~beyond_day(self._trusted, days))

    @property
    def _is_lighter(self) -> pl.Series:
        """Whether a vote, bool (valid,), weighs less because it is a repeat."""
        before, after = (
            battles.get_column("weight", default=_ONE.new_from_index(0, battles.height))
            for battles in (self._within_days, self.valid)
        )
        return after < before

    @cached_property
    def rated(self) -> pl.DataFrame:
        """The battles that boards are computed from."""
        return rateable(self.valid, self.method.both_bad)

    @property
    def votes_in_full(self) -> int:
        """Number of battles that no rule leaves out or makes lighter."""
        return rateable(self.valid.filter(~self._is_lighter), self.method.both_bad).height

    @cached_property
    def ratings(self) -> list[Rating]:
        """Boards of the chosen slices. Raises BadInput for a slice without battles."""
        return slice_boards(votes(self.rated, self.method.cluster), self._chosen(self.rated), self.method)

    @cached_property
    def overall(self) -> Sequence[Rating]:
        """The overall board."""
        if self.board is not None:
            return self.board
        overall_rows = [row for row in self.ratings if row.slice == OVERALL]
        return overall_rows or leaderboard(votes(self.rated, self.method.cluster), method=self.method)

    @cached_property
    def sides_drawn(self) -> bool:
        """Whether models were drawn on sides, which style control asks for (`style_differences`)."""
        return sides_are_drawn(self.battles) if self.of_drawn_sides is None else self.of_drawn_sides

    @cached_property
    def measured(self) -> pl.DataFrame:
        """The battles that style control is fitted on, with the columns of its covariates (`styleable`)."""
        return styleable(self.rated, unknown_as_mean=self.method.unknown_style_as_mean)

    @cached_property
    def styled(self) -> tuple[list[Rating], list[StyleCoefficient]]:
        """The board under style control, on the scale of the overall board, and its coefficients.

        A covariate that the board leaves out has the coefficient of a fit on the battles with all covariates.
        """
        rows, coefficients = style_board(self.measured, self.method, self._level, sides_drawn=self.sides_drawn)
        left_out = partly_known(self.rated, self.measured)
        # a row is a covariate that is known of too few battles, by a fit of its own
        coefficients += [self._coefficient_apart(name, complete) for name, complete in left_out.items()]
        flags = [LEFT_OUT] if left_out else [KNOWN_ONLY] if self._lacks_names else []
        return (
            [row.model_copy(update={"flags": [*row.flags, *flags]}) for row in rows],
            [row.model_copy(update={"of": self.rated.height}) for row in coefficients],
        )

    @property
    def _lacks_names(self) -> bool:
        """Whether battles are not among `measured` because named entities are not counted on them."""
        return self.measured.height < styleable(self.rated, unknown_as_mean=True).height

    def _coefficient_apart(self, name: str, complete: pl.DataFrame) -> StyleCoefficient:
        """The coefficient of a covariate that the board leaves out, from the `complete` battles, which have it."""
        if complete.height >= FEW_VOTES:
            # the fit has all covariates; only this one is wanted
            coefficients = style_board(complete, self.method, sides_drawn=self.sides_drawn)[1]
            (row,) = [row for row in coefficients if row.covariate == name]
            return row.model_copy(update={"flags": [*row.flags, NOT_ON_BOARD]})
        return StyleCoefficient(
            slice=OVERALL,
            covariate=name,
            coefficient=None,
            ci95_low=None,
            ci95_high=None,
            preset=self.method.style_preset,
            battles=complete.height,
            of=self.rated.height,
            flags=[UNKNOWN_COVARIATE],
        )

    @cached_property
    def changes(self) -> list[RankChange]:
        """Ranks with and without style control, from the same battles."""
        all_measured = self.measured.height == self.rated.height
        cast = votes(self.measured, self.method.cluster)
        return rank_changes(
            self.overall if all_measured else rate_slice(cast, OVERALL, self.method, self._level), self.styled[0]
        )

    @cached_property
    def _styles(self) -> dict[str, dict[str, Sequence[Row]]]:
        """Chosen slice -> table of `_STYLED` -> its rows; a slice is fitted once for both, and not kept."""
        parts = {name: mask for name, mask in self._chosen(self.valid).items() if name != OVERALL}
        # a pair is a slice and its tables; one at a time, so that no two fits are in memory
        tables_of_slices = ((name, self._part(name, mask)) for name, mask in parts.items())
        return {name: {table: RATING_TABLES[table](part) for table in _STYLED} for name, part in tables_of_slices}

    @cached_property
    def records(self) -> list[PairRecord]:
        """Record of every pair of models."""
        return pair_records(self.valid)

    @property
    def shares(self) -> list[VoteShare]:
        """Vote shares of the chosen slices, by default of every slice."""
        return vote_shares(
            self.valid, self._chosen(self.valid) if self.slices else default_slices(self.valid, self._unknown)
        )

    @cached_property
    def fragility(self) -> list[Fragility]:
        """How few votes change the boards of the chosen slices; with overall, also the one under style control."""
        chosen = self._chosen(self.rated)
        # a row is one contest on the board of one slice
        slice_rows = [r for name, mask in chosen.items() for r in fragility(self.rated.filter(mask), name, self.method)]
        if OVERALL not in chosen:
            return slice_rows
        return [*slice_rows, *styled_fragility(self.measured, self.method, sides_drawn=self.sides_drawn)]

    @property
    def plan(self) -> list[PlannedVotes]:
        """Votes that the chosen slices still need; by default overall, and in sum each language and category."""
        default_masks, chosen = default_slices(self.rated, self._unknown), self._chosen(self.rated)
        # a row is one pair of neighbours on the board of a slice, with the votes that would tell them apart
        rows = [row for name, mask in chosen.items() for row in separations(self.rated.filter(mask), name)]
        return [*rows, *boards_wanted(self.rated, chosen if self.slices else default_masks, in_all=not self.slices)]

    def votes_of(self, slice_name: str) -> pl.DataFrame:
        """The battles of one board: of a slice, or under style control."""
        if slice_name == STYLE_CONTROL:
            return self.measured
        if slice_name == WITHOUT_SUSPECTS:
            return self.rated.filter(self._unsuspected(self.rated))
        return self.rated.filter(pl.Series(slice_masks(self.rated)[slice_name]))

    def rows(self, table: str) -> Sequence[Row]:
        """Rows of one of `RATING_TABLES` for the chosen slices; those with flags say so when named votes are in.

        Raises BadInput for a slice without battles, a reference without battles, and slices of tables about voters.
        """
        return self.flagged(self._rows(table))

    def flagged(self, rows: Sequence[Row]) -> Sequence[Row]:
        """The rows; those with flags say, too, which rules change what votes of these tables count."""
        rules = self._rules
        return [
            row.model_copy(update={"flags": [*row.flags, *rules]}) if rules and hasattr(row, "flags") else row
            for row in rows
        ]

    @cached_property
    def _rules(self) -> list[str]:
        """Flags of all boards: votes that are on them, or not in full, by a rule.

        A rule is told where it changes votes that the rules before it leave.
        """
        flags = {
            NAMED_VOTES: self.battles.get_column("named", default=_NONE).any(),
            "repeats_count_once": self._is_lighter.any(),
            "days_limited": self._within_days.height < self._trusted.height,
            "suspects_excluded": self._trusted.height < self._of_people.height,
        }
        # a name is a flag that holds, for every board
        return [name for name, holds in flags.items() if holds]

    def _rows(self, table: str) -> Sequence[Row]:
        if table in (*_OF_VOTERS, *FAIRNESS) and self.slices:
            raise BadInput(f"--table {table} is about all votes; leave --slice out")
        if table in _OF_ALL:
            return RATING_TABLES[table](self)
        models = {*self.valid["model_a"], *self.valid["model_b"]}
        if self.reference is not None and self.reference not in models:
            raise BadInput(f"reference model {known_values(self.reference, models)}")
        rows: list[Row] = []
        for name, mask in self._chosen(self.valid).items():
            if name == OVERALL:
                rows += RATING_TABLES[table](self)
                continue
            slice_rows = self._styles[name][table] if table in _STYLED else RATING_TABLES[table](self._part(name, mask))
            rows += [row.model_copy(update={"slice": name}) for row in slice_rows]
        return rows

    def _part(self, name: str, mask: Mask) -> Self:
        """The tables of one slice, its board on the scale of the overall board."""
        board = [row for row in self.ratings if row.slice == name]
        slice_tables = replace(self, battles=self.valid.filter(pl.Series(mask)), slices=(), board=board)
        slice_tables = replace(slice_tables, of_drawn_sides=self.sides_drawn)
        return replace(slice_tables, exclude_outliers=False, rules=VoteRules())  # the weights say so already

    def _chosen(self, battles: pl.DataFrame) -> dict[str, Mask]:
        """Slice name -> bool (battles,), of the chosen slices."""
        every = ALL_SLICES in self.slices
        masks = default_slices(battles, self._unknown) if every else slice_masks(battles)
        if every and len(self.slices) > 1:
            # a slice that is named has a board, however few votes it is known of
            masks |= {name: mask for name, mask in slice_masks(battles).items() if name in self.slices}
        if WITHOUT_SUSPECTS in self.slices or (every and self.suspects):
            is_unsuspected = self._unsuspected(battles)
            masks |= {WITHOUT_SUSPECTS: is_unsuspected.to_numpy()} if is_unsuspected.any() else {}
        # a name is a chosen slice that no battle is in; overall may be without
        unknown = [name for name in self.slices if name not in (*masks, ALL_SLICES, OVERALL)]
        if unknown:
            raise BadInput(f"no battles in slice {known_values(unknown[0], masks)}")
        return masks if every else {n: masks[n] for n in self.slices or (OVERALL,) if n in masks}

    @cached_property
    def _unknown(self) -> dict[str, float]:
        return unknown_shares(self.battles)

    def _unsuspected(self, battles: pl.DataFrame) -> pl.Series:
        """Whether a vote, bool (battles,), is of nobody among the suspects."""
        judges = battles.get_column("judge", default=pl.repeat(None, battles.height, dtype=pl.String, eager=True))
        return ~judges.is_in([row.judge for row in self.suspects]).fill_null(False)

    @property
    def _level(self) -> dict[str, float]:
        return {row.model: row.rating for row in self.overall}


RATING_TABLES: dict[str, Callable[[RatingTables], Sequence[Row]]] = {
    "ratings": lambda tables: tables.ratings,
    "style_control": lambda tables: tables.styled[0],
    "style_coefficients": lambda tables: tables.styled[1],
    "rank_changes": lambda tables: tables.changes,
    "pair_records": lambda tables: tables.records,
    PAIR_CARDS: lambda tables: pair_cards(tables.valid, tables.records),
    "win_rates": lambda tables: win_rates(tables.records, tables.reference),
    "vote_shares": lambda tables: tables.shares,
    VOTE_STATISTICS: lambda tables: vote_statistics(tables.valid),
    "length_differences": lambda tables: length_differences(tables.valid),
    "elo_ratings": lambda tables: [
        row
        for seed in (None, tables.method.seed)
        for row in elo_ratings(votes(tables.rated), seed, tables.method.elo_k)
    ],
    "outlier_judges": lambda tables: tables.outliers,
    SUSPECTS: lambda tables: tables.suspects,
    VOTE_CHECKS_TABLE: lambda tables: vote_checks(tables.battles, tables.rated, tables.suspects, tables.rules),
    FRAGILITY_TABLE: lambda tables: tables.fragility,
    PLAN: lambda tables: tables.plan,
    "exposure": lambda tables: exposure(tables.rated, tables.facts),
    "model_lives": lambda tables: model_lives(tables.rated, tables.overall, tables.method, tables.facts),
    "months": lambda tables: months(tables.rated),
    "best_of": lambda tables: best_of(tables.overall, tables.facts),
}
"""Table name -> function that computes its rows."""
_STYLED = ("style_coefficients", "rank_changes")
_OF_VOTERS = ("outlier_judges", SUSPECTS, VOTE_CHECKS_TABLE)
FAIRNESS = ("exposure", "model_lives", "months", "best_of")
"""Tables of who was given what, for all votes."""
_OF_ALL = ("ratings", "vote_shares", *_OF_VOTERS, FRAGILITY_TABLE, PLAN, *FAIRNESS)
"""Tables that are computed for all slices at once, or for none."""


STORED = sorted(RATING_TABLES.keys() - {"style_control", PAIR_CARDS, PLAN})
"""Tables that a store keeps."""
_BY_SLICE = ("ratings", "vote_shares", *_STYLED, FRAGILITY_TABLE)
"""Rows of all slices."""


@dataclass(frozen=True)
class StoredTables:
    """The rating tables that a store keeps: as a run makes them, and `curate verify` makes them again.

    Battles of stores and releases have the columns of style covariates, which `styled` needs.
    """

    whole: RatingTables
    """The tables of all votes on anonymous models."""
    every: pl.DataFrame
    """The battles, with those whose models were named, which are in the statistics alone."""

    @cached_property
    def by_slice(self) -> RatingTables:
        """The tables of all slices."""
        return replace(self.whole, slices=(ALL_SLICES,))

    def rows(self, table: str) -> Sequence[Row]:
        """Rows of one of `STORED`; `ratings` with the board under style control. Raises BadInput as `RatingTables`."""
        if table == VOTE_STATISTICS:
            return replace(self.whole, battles=self.every).rows(table)
        rows = (self.by_slice if table in _BY_SLICE else self.whole).rows(table)
        return [*rows, *self.by_slice.flagged(self.by_slice.styled[0])] if table == "ratings" else rows


def method_of(settings: Settings) -> RatingMethod:
    """The rating method that the settings choose."""
    return RatingMethod(**settings.model_dump(include=set(RatingMethod.model_fields)))


def within(battles: pl.DataFrame, since: date | None, until: date | None) -> pl.DataFrame:
    """Battles with votes from `since` to `until` (UTC days, both included). Raises BadInput when there are none."""
    if since is None and until is None:
        return battles
    if "tstamp" not in battles.columns:
        raise BadInput("the table has no times; a window needs a column tstamp")
    day = pl.col("tstamp").dt.date()
    kept = battles.filter((day >= (since or date.min)) & (day <= (until or date.max)))
    if kept.is_empty():
        first, last = battles.select(day.min().alias("first"), day.max().alias("last")).row(0)
        table_span = f"{first} to {last}" if first else "no battle with a time"
        raise BadInput(f"no battle {window_in_words(since, until)}; the table holds {table_span}")
    return kept
