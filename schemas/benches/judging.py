"""Answers of models to benchmark prompts, verdicts of judges on two answers, and boards computed from verdicts."""

from enum import StrEnum
from typing import ClassVar

from pydantic import Field

from schemas.board import BoardColumns, BoardRow, Together
from schemas.row import Int32, Row

STAND_IN = "embedded stand-in"
"""Name, in verdicts and on boards, of the judge that ships with the install."""


class AnswerState(StrEnum):
    """State of one request for an answer."""

    COMPLETE = "complete"
    """The model finished its answer."""
    REFUSED = "refused"
    """The vendor or the model refused to answer."""
    TRUNCATED = "truncated"
    """The answer was cut off at the token limit."""
    EMPTY = "empty"
    """The model answered with no text."""
    FAILED = "failed"
    """The call failed; it is made again in the next run."""


class Label(StrEnum):
    """A verdict on two answers, A shown first: which is better, and whether by much (two signs)."""

    A_MUCH_BETTER = "A>>B"
    A_BETTER = "A>B"
    TIE = "A=B"
    B_BETTER = "B>A"
    B_MUCH_BETTER = "B>>A"


class Answer(Row):
    """One model's answer to one benchmark prompt."""

    question_id: str
    """The benchmark prompt: the id of the conversation it comes from, as in a release."""
    model: str
    """The model."""
    state: AnswerState
    """complete, refused, truncated, empty or failed."""
    text: str
    """The answer; empty unless there is one."""
    version: str
    """Changes with everything that decides the answer: vendor, model, temperature, limits, system prompt."""
    tokens: Int32 | None
    """Tokens of the answer as its vendor counts them; null when unknown."""
    document_id: str | None = None
    """Content id of the prompt with its images as it was asked: one that was redacted since is another one. Null in
    rows of earlier versions of this software, which are asked again."""


class Verdict(Row):
    """One verdict on two answers to one prompt. `model_a` was shown first, as Assistant A."""

    question_id: str
    """The benchmark prompt, as in `answers`."""
    protocol: str
    """visionarena, wildvision, visit or visit-reference: the prompt and the orders."""
    model_a: str
    """Model whose answer was shown first."""
    model_b: str
    """Model whose answer was shown second."""
    baseline: str
    """The one of both models that every other model is compared with; empty under `visit`, where any two meet."""
    answer_a: str
    """Version of the first answer."""
    answer_b: str
    """Version of the second answer."""
    label: Label | None
    """The label in `text`, of five, under `visit` A>B or B>A; null when it has none, or several different ones.

    Null is no verdict, and never a tie. Under `visit` the last label counts, and a battle without any is a tie.
    """
    judge: str
    """Name of the judging model; `person` for a person's verdict."""
    judge_version: str
    """Changes with everything that decides the verdict: vendor, model, temperature, limits, prompt."""
    draw: str
    """The draw of the benchmark that the prompt belongs to: the version of a release, or a hash of the store's draw."""
    text: str
    """Everything that the judge wrote after thinking, including its reply to the follow-up question."""
    asked_again: bool
    """Whether the judge was asked a second time because its first reply had no label."""
    fenced_marks: Int32
    """Labels and marks of the judge's prompt found in the two answers, which were therefore fenced."""
    document_id: str | None = None
    """Content id of the prompt with its images that was answered, as in `answers`."""
    shown: str | None = None
    """Content id of the captions and the reference that a judge without the image was shown; null for other judges."""


class NoVerdict(StrEnum):
    """Ways to count a comparison without a verdict."""

    DROP = "drop"
    TIE = "tie"


class Orders(StrEnum):
    """How verdicts on the two orders of one pair of answers count."""

    EACH = "each"
    """Each verdict is one vote."""
    AGREE = "agree"
    """One vote a prompt: a win only if both orders name the same winner, with the weaker strength; otherwise a tie."""


class Resampled(StrEnum):
    """Units that the bootstrap of a judge's board draws."""

    PROMPTS = "prompts"
    """Whole prompts, with all verdicts on them."""
    ROWS = "rows"
    """Single verdicts, a strong one as several, as Arena-Hard v0.1 and WildVision-Bench do."""


class BoardMethod(Row):
    """How verdicts become a board."""

    baseline: str
    """Model that every other one was compared with; its score is 50."""
    strong_weight: float = Field(default=3.0, gt=0, allow_inf_nan=False)
    """Votes that a strong verdict counts as."""
    no_verdict: NoVerdict = NoVerdict.DROP
    """What a comparison without a verdict counts as."""
    orders: Orders = Orders.EACH
    """How verdicts on both orders count."""
    interval: Resampled = Resampled.PROMPTS
    """What the bootstrap draws."""
    bootstraps: int = Field(default=100, ge=2)
    """Bootstrap rounds."""
    seed: int = 0
    """Seed of the bootstrap."""


_VERDICTS = ("much_better", "better", "tie", "worse", "much_worse")


class JudgeRating(BoardRow):
    """One model on a board of a judge's verdicts."""

    board: ClassVar = BoardColumns(
        "score", "score_ci95_low", "score_ci95_high", "score with its 95 % interval", digits=1, no_end="-",
        battles=_VERDICTS,
        more=(
            "win_rate", "reward", Together(">> / > / = / < / <<", _VERDICTS), "no_verdict", "mean_tokens", "coverage",
        ),
    )  # fmt: skip

    slice: str
    """Which prompts: overall, topic:<name>, category:<name> and so on."""
    judge: str
    """Name of the judge; `embedded stand-in` for the one that ships with the install, which ranks nothing in public."""
    model: str
    """The model."""
    score: float | None
    """Bradley-Terry win rate against the baseline in percent, with strong verdicts weighted; null without a verdict."""
    score_ci95_low: float | None
    """Lower end of the score's 95 % interval."""
    score_ci95_high: float | None
    """Upper end of the score's 95 % interval."""
    win_rate: float | None
    """Percent of all judged prompts that the model won; one without a verdict is not won."""
    reward: float | None
    """Mean of 100, 50, 0, -50, -100 for much better to much worse over all comparisons; 0 without a verdict."""
    much_better: int
    """Verdicts that the model is significantly better than the baseline."""
    better: int
    """Verdicts that it is slightly better."""
    tie: int
    """Ties; with `--no-verdict tie` also comparisons without a verdict."""
    worse: int
    """Verdicts that it is slightly worse."""
    much_worse: int
    """Verdicts that it is significantly worse."""
    no_verdict: int
    """Comparisons without a verdict: the judge failed, or wrote no label, or several different ones."""
    mean_tokens: float | None
    """Mean tokens (cl100k_base) of its judged answers, or those that files of answers state; null without answers."""
    rating: float | None
    """Rating with the baseline at 1000: 400 points are odds of ten to one; null for a score of 0 or 100."""
    ci95_low: float | None
    """Lower end of the rating's 95 % interval; null when unbounded."""
    ci95_high: float | None
    """Upper end of the rating's 95 % interval; null when unbounded."""
    rank: Int32 | None
    """1 + number of clearly better models, whose 95 % interval of the lead over this one lies above 0."""
    coverage: float
    """Share of the expected comparisons that have a verdict, 0 to 1."""
    flags: list[str]
    """low_coverage (under 0.95), few_votes (under 30 prompts), only_ties, only_wins, only_losses, same_vendor (as the
    judge), few_prompts (a slice of under 30): why a row may mislead."""


class ParsedJudgements(Row):
    """Judgements in the texts of one model's judgement file, and how they differ from the stored scores."""

    model: str
    """The model."""
    judgements: int
    """Games in the file."""
    labels: int
    """Texts with one label."""
    conflicting: int
    """Texts with several different labels; no verdict."""
    error_marks: int
    """Texts without a label that hold $ERROR$: the judge's call failed; no verdict."""
    without_label: int
    """Other texts without a label; no verdict."""
    empty: int
    """Empty texts; no verdict."""
    stored_differs: int
    """Texts whose label is not the stored score."""
    stored_as_tie: int
    """Comparisons without a verdict that are stored as ties."""


class JudgeBias(Row):
    """How far to trust a judge."""

    judge: str
    """Name of the judge."""
    verdicts: int
    """Verdicts with a label."""
    no_verdicts: int
    """Comparisons without one."""
    both_orders: int
    """Pairs of answers with a verdict in both orders."""
    flipped: int
    """Those of them where the winner changes with the order: the same seat wins twice."""
    flipped_fraction: float | None
    """flipped / both_orders; null when every pair was shown in one order."""
    first_seat_fraction: float | None
    """Share of decisive verdicts in `both_orders` for the answer shown first: 0.5 without a preference for a seat."""
    same_vendor: list[str]
    """Models of the judge's vendor, which it may favour."""
    fenced_marks: int
    """Labels and marks of the judge's prompt that answers held, and which were fenced; 0 for files of others."""


class WrittenRating(BoardRow):
    """One player on the board of a written benchmark."""

    board: ClassVar = BoardColumns(
        "rating", "ci95_low", "ci95_high", "rating with its 95 % interval", battles=("matches",),
        more=("elo", "matches", "coverage", "win_rate_vs_reference", Together("of", ("decisive_vs_reference",))),
    )  # fmt: skip

    slice: str
    """Which items: overall, or family:<name>."""
    bench: str
    """The benchmark."""
    judge: str
    """Name of the judge; `embedded stand-in` for the one that ships with the install, which ranks nothing in public."""
    judge_version: str
    """Changes with everything that decides a verdict."""
    protocol: str
    """visit, or visit-reference where the judge sees the reference."""
    model: str
    """The model; `reference` is the verified reference."""
    elo: float
    """Sequential Elo: start 1000, scale 400, K and order as set. Depends on the order of the battles."""
    rating: float
    """Bradley-Terry rating: scale 400, base 10, and the mean as on boards of votes. A placeholder for an unbounded
    player, see flags."""
    ci95_low: float | None
    """Lower end of the rating's 95 % interval; null when unbounded."""
    ci95_high: float | None
    """Upper end of the rating's 95 % interval; null when unbounded."""
    rank: Int32 | None
    """1 + number of clearly better players, whose 95 % interval of the lead over this one lies above 0; null for an
    unbounded player."""
    matches: int
    """Battles with a verdict in both orders."""
    ties: int
    """Those of them without a winner."""
    coverage: float
    """Share of the slice's items with a battle of this model, 0 to 1."""
    wins_vs_reference: int
    """Battles with the reference that it won."""
    decisive_vs_reference: int
    """Battles with the reference that have a winner: the n of the win rate."""
    battles_vs_reference: int
    """Battles with the reference, ties included."""
    win_rate_vs_reference: float | None
    """wins / decisive battles with the reference, 0 to 1, without ties as in VisIT-Bench; null without any."""
    expected_vs_reference: float | None
    """Share of points against the reference that both Bradley-Terry ratings imply; null for the reference itself."""
    flags: list[str]
    """Why a row may mislead: few_battles (under 100), low_coverage (under 0.95), and those of `curate rate`."""


class SubmissionRating(WrittenRating):
    """One player on a board that is kept in a dated file."""

    made_at: str
    """When the board was made, UTC."""


class CaptionsCompared(Row):
    """A player's battles under one judge, with captions for the instruction and with generic ones."""

    model: str | None
    """The player; null for the row about all battles."""
    judge_version: str
    """The judge's version, the same for both."""
    battles: int
    """Battles with a verdict in both orders under both."""
    same_outcome: float
    """Share of them with the same winner, or a tie under both, 0 to 1."""
    won: float | None
    """Share that the player won with captions for the instruction, a tie as half, 0 to 1; null for all battles."""
    won_generic: float | None
    """The same with generic captions."""


class CaptionAnswersRight(Row):
    """Answers of a model that read captions in place of images, and how many of them people call right."""

    captions: str
    """instruction: written for the instruction; generic: not."""
    model: str
    """The model."""
    answers: int
    """Its answers that were written from these captions."""
    right: int
    """Answers that most reviewers call right."""
    wrong: int
    """Answers that most call wrong."""
    unclear: int
    """Answers about which most could not tell, or as many say one thing as another."""
    share: float | None
    """Share of right ones among right and wrong, 0 to 1; null without any."""
    ci95_low: float | None
    """Lower end of its 95 % Clopper-Pearson interval; null without any."""
    ci95_high: float | None
    """Upper end of it; null without any."""


def verdict_words(label: str | None, first: str, second: str) -> str:
    """The winner in words; `first` was shown first."""
    if label is None:
        return "no verdict"
    if label == Label.TIE:
        return "tie"
    winner = first if label in (Label.A_BETTER, Label.A_MUCH_BETTER) else second
    return f"{winner} is {'much ' if label in (Label.A_MUCH_BETTER, Label.B_MUCH_BETTER) else ''}better"
