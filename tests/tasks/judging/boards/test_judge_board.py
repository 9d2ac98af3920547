"""Boards from verdicts: figures printed by WildVision, rules worked out by hand, boards of written benchmarks."""

import csv
from datetime import UTC, datetime
from functools import partial

import numpy as np
import polars as pl
import pytest

from schemas.benches.judging import BoardMethod, NoVerdict, Orders, Resampled
from schemas.errors import BadInput, CurateError
from schemas.rating import RatingMethod
from tasks.judging.boards.judge_board import judge_bias, judge_boards, judge_fragility, outcomes
from tasks.judging.boards.submission_boards import submission_board
from tasks.judging.visit_battles import one_answer_version, visit_battles
from tasks.leaderboard.agreement import agreement
from tasks.leaderboard.battle_files import read_board
from tasks.leaderboard.bradley_terry import log_strengths
from tasks.leaderboard.records import expected_score
from tasks.leaderboard.votes import rateable, votes
from tests.places import PUBLISHED

FAILED = {"InstructBLIP-7B": 7, "LLaVA-NEXT-13B": 10, "LLaVA-NEXT-7B": 10, "Idefics2": 9}
"""Ties of Table 4 that are judgements without a verdict; of the others 7 or 8."""
COUNTS = ("much_better", "better", "tie", "worse", "much_worse")
LABELS = ("B>>A", "B>A", "A=B", "A>B", "A>>B")


def verdicts(model="m", labels=(), swapped=()):
    """A model's verdicts, one a question, after the baseline; those of `swapped` before it."""
    rows = [(f"q{n}", "base", model, label) for n, label in enumerate(labels)]
    rows += [(f"q{n}", model, "base", label) for n, label in enumerate(swapped)]
    schema = dict.fromkeys(("question_id", "model_a", "model_b", "label"), pl.String)
    return pl.DataFrame(rows, schema=schema, orient="row")


def board(frame, judge="judge", slices=(), tokens=None, **method):
    rows = judge_boards(frame, BoardMethod(baseline="base", **method), judge, tokens or {}, slices)
    return {row.model: row for row in rows}


def of_counts(row, failed):
    counts = [int(float(row[name])) for name in COUNTS]
    counts[2] -= failed
    return verdicts(row["model"], [each for label, n in zip(LABELS, counts, strict=True) for each in [label] * n])


def table4():
    return [
        row
        for row in csv.DictReader((PUBLISHED / "wildvision-table4.csv").read_text().splitlines())
        if row["much_better"]
    ]


def test_wildvisions_table_4_is_reached_without_the_failed_judgements():
    for row in table4():
        options = []
        for failed in [FAILED[row["model"]]] if row["model"] in FAILED else (7, 8):
            whole = pl.concat([of_counts(row, failed), verdicts(row["model"], [None] * failed)])
            whole = whole.with_columns(question_id=pl.int_range(pl.len()).cast(pl.String))
            options.append(board(whole, bootstraps=2)[row["model"]])
        nearest = min(options, key=lambda option: abs(option.score - float(row["score"])))
        assert nearest.score == pytest.approx(float(row["score"]), abs=0.005001), row["model"]
        assert nearest.win_rate == pytest.approx(float(row["win_rate_percent"]), abs=1e-9)
        assert nearest.reward == pytest.approx(float(row["reward"]), abs=0.0500001)


def test_failed_judgements_as_ties_give_the_score_of_wildvisions_repository():
    row = table4()[0]
    whole = pl.concat([of_counts(row, 7), verdicts("GPT-4o", [None] * 7)])
    whole = whole.with_columns(question_id=pl.int_range(pl.len()).cast(pl.String))
    dropped, tied = (board(whole, no_verdict=n, bootstraps=2)["GPT-4o"] for n in NoVerdict)
    assert (round(dropped.score, 2), round(tied.score, 2)) == (89.41, 89.15)
    assert (dropped.tie, dropped.no_verdict, tied.tie, tied.no_verdict) == (7, 7, 14, 7)
    assert dropped.coverage == tied.coverage == 0.986


def test_the_parsed_labels_of_real_judgements_give_the_printed_scores():
    notes = pl.read_csv(PUBLISHED / "wildvision-labels.csv", infer_schema=False).select(
        "question_id", model_a=pl.lit("base"), model_b="model", label=pl.col("label_parsed").replace("", None)
    )
    found = board(notes, bootstraps=2)
    expected = {"gpt-4-vision-preview": 80.01, "Reka-Flash": 64.79, "claude-3-opus-20240229": 62.15}
    expected |= {"liuhaotian/llava-v1.6-34b": 51.91, "gemini-pro-vision": 35.45, "idefics2-8b-chatty": 23.71}
    expected |= {"deepseek-ai/deepseek-vl-7b-chat": 33.48, "BAAI/Bunny-v1_0-3B": 12.70, "bczhou/tiny-llava-v1-hf": 8.01}
    assert {model: round(found[model].score, 2) for model in expected} == expected


def test_visionarenas_tables_7_and_8_agree_as_computed_from_their_figures():
    first, second = (read_board(PUBLISHED / f"visionarena-table{n}.csv", "overall") for n in (7, 8))
    names = {"claude-3.5-sonnet-20240620": "claude-3-5-sonnet-20240620"}
    found = agreement([r.model_copy(update={"model": names.get(r.model, r.model)}) for r in first], second)
    assert (round(found.spearman, 3), round(found.kendall, 3)) == (0.991, 0.950)
    assert (round(found.separability * 120), round(found.separability_reference * 120)) == (114, 112)


def three_models():
    generator = np.random.default_rng(1)
    chances = {"x": (3, 2, 1, 1, 1), "y": (1, 1, 1, 1, 1), "z": (1, 1, 1, 2, 3)}
    return pl.concat(
        verdicts(model, *generator.choice(LABELS, (2, 60), p=np.array(chance) / sum(chance)).tolist())
        for model, chance in chances.items()
    )


def test_the_score_is_the_win_rate_of_a_bradley_terry_fit():
    cast = votes(rateable(three_models().rename({"label": "winner"})))
    strengths = log_strengths(cast.pairs, *cast.sums(), len(cast.models))
    gap = strengths - strengths[cast.models.index("base")]
    fitted = dict(zip(cast.models, 100 / (1 + np.exp(-gap)), strict=True))
    found = board(three_models())
    assert {model: row.score for model, row in found.items()} == pytest.approx(fitted)
    assert {m: row.rating for m, row in found.items()} == pytest.approx(
        {model: 1000 + 400 * np.log10(p / (100 - p)) for model, p in fitted.items()}
    )


def test_prompts_are_resampled_with_both_orders_and_rows_as_published_are_too_narrow():
    agreeing = ["B>>A", "A>>B"] * 30
    frame = verdicts("m", agreeing, [{"B>>A": "A>>B", "A>>B": "B>>A"}[label] for label in agreeing])
    width = {
        how: (row := board(frame, interval=how, bootstraps=400)["m"]).score_ci95_high - row.score_ci95_low
        for how in Resampled
    }
    assert width["prompts"] == pytest.approx(2 * 196 * 0.5 / 60**0.5, rel=0.15)  # 60 independent prompts
    assert width["rows"] == pytest.approx(2 * 196 * 0.5 / 360**0.5, rel=0.15)  # 60 * 2 orders * weight 3


def test_agreeing_orders_give_one_vote_and_contradicting_ones_a_tie():
    each = ["B>>A", "B>A", "A=B", "B>A", "B>A"]
    frame = verdicts("m", each, ["A>B", "A>>B", "A>B", "B>A", None])
    row = board(frame, orders=Orders.AGREE)["m"]
    assert (row.much_better, row.better, row.tie, row.worse, row.no_verdict) == (0, 2, 2, 0, 1)
    assert row.score == 75
    with pytest.raises(BadInput, match="both orders"):
        board(verdicts("m", each), orders=Orders.AGREE)


def test_rows_say_their_coverage_and_models_that_only_win_or_were_never_judged_have_no_rating():
    frame = pl.concat([verdicts("all", ["B>A", "A>B"] * 20), verdicts("some", ["B>A", "A>B"] * 18 + [None] * 2)])
    found = board(frame, tokens={"all": 12.5})
    assert (found["all"].coverage, found["all"].flags, found["all"].mean_tokens) == (1, [], 12.5)
    assert (found["some"].coverage, found["some"].flags, found["some"].no_verdict) == (0.9, ["low_coverage"], 2)
    assert found["base"].score == 50 == found["base"].score_ci95_low == found["base"].score_ci95_high
    frame = pl.concat([verdicts("winner", ["B>A"] * 4), verdicts("silent", [None] * 4)])
    found = board(frame, judge="gpt-4o")
    assert (found["winner"].score, found["winner"].rating, found["winner"].flags) == (
        100,
        None,
        ["only_wins", "few_votes"],
    )
    assert (found["silent"].score, found["silent"].rank) == (None, None)
    assert list(found) == ["winner", "base", "silent"]


def test_a_model_judged_on_a_few_prompts_says_no_more_than_these_and_ranks_compare_the_same_prompts():
    wins = {"good": 70, "better": 78}  # on the same prompts, and on eight more
    frames = [verdicts(model, ["B>A"] * won + ["A>B"] * (100 - won)) for model, won in wins.items()]
    frames += [verdicts(*row) for row in (("one tie", ["A=B"]), ("one win", ["B>A"]), ("tied", ["A=B"] * 90))]
    frame = pl.concat(frames)
    found = board(frame, bootstraps=400)
    assert found["one tie"].score_ci95_low < 10 and found["one tie"].score_ci95_high > 90
    assert (found["one win"].score_ci95_low, found["one win"].score_ci95_high) == pytest.approx((20.7, 100), abs=0.1)
    assert found["one tie"].flags == ["low_coverage", "few_votes", "only_ties"]
    assert found["tied"].score_ci95_high - found["tied"].score_ci95_low > 15 and "only_ties" in found["tied"].flags
    assert found["good"].score_ci95_high > found["better"].score_ci95_low
    assert [found[name].rank for name in ("better", "good", "one win", "one tie")] == [1, 2, 1, 1]


def test_slices_have_boards_of_their_own():
    frame = verdicts("m", ["B>A", "B>A", "A>B"]).with_columns(pl.Series("topic:maps", [True, False, True]))
    rows = judge_boards(frame, BoardMethod(baseline="base"), "j", {}, ("all",))
    scores = {row.slice: row.score for row in rows if row.model == "m"}
    assert scores == {"overall": pytest.approx(200 / 3), "topic:maps": 50}
    with pytest.raises(BadInput, match=r"slice 'topic:map'. Known: overall, topic:maps"):
        board(frame, slices=("topic:map",))


@pytest.mark.parametrize("orders", ["each", "agree"])
@pytest.mark.parametrize("values", [[False] * 3, [None, None, False], [None] * 3])
def test_a_slice_without_a_verdict_has_no_board_beside_those_that_have_one(orders, values):
    frame = verdicts("m", ["B>A"] * 3, ["A>B"] * 3).with_columns(
        pl.Series("tag:maps", values * 2), pl.Series("tag:math", [True, False, None] * 2)
    )
    method = BoardMethod(baseline="base", orders=orders)
    boards = judge_boards(frame, method, "j", {}, ("all",))
    assert {row.slice for row in boards} == {"overall", "tag:math"}
    assert {row.slice for row in judge_fragility(frame, method, ("all",))} == {"overall", "tag:math"}
    for made in (partial(judge_boards, frame, method, "j", {}), partial(judge_fragility, frame, method)):
        with pytest.raises(BadInput, match=r"no verdicts in slice 'tag:maps'. Known: overall, tag:math"):
            made(slices=("tag:maps",))


def test_the_fewest_prompts_whose_verdicts_go_change_the_order_of_two_models():
    frame = pl.concat([verdicts("a", ["B>A"] * 70 + ["A>B"] * 50), verdicts("b", ["A>B"] * 55 + ["B>A"] * 65)])
    rows = judge_fragility(frame, BoardMethod(baseline="base"), ["overall"])
    told = next(r for r in rows if (r.model, r.rival, r.change, r.contest) == ("a", "b", "removed", "neighbours"))
    assert (told.unit, told.of) == ("question_id", 120) and len(told.needed_ids) == told.needed
    assert set(told.needed_ids) <= {f"q{n}" for n in range(55)}, "a won and b lost, or one of it"
    left = board(frame.filter(~pl.col("question_id").is_in(told.needed_ids)))
    assert left["b"].score > left["a"].score and board(frame)["a"].score > board(frame)["b"].score


def test_verdicts_that_flip_with_the_order_and_the_first_seats_share_are_counted():
    frame = verdicts("gpt-4-vision", ["A>B", "B>A", "A=B", None, "A>B"], ["A>>B", "A>B", "A>B", "A>B", "B>A"])
    found = judge_bias(outcomes(frame, "base"), "gpt-4o", "base")
    assert (found.verdicts, found.no_verdicts, found.both_orders, found.flipped) == (9, 1, 4, 1)
    assert found.flipped_fraction == 0.25
    assert found.first_seat_fraction == pytest.approx(5 / 7)
    assert found.same_vendor == ["gpt-4-vision"]
    assert judge_bias(outcomes(verdicts("m", ["A>B"]), "base"), "me", "base").first_seat_fraction is None


@pytest.mark.parametrize(
    ("frame", "told"),
    [
        (verdicts("m", ["A>C"]), "unknown label 'A>C'. Known: A=B"),
        (verdicts("m", ["A>B"]).with_columns(model_a=pl.lit("bass")), "baseline 'base'. Known: bass, m"),
        (pl.concat([verdicts("m", ["A>B"])] * 2), "two verdicts on question 'q0' in one order"),
        (
            pl.concat([verdicts("m", ["A>B"]), verdicts("m", ["A>B"]).with_columns(model_a=pl.lit("other"))]),
            "compares 'other' and 'm', not 'base'",
        ),
    ],
)
def test_verdicts_that_cannot_be_ranked_are_one_clear_line(frame, told):
    with pytest.raises(BadInput, match=told):
        board(frame)


NOW = datetime(2024, 9, 18, tzinfo=UTC)
FAMILIES = {f"i{n}": ("counting", "humor")[n % 2] for n in range(6)}


def _verdicts(*said):
    """Rows of (item, first, second, label), with both orders where the label has two."""
    rows = []
    for item, one, other, labels in said:
        for (first, second), label in zip(((one, other), (other, one)), labels, strict=False):
            rows.append((item, first, second, f"{first}+1", f"{second}+1", label))
    frame = pl.DataFrame(
        rows, schema=["question_id", "model_a", "model_b", "answer_a", "answer_b", "label"], orient="row"
    )
    about = {"shown": pl.col("question_id"), "judge": pl.lit("j"), "judge_version": pl.lit("j+1")}
    return frame.with_columns(**about, protocol=pl.lit("visit"))


X_WINS, Y_WINS, FLIPPED, NONE = ("A>B", "B>A"), ("B>A", "A>B"), ("A>B", "A>B"), (None, None)
SAID = [
    ("i0", "x", "y", X_WINS), ("i1", "x", "y", X_WINS), ("i2", "x", "y", FLIPPED), ("i3", "y", "x", X_WINS),
    ("i0", "x", "reference", Y_WINS), ("i1", "x", "reference", X_WINS), ("i2", "x", "reference", NONE),
    ("i0", "y", "reference", Y_WINS), ("i1", "y", "reference", ("A>B",)), ("i2", "reference", "y", Y_WINS),
]  # fmt: skip


def test_the_published_ratings_expect_the_win_rate_of_the_paper():
    assert round(expected_score(1223, 1085), 2) == 0.69  # not 0.31, as its formula with the sign reversed gives
    assert round(expected_score(1223, 786), 3) == 0.925


def test_ties_flips_unfinished_battles_coverage_and_win_rates_are_counted_for_every_family():
    board = submission_board(_verdicts(*SAID), FAMILIES, "b", RatingMethod(), False, NOW)
    rows = {(row.slice, row.model): row for row in board}
    assert {name for name, _ in rows} == {"overall", "family:counting", "family:humor"}
    x = rows["overall", "x"]
    assert (x.matches, x.ties, x.coverage, x.made_at) == (7, 2, 4 / 6, "2024-09-18T00:00:00Z")
    assert (x.wins_vs_reference, x.decisive_vs_reference, x.battles_vs_reference) == (1, 2, 3)
    assert x.win_rate_vs_reference == 0.5
    assert x.expected_vs_reference == pytest.approx(expected_score(x.rating, rows["overall", "reference"].rating))
    assert rows["overall", "y"].battles_vs_reference == 2  # one order of i1 is missing
    assert rows["family:humor", "x"].matches == 3
    assert rows["overall", "reference"].win_rate_vs_reference is None
    battles = visit_battles(_verdicts(*SAID))
    assert battles.filter("flipped")["question_id"].to_list() == ["i2"]
    assert battles.filter(pl.col("no_verdict") == 2)["winner"].to_list() == ["tie"]


def test_sequential_elo_depends_on_its_order_and_bradley_terry_does_not():
    said = _verdicts(*SAID)
    given, one, other = (
        {row.model: row for row in submission_board(said, FAMILIES, "b", RatingMethod(seed=seed), shuffled, NOW)}
        for seed, shuffled in ((0, False), (1, True), (2, True))
    )
    assert len({round(board["x"].elo, 6) for board in (given, one, other)}) > 1
    assert given["x"].rating == one["x"].rating == other["x"].rating


def test_two_versions_of_a_models_answers_do_not_mix():
    said = _verdicts(*SAID)
    mixed = pl.concat([said, said.with_columns(answer_a=pl.lit("another"))])
    with pytest.raises(CurateError, match="two versions of the answers of"):
        one_answer_version(mixed)
