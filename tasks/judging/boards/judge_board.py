"""Boards from a judge's verdicts: every model against one baseline, whose score is 50; and how far to trust the judge.

With one common opponent, a model's maximum-likelihood Bradley-Terry win rate is its weighted wins, with ties as half,
out of all its weighted verdicts; so WildVision-Bench's and Arena-Hard's scores need no fit. `1000 + 400 log10(odds)`
is the rating. Under style control, the fit of `style_control.py` is on verdicts, with counts of the judged answers.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import polars as pl

from schemas.benches.judging import BoardMethod, JudgeBias, JudgeRating, NoVerdict, Orders, Resampled
from schemas.errors import BadInput, known_values
from schemas.rating import (
    FEW_VOTES,
    OVERALL,
    STYLE_CONTROL,
    Cluster,
    Fragility,
    Rating,
    RatingMethod,
    StyleCoefficient,
    StylePreset,
)
from schemas.row import Row
from schemas.signals import Markdown
from tasks.leaderboard.bradley_terry import SCALE
from tasks.leaderboard.fragility import fragility
from tasks.leaderboard.intervals import draws, quantiles95, ranks, sampled_leads, wilson95
from tasks.leaderboard.style_control import style_board
from tasks.leaderboard.votes import Numbers, Vector, Votes, rateable, votes
from tasks.storage.queries.bench import place_on_board

FEW_PROMPTS = 30
"""Slices with fewer judged prompts are flagged."""
COVERAGE_MIN = 0.95
_OF_SEAT = {"A>>B": 2, "A>B": 1, "A=B": 0, "B>A": -1, "B>>A": -2}
"""Label -> outcome for the first seat."""
_LABEL = {outcome: label for label, outcome in _OF_SEAT.items()}
_COUNTS = {"much_better": 2, "better": 1, "tie": 0, "worse": -1, "much_worse": -2}
_VENDORS = {
    "OpenAI": r"gpt|chatgpt|o[134]\b|davinci",
    "Anthropic": "claude",
    "Google": "gemini|gemma|palm|paligemma",
    "Meta": r"llama-?\d|meta-llama",
    "Alibaba": "qwen|qvq",
    "Mistral": "mi[sx]tral|pixtral",
    "DeepSeek": "deepseek",
    "Reka": "reka",
    "01.AI": "yi-",
    "xAI": "grok",
    "Shanghai AI Lab": "internvl|internlm",
    "Microsoft": r"phi-?\d",
    "Amazon": "nova-|amazon",
}
"""Vendor -> how names of its models begin, after an organisation and a slash."""


def outcomes(verdicts: pl.DataFrame, baseline: str) -> pl.DataFrame:
    """`verdicts` (question_id, model_a, model_b, label) with two more columns.

    `model` is the one that is not the baseline; `outcome` int8 is its, from 2 (much better) to -2, or null.
    Raises BadInput for an unknown label, a baseline that is not in every verdict, and two verdicts on one pair of
    answers in one order.
    """
    names = {*verdicts["model_a"].unique(), *verdicts["model_b"].unique()}
    if baseline not in names:
        raise BadInput(f"no verdict on the baseline {known_values(baseline, names)}")
    unknown = set(verdicts["label"].drop_nulls()) - _OF_SEAT.keys()
    if unknown:
        raise BadInput(f"unknown label {known_values(min(unknown), _OF_SEAT)}")
    first, second = pl.col("model_a"), pl.col("model_b")
    seat = pl.col("label").replace_strict(_OF_SEAT, return_dtype=pl.Int8)
    outcome_rows = verdicts.with_columns(
        model=pl.when(first == baseline).then(second).otherwise(first),
        outcome=pl.when(second == baseline)
        .then(pl.when(first == baseline).then(-seat).otherwise(seat))
        .otherwise(-seat),
    )
    if not (others := outcome_rows.filter((first != baseline) & (second != baseline))).is_empty():
        raise BadInput(f"a verdict compares {others['model_a'][0]!r} and {others['model_b'][0]!r}, not {baseline!r}")
    pairs = outcome_rows.filter(first != second)
    if not (double := pairs.filter(pairs.select("question_id", "model_a", "model_b").is_duplicated())).is_empty():
        row = double.row(0, named=True)
        raise BadInput(f"model {row['model']!r} has two verdicts on question {row['question_id']!r} in one order")
    return outcome_rows


def judge_boards(
    verdicts: pl.DataFrame, method: BoardMethod, judge: str, tokens: Mapping[str, float], slices: Sequence[str] = (),
    prompts: Mapping[str, int] | None = None,
) -> list[JudgeRating]:  # fmt: skip
    """One board per slice, best model first; by default of all prompts.

    `verdicts` has question_id, model_a, model_b, label, and a bool column for every slice but `overall`. `tokens` maps
    a model to the mean tokens of its answers, `prompts` a slice to its prompts, of which coverage is the share; without
    it, those with a row in `verdicts`. Raises BadInput as `outcomes` does, and for a slice without a verdict.
    """
    rows = []
    for name, chosen in _by_slice(outcomes(verdicts, method.baseline), slices):
        rows += _board(chosen, name, method, judge, tokens, (prompts or {}).get(name, 0))
    return rows


def _by_slice(outcome_rows: pl.DataFrame, slices: Sequence[str]) -> list[tuple[str, pl.DataFrame]]:
    """(slice, its rows) of these slices, of all that have a row, or of all prompts."""
    parts = {name: outcome_rows.filter(pl.col(name).cast(pl.Boolean)) for name in outcome_rows.columns if ":" in name}
    there = {OVERALL: outcome_rows} | {name: chosen for name, chosen in parts.items() if not chosen.is_empty()}
    if unknown := [name for name in slices if name not in (*there, "all")]:
        raise BadInput(f"no verdicts in slice {known_values(unknown[0], there)}")
    return list(there.items()) if "all" in slices else [(name, there[name]) for name in slices or (OVERALL,)]


def judge_fragility(verdicts: pl.DataFrame, method: BoardMethod, slices: Sequence[str]) -> list[Fragility]:
    """How few prompts change the order of the boards of slices: the votes of a prompt are removed or reversed together.

    `verdicts` and `slices` as for `judge_boards`.
    """
    parts, by_prompt = _by_slice(outcomes(verdicts, method.baseline), slices), RatingMethod(cluster=Cluster.QUESTION)
    return [row for name, chosen in parts for row in fragility(battles_of(chosen, method), name, by_prompt)]


def as_ratings(board: Sequence[Row]) -> list[Rating]:
    """The scores of a board as ratings, for agreement with another board."""
    return [
        Rating(
            slice=row.slice, model=row.model, rating=row.score, ci95_low=row.score_ci95_low,
            ci95_high=row.score_ci95_high, rank=row.rank,
            battles=row.much_better + row.better + row.tie + row.worse + row.much_worse, flags=row.flags,
        )
        for row in board
        if isinstance(row, JudgeRating) and row.score is not None
    ]  # fmt: skip


def _board(
    outcome_rows: pl.DataFrame, name: str, method: BoardMethod, judge: str, tokens: Mapping[str, float], prompts: int
) -> list[JudgeRating]:
    counting = _counting(outcome_rows, method)
    verdicts_due = max(prompts, counting["question_id"].n_unique()) * int(
        counting.group_by("question_id", "model").len()["len"].max()  # type: ignore[arg-type]
    )
    cast = _votes(battles_of(outcome_rows, method), method)
    models = sorted({*counting["model"], method.baseline})
    counted = _counted(counting, _seen(method))
    prompts_of = np.array([counted[model].pop("prompts") if model in counted else 0 for model in models])
    numbers = _numbers(cast, models, method, prompts_of)
    rows = []
    for model, of_model, judged in zip(models, numbers, prompts_of, strict=True):
        counts = counted.get(model) or dict.fromkeys((*_COUNTS, "no_verdict"), 0)
        verdicts = counts.pop("verdicts", 0)
        coverage = 1.0 if model == method.baseline else verdicts / verdicts_due
        score = of_model["score"]
        marks = {"low_coverage": coverage < COVERAGE_MIN, "only_wins": score == 100, "only_losses": score == 0}
        marks |= {
            "few_votes": 0 < judged < FEW_VOTES,
            "only_ties": 0 < counts["tie"] == sum(counts[n] for n in _COUNTS),
        }
        flags = [flag for flag, holds in marks.items() if holds] + ["same_vendor"] * same_vendor(judge, model)
        flags += ["few_prompts"] * (name != OVERALL and counting["question_id"].n_unique() < FEW_PROMPTS)
        about = {"slice": name, "judge": judge, "model": model, "win_rate": None, "reward": None}
        about |= {"mean_tokens": tokens.get(model), "coverage": coverage, "flags": flags}
        rows.append(JudgeRating.model_validate(about | of_model | counts))
    return sorted(rows, key=lambda row: place_on_board(row.flags, row.rank, row.score, row.model))


_NUMBERS = ("score", "score_ci95_low", "score_ci95_high", "rating", "ci95_low", "ci95_high", "rank")


def _numbers(cast: Votes, models: list[str], method: BoardMethod, prompts: Vector) -> list[dict[str, float | None]]:
    """Score, rating, their intervals, and the rank of each model; `prompts` (models,): those with a verdict on it."""
    point = _win_shares(cast, models, method.baseline)
    rated_models = np.flatnonzero(~np.isnan(point))
    point = point[rated_models]
    samples = np.array(
        [
            _win_shares(cast, models, method.baseline, n)[rated_models]
            for n in draws(cast, method.bootstraps, method.seed)
        ]
        if len(rated_models) > 1
        else [point]
    )
    # 95 % intervals of win rates. Resampled rows get the published quantiles: NumPy's, with the point as a round
    if method.interval is Resampled.PROMPTS:
        low, high = quantiles95(samples, point)
    else:
        low, high = np.nanquantile(np.vstack([point, samples]), [0.025, 0.975], axis=0)
    # Few prompts hardly vary between samples, and alike ones not at all: their intervals are at least Wilson's, and
    # those of differences at least what both make together (Newcombe 1998)
    alike = ((high == low) | (prompts[rated_models] < FEW_VOTES)) & (rated_models != models.index(method.baseline))
    least = wilson95(point, prompts[rated_models])
    low, high = np.where(alike, np.minimum(low, least[0]), low), np.where(alike, np.maximum(high, least[1]), high)
    together = np.subtract.outer(point, point) - np.hypot.outer(point - low, high - point)
    sampled = sampled_leads(samples, point)
    leads = np.where(np.logical_or.outer(alike, alike), np.minimum(sampled, together), sampled)
    score = 100 * np.stack([point, low, high])
    rating, bounded = np.full(score.shape, np.nan), (score > 0) & (score < 100)
    rating[bounded] = 1000 + SCALE * np.log(score[bounded] / (100 - score[bounded]))
    rank = ranks(leads, np.zeros(len(rated_models), np.int64), np.ones(len(rated_models), bool))
    columns = np.full((len(_NUMBERS), len(models)), np.nan)
    columns[:, rated_models] = np.vstack([score, rating, np.array(rank, np.float64)])
    return [
        dict(zip(_NUMBERS, (None if np.isnan(n) else n for n in of_model), strict=True))
        for of_model in columns.T.tolist()
    ]


def _counting(outcome_rows: pl.DataFrame, method: BoardMethod) -> pl.DataFrame:
    """The verdicts that count: each, or one a prompt and model whose winner both orders name, or else a tie.

    Where the orders differ in strength, the weaker one counts. A pair with a verdict in one order only has none; where
    each counts, it counts.
    """
    if method.orders is not Orders.AGREE:
        return outcome_rows
    outcome = pl.col("outcome")
    # One value is one prompt and model: the outcome nearer to zero where both have one sign, else a tie.
    weaker = pl.when(outcome.min() > 0).then(outcome.min()).when(outcome.max() < 0).then(outcome.max()).otherwise(0)
    merged = outcome_rows.group_by("question_id", "model", maintain_order=True).agg(
        shown=pl.len(), outcome=pl.when(outcome.count() == 2).then(weaker)
    )
    if (merged["shown"] < 2).all():
        raise BadInput("--orders agree needs verdicts in both orders, and every pair was shown in one; use each")
    return merged


def battles_of(compared: pl.DataFrame, method: BoardMethod) -> pl.DataFrame:
    """`outcomes` as `rateable` battles, of each model against the baseline, with the weights and ties of the method."""
    cast = _counting(compared, method).with_columns(_seen(method)).drop_nulls("outcome")
    label = pl.col("outcome").replace_strict(_LABEL, return_dtype=pl.String)
    battles = cast.select("question_id", model_a="model", model_b=pl.lit(method.baseline), winner=label)
    return rateable(battles, strong_weight=method.strong_weight)


def _seen(method: BoardMethod) -> pl.Expr:
    return pl.col("outcome").fill_null(0) if method.no_verdict is NoVerdict.TIE else pl.col("outcome")


def _votes(battles: pl.DataFrame, method: BoardMethod) -> Votes:
    cast = votes(battles, "question_id")
    if method.interval is Resampled.PROMPTS:
        return cast
    return replace(cast, times=cast.weight, weight=np.ones(len(cast.weight)), cluster=None).grouped()


def _win_shares(cast: Votes, models: list[str], baseline: str, times: Vector | None = None) -> Vector:
    """Win rate (models,) against the baseline, 0 to 1; NaN without a vote, 0.5 for the baseline."""
    won, games = cast.sums(times)
    place = {name: number for number, name in enumerate(models)}
    numbers: Numbers = np.array([place[name] for name in cast.models], np.int64)
    ends = numbers[cast.pairs] if len(cast.pairs) else np.zeros((0, 2), np.int64)
    is_first = ends[:, 0] != place[baseline]
    share = np.divide(won, games, out=np.full(len(won), np.nan), where=games > 0)
    shares = np.full(len(models), np.nan)
    shares[np.where(is_first, ends[:, 0], ends[:, 1])] = np.where(is_first, share, 1 - share)
    shares[place[baseline]] = 0.5
    return shares


def _counted(counting: pl.DataFrame, seen: pl.Expr) -> dict[str, dict[str, float]]:
    """Model -> its five counts, no_verdict, verdicts, win_rate and reward. Prompts without a verdict are not won."""
    outcome = pl.col("outcome").cast(pl.Int64)
    won = counting.group_by("question_id", "model").agg(won=outcome.fill_null(0).sum() > 0)
    rates = won.group_by("model").agg(win_rate=100 * pl.col("won").mean())
    counts = counting.group_by("model").agg(
        **{name: (seen == value).sum() for name, value in _COUNTS.items()},
        no_verdict=outcome.null_count(),
        prompts=pl.col("question_id").filter(seen.is_not_null()).n_unique(),
        verdicts=outcome.count(),
        reward=50 * outcome.fill_null(0).mean(),
    )
    return {row.pop("model"): row for row in counts.join(rates, on="model").to_dicts()}


def vendor(model: str) -> str | None:
    """The vendor of a model, by its name."""
    name = model.rpartition("/")[2].lower()
    return next((vendor for vendor, begins in _VENDORS.items() if re.match(begins, name)), None)


def same_vendor(judge: str, model: str) -> bool:
    """Whether judge and model are of one vendor, as far as their names tell."""
    return vendor(judge) is not None and vendor(judge) == vendor(model)


def judge_bias(compared: pl.DataFrame, judge: str, baseline: str) -> JudgeBias:
    """`JudgeBias` of `outcomes`, which may have a column fenced_marks."""
    models = compared.filter(pl.col("model") != baseline)
    first = pl.when(pl.col("model_a") == pl.col("model")).then("outcome").otherwise(-pl.col("outcome"))
    seats = models.drop_nulls("outcome").with_columns(first=first.sign())
    pairs = seats.group_by("question_id", "model").agg(orders=pl.len(), first=pl.col("first"))
    both = pairs.filter(pl.col("orders") == 2)
    sides = both["first"].list.sum().abs()
    decisive = both["first"].explode().drop_nulls().cast(pl.Int64)
    decisive = decisive.filter(decisive != 0)
    flipped = int((sides == 2).sum())
    return JudgeBias(
        judge=judge,
        verdicts=seats.height,
        no_verdicts=models.height - seats.height,
        both_orders=both.height,
        flipped=flipped,
        flipped_fraction=flipped / both.height if both.height else None,
        first_seat_fraction=float((decisive > 0).sum()) / len(decisive) if len(decisive) else None,
        same_vendor=sorted(name for name in {*models["model"], baseline} if same_vendor(judge, name)),
        fenced_marks=int(compared["fenced_marks"].sum()) if "fenced_marks" in compared.columns else 0,
    )


_COVARIATES = ("tokens", "headers", "list_items", "bold")
"""The covariates of `curate rate` that an answer's text has; named entities are not measured on answers."""


def style_of_answers(
    answers: Iterable[tuple[str, str, str]],
    count_tokens: Callable[[Sequence[str]], Sequence[object]],
    markdown: Callable[[str], Markdown],
) -> pl.DataFrame:
    """model, question_id and the counts of (model, question, text), as `curate rate` counts those of conversations."""
    answer_rows = list(answers)
    rows = []
    for (model, question_id, text), tokens in zip(
        answer_rows, count_tokens([text for _, _, text in answer_rows]), strict=True
    ):
        marks = markdown(text)
        headers = marks.h1 + marks.h2 + marks.h3 + marks.h4 + marks.h5 + marks.h6
        listed, bold = marks.ordered + marks.unordered, marks.bold_stars + marks.bold_underscores
        counted = tokens if isinstance(tokens, int) else None
        rows.append((model, question_id, counted, headers, listed, bold))
    schema: dict[str, pl.DataType] = {"model": pl.String(), "question_id": pl.String()}
    return pl.DataFrame(rows, schema | dict.fromkeys(_COVARIATES, pl.Float64()), orient="row")


def style_controlled(
    plain: Sequence[JudgeRating], verdicts: pl.DataFrame, style: pl.DataFrame, method: BoardMethod, preset: StylePreset
) -> tuple[list[JudgeRating], list[StyleCoefficient], int]:
    """The boards with scores, ratings, intervals and ranks under style control; the coefficients; verdicts left out.

    `plain` may have several slices, each of which is fitted alone. Intervals resample whole prompts, whatever the
    method says. A verdict is left out when an answer has no counts. `style`: `style_of_answers`. Raises BadInput when
    none is left in a slice.
    """
    boards, coefficients, left_out = list[JudgeRating](), list[StyleCoefficient](), 0
    for name in dict.fromkeys(row.slice for row in plain):
        of_slice = [row for row in plain if row.slice == name]
        chosen = verdicts if name == OVERALL else verdicts.filter(pl.col(name))
        board, effects, lacking = _one_board(of_slice, chosen, style, method, preset)
        boards += board if name == OVERALL else [row.model_copy(update={"slice": name}) for row in board]
        coefficients += [row.model_copy(update={"slice": name}) for row in effects]
        left_out += lacking
    return boards, coefficients, left_out


def _one_board(
    plain: Sequence[JudgeRating], verdicts: pl.DataFrame, style: pl.DataFrame, method: BoardMethod, preset: StylePreset
) -> tuple[list[JudgeRating], list[StyleCoefficient], int]:
    baseline = method.baseline
    counted = battles = battles_of(outcomes(verdicts, baseline), method)
    for side in ("a", "b"):
        counts = style.rename({"model": f"model_{side}"} | {name: f"{name}_{side}" for name in _COVARIATES})
        counted = counted.join(counts, on=[f"model_{side}", "question_id"], how="left", maintain_order="left")
    counted = counted.drop_nulls([f"{name}_{side}" for name in _COVARIATES for side in ("a", "b")])
    if counted.is_empty():
        raise BadInput("no verdict is on two answers whose texts are known; style control needs both")
    rating = RatingMethod(
        bootstraps=method.bootstraps, seed=method.seed, anchor_model=baseline, cluster=Cluster.QUESTION,
        style_preset=preset,
    )  # fmt: skip
    rows, coefficients = style_board(counted, rating, sides_drawn=False)
    row_of_model = {row.model: row for row in rows}
    board = [_controlled(row, row_of_model.get(row.model), row.model == baseline) for row in plain]
    ordered = sorted(board, key=lambda row: (row.score is None, -(row.score or 0), row.model))
    return ordered, coefficients, battles.height - counted.height


def _controlled(plain: JudgeRating, fitted_rating: Rating | None, is_baseline: bool) -> JudgeRating:
    """The row with what the fit says; a model that only won, or only lost, keeps its score.

    One without a vote in the fit has no score: its verdicts were left out because its texts are unknown.
    """
    changed: dict[str, object] = {"slice": STYLE_CONTROL, "rank": fitted_rating.rank if fitted_rating else None}
    if not is_baseline and not (fitted_rating and plain.score in (0, 100)):
        for name in ("rating", "ci95_low", "ci95_high"):
            end = changed[name] = getattr(fitted_rating, name) if fitted_rating else None
            # percent won against the baseline, whose rating is 1000
            won = None if end is None else float(100 / (1 + 10 ** ((1000 - end) / 400)))
            changed["score" if name == "rating" else f"score_{name}"] = won
    return plain.model_copy(update=changed)
