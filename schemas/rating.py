"""Leaderboards and their supporting tables."""

from dataclasses import replace
from enum import StrEnum
from typing import ClassVar

from pydantic import Field

from schemas.board import BoardColumns, BoardRow
from schemas.row import Int32, Row

OVERALL = "overall"
"""Slice of all votes."""
STYLE_CONTROL = "style_control"
"""Slice of all votes, rated with the style of the answers held equal."""
FEW_VOTES = 30
"""No interval of a model with fewer votes is narrower than votes that follow the model would give."""


class Interval(StrEnum):
    """How 95 % intervals are computed."""

    BOOTSTRAP = "bootstrap"
    SANDWICH = "sandwich"


class Cluster(StrEnum):
    """Group that votes may have in common, so that they are not independent."""

    QUESTION = "question_id"
    JUDGE = "judge"
    USER = "user"


class BothBad(StrEnum):
    """How a both-bad vote counts."""

    TIE = "tie"
    EXCLUDE = "exclude"


class StylePreset(StrEnum):
    """A published normalisation and penalty of style covariates."""

    FASTCHAT = "fastchat"
    ARENA_RANK = "arena-rank"


class RatingMethod(Row):
    """How votes become ratings."""

    bootstraps: int = Field(default=100, ge=2)
    """Bootstrap rounds."""
    seed: int = 0
    """Seed of the bootstrap and of shuffled Elo."""
    anchor_model: str | None = None
    """Model whose rating is fixed; by default the mean of models with 100 battles (else of all) is 1000."""
    anchor_rating: float = Field(default=1000.0, allow_inf_nan=False)
    """Rating of the anchor."""
    interval: Interval = Interval.SANDWICH
    """How 95 % intervals are computed."""
    cluster: Cluster | None = None
    """Votes with the same value are drawn together; the intervals then come from a bootstrap of clusters."""
    both_bad: BothBad = BothBad.TIE
    """How a both-bad vote counts."""
    style_preset: StylePreset = StylePreset.FASTCHAT
    """Normalisation and penalty of style control."""
    elo_k: float = Field(default=4.0, gt=0, allow_inf_nan=False)
    """Rating points that one vote can move a model in sequential Elo."""
    unknown_style_as_mean: bool = False
    """Whether a vote without a count of named entities has the mean difference under style control. No setting: boards
    of releases before layout 10 were made so, and are checked so."""


class Rating(BoardRow):
    """One model on one leaderboard."""

    board: ClassVar = BoardColumns(
        "rating", "ci95_low", "ci95_high", "Bradley-Terry rating with its 95 % interval",
        battles=("battles",), more=("battles",),
    )  # fmt: skip

    slice: str
    """Which battles: overall, category:<name>, language:<name>, style_control and so on."""
    model: str
    """The model."""
    rating: float
    """Bradley-Terry rating: scale 400, base 10. A placeholder for an unbounded model, see flags."""
    ci95_low: float | None
    """Lower end of the 95 % interval; null when the votes give no lower bound, as for a model that never won."""
    ci95_high: float | None
    """Upper end of the 95 % interval; null when the votes give no upper bound, as for a model that never lost."""
    rank: Int32 | None
    """1 + number of clearly better models, whose 95 % interval of the lead over this one lies above 0; null for an
    unbounded model."""
    battles: int
    """Battles of the model in the slice."""
    flags: list[str]
    """few_battles (under 100), few_votes (under 30), only_ties, only_wins, only_losses, unbounded, separate_group,
    anchor_missing, named_votes: why a rating may mislead. Under style control entities_known: the board lacks the votes
    on which named entities are not counted; without_entities: those are most votes, so the board has all of them and is
    not adjusted for named entities. repeats_count_once, days_limited, suspects_excluded: rules
    that leave votes out or make them lighter, where they do; before layout 12 not under style control."""


class LikeRating(Rating):
    """One model on the board of `curate rate --like`, whose votes weigh by how close their prompts are. Not stored."""

    board: ClassVar = replace(Rating.board, more=("battles", "effective_battles"))

    effective_battles: float
    """As many votes of equal weight would say as much: (sum of weights)^2 / sum of squared weights, at most `battles`.
    few_battles and few_votes are by this number."""


class StyleCoefficient(Row):
    """The effect of one style covariate on votes, all else equal."""

    slice: str
    """Which battles."""
    covariate: str
    """tokens, headers, list_items, bold or entities."""
    coefficient: float | None
    """Change of log-odds for one standard deviation of the normalised difference; null where unknown, see flags."""
    ci95_low: float | None
    """Lower end of the 95 % interval."""
    ci95_high: float | None
    """Upper end of the 95 % interval."""
    preset: str
    """Normalisation and penalty: fastchat or arena-rank."""
    battles: int
    """Battles in the fit: those on which the covariate, and the others of the fit, are counted on both sides."""
    of: int | None = None
    """All battles of the slice; null where an earlier version wrote the row."""
    flags: list[str]
    """constant: the two sides never differ, so the effect cannot be estimated. not_on_board: the covariate is counted
    in less than half of the battles; its effect is of a fit of its own on these, and the board is not adjusted for it.
    unknown: likewise, with fewer than 30 such battles, so that no effect is estimated."""


class RankChange(Row):
    """The effect of style control on one model."""

    slice: str
    """Which battles."""
    model: str
    """The model."""
    rank: Int32 | None
    """Rank without style control, on the same battles; null for an unbounded model."""
    rank_style: Int32 | None
    """Rank under style control; null for an unbounded model."""
    rank_change: Int32 | None
    """Ranks gained under style control; negative when lost."""
    rating: float
    """Rating without style control."""
    rating_style: float
    """Rating under style control."""


class PairRecord(Row):
    """Head-to-head results of two models; one row for each order."""

    slice: str
    """Which battles."""
    model: str
    """The model."""
    opponent: str
    """Its opponent."""
    battles: int
    """All their battles, on either side."""
    wins: int
    """Votes for the model."""
    losses: int
    """Votes for the opponent."""
    ties: int
    """Ties, without both-bad votes."""
    both_bad: int
    """Both-bad votes."""
    win_fraction: float | None
    """Share of the decisive votes that the model won, by weight; null when no vote was decisive."""
    score_fraction: float | None
    """Mean score of all votes, by weight: a win is 1, a tie or both-bad vote 0.5, a soft preference as it is."""


class PairCard(PairRecord):
    """The record of two models with examples (WildVision's comparison cards). It is printed, not stored."""

    won: list[str]
    """Ids of the first battles that the model won, as in the table."""
    lost: list[str]
    """Ids of the first battles that its opponent won."""


class WinRate(Row):
    """How often one model wins, counted without a statistical model."""

    slice: str
    """Which battles."""
    model: str
    """The model."""
    battles: int
    """Its battles."""
    average_win_rate: float | None
    """Mean of score_fraction over opponents, with equal weight for every opponent; a tie is half a win."""
    wins_vs_reference: int
    """Its wins against the reference model."""
    battles_vs_reference: int
    """Its battles against the reference model."""
    win_rate_vs_reference: float | None
    """Wins / decisive battles against the reference model, without ties as in VisIT-Bench; null without any."""


class VoteShare(Row):
    """Vote counts of one slice (VisionArena Table 2)."""

    slice: str
    """Which battles."""
    battles: int
    """Votes between two different models."""
    decisive_fraction: float
    """Share of votes for one side, 0 to 1."""
    tie_fraction: float
    """Share of ties, 0 to 1."""
    both_bad_fraction: float
    """Share of both-bad votes, 0 to 1."""
    flags: list[str]
    """few_battles: under 100 votes."""


class VoteStatistics(Row):
    """Counts of votes and mean lengths of one slice (WildVision Table 1). A mean is null where nothing was counted."""

    slice: str
    """Which battles."""
    votes: int
    """Votes between two different models."""
    anonymous: int
    """Votes on models whose names were hidden."""
    named: int
    """Votes on models whose names were shown; tables without that column have none."""
    left: int
    """Votes for the model on the left."""
    right: int
    """Votes for the model on the right."""
    ties: int
    """Ties, without both-bad votes."""
    both_bad: int
    """Both-bad votes."""
    days: int | None
    """UTC days from the first vote to the last, both included; null without times."""
    rounds: int | None
    """User messages of all votes, one side of each; null where they are not counted."""
    mean_rounds: float | None
    """User messages of a vote."""
    mean_input_tokens: float | None
    """Tokens of all user messages of a vote, one side of each."""
    mean_output_tokens: float | None
    """Tokens of all answers of one side, mean over both sides of all votes."""
    longer_won_fraction: float | None
    """Share of the decisive votes on answers of different length that the longer side won."""


class LengthDifference(Row):
    """Votes by the difference of the two sides' lengths (WildVision: winner density over length difference)."""

    slice: str
    """Which battles."""
    low: int | None
    """Smallest difference of the row, in tokens of the left side's answers minus the right's; null: no bound."""
    high: int | None
    """Differences of the row are below this number; null: no bound."""
    left: int
    """Votes for the left side."""
    right: int
    """Votes for the right side."""
    left_density: float | None
    """Share of all votes for the left side, for each token; null in rows without a bound, or without such votes."""
    right_density: float | None
    """Share of all votes for the right side, for each token; null in rows without a bound, or without such votes."""
    flags: list[str]
    """few_battles: under 100 decisive votes in the slice."""


class EloRating(Row):
    """One model after sequential Elo updates."""

    slice: str
    """Which battles."""
    order: str
    """given: in the order of the votes (online Elo); shuffled: in a seeded random order (VisIT-Bench)."""
    model: str
    """The model."""
    rating: float
    """Elo rating: K 4, start 1000, scale 400, base 10."""
    battles: int
    """Battles of the model."""


class OutlierJudge(Row):
    """A voter whose votes contradict those of all others."""

    judge: str
    """The voter's keyed hash, as in the battles."""
    votes: int
    """Number of this voter's votes that were tested, at most 100."""
    evidence: float
    """Largest product of 1 / (2 p) over the votes; above 20 the voter is an outlier."""


class Fragility(Row):
    """How few votes change the order of two models on one board: the fewest that were found, proved by a new fit."""

    slice: str
    """Which battles: as in the ratings, style_control included."""
    contest: str
    """first_place: the leader and the model that passes it with the fewest votes, so that it is not first any more;
    neighbours: two models that follow each other by rating."""
    change: str | None = None
    """removed or reversed: what happens to the votes; null where nothing can be told, see flags."""
    place: Int32 | None = None
    """Place of the model by rating, from 1, among those of finite rating."""
    model: str | None = None
    """The model that leads."""
    rival: str | None = None
    """The model that is ahead afterwards."""
    difference: float | None = None
    """Rating points by which the model leads."""
    needed: int | None = None
    """Fewest votes found (or prompts or voters, see unit) after whose change the rival leads; null when none were."""
    needed_fraction: float | None = None
    """Their share of `of`, 0 to 1."""
    of: int
    """All votes of the board, or all prompts or voters."""
    unit: str
    """vote, or the column whose votes are changed together: question_id, judge or user."""
    needed_ids: list[str] = Field(default_factory=list)
    """Ids of the battles of these votes, in the order of the battles; empty where ids do not name exactly these votes:
    battles have none, or share them, as ids of prompts."""
    flags: list[str] = Field(default_factory=list)
    """few_battles: under 100 votes, not searched; unbounded: the leader has no finite rating, or fewer than two models
    have one; not_found: no change was found after which both ratings are finite and the order is the other one;
    named_votes."""


class PlannedVotes(Row):
    """Votes that a board still needs. They are printed, not stored; an arena takes them as its sampling weights."""

    slice: str
    """Which battles."""
    goal: str
    """separate: two neighbours are separated at 95 %, in four of five cases; board: every model of the overall board
    has 100 battles in this language or category."""
    place: Int32 | None = None
    """Place of the model by rating, from 1, among those of finite rating."""
    model: str | None = None
    """The model with the higher rating; null in the sum of a language or category."""
    rival: str | None = None
    """Its neighbour; null likewise."""
    difference: float | None = None
    """Rating points between them now."""
    deviation: float | None = None
    """Standard deviation of the difference now, in rating points."""
    now: int
    """Votes on this pair so far, or all of the language or category."""
    votes: int | None
    """Votes still needed; null where both ratings are equal, so that no number separates them."""
    flags: list[str] = Field(default_factory=list)
    """separated: already at 95 %; too_close: more votes are needed than the board has; named_votes."""


class Agreement(Row):
    """Agreement of a leaderboard with a reference leaderboard, on the models that both rate."""

    models: int
    """Models on both leaderboards."""
    spearman: float | None
    """Rank correlation; null when a leaderboard has no variance."""
    kendall: float | None
    """Kendall's tau-b."""
    pearson: float | None
    """Correlation of ratings."""
    agreement: float | None
    """Mean over pairs separated by the reference: 1 same order, 0.5 not separated, 0 reversed (Arena-Hard notebook)."""
    agreement_strict: float | None
    """The same with scores 1, 0 and -1 (Arena-Hard's paper)."""
    separability: float | None
    """Share of pairs of models whose 95 % intervals do not overlap on the leaderboard."""
    separability_reference: float | None
    """The same on the reference leaderboard."""
    brier: float | None
    """Mean squared error of the leaderboard's (normal) probabilities that one model is better, by the reference."""
