"""`curate rate FILE`: every table from any battle table, and one clear line for what cannot be."""

import json
import re
from functools import partial

import polars as pl
import pytest

from tasks.leaderboard.rating_tables import TABLES
from tests.tasks.leaderboard.battle_tables import beats, drawn, games


@pytest.fixture
def curate(curate):
    """Run `curate rate`: (exit status, stdout, stderr)."""
    return partial(curate, "rate")


@pytest.fixture
def table(tmp_path):
    counts = {f"{name}_{side}": [n % 7 for n in range(400)] for name in ("tokens", "bold") for side in ("a", "b")}
    more = {
        "judge": [f"j{n % 40}" for n in range(400)],
        "language": ["English", "Russian"] * 200,
        "tstamp": [1725000000 + 9000 * n for n in range(400)],
        **counts,
        "tokens_a": [n % 11 for n in range(400)],
    }
    drawn(400, 4, **more).write_csv(tmp_path / "votes.csv")
    return tmp_path / "votes.csv"


def rows(out):
    return [json.loads(line) for line in out.splitlines()]


def test_json_rows_of_a_board_are_the_stable_six_columns(curate, table):
    code, out, err = curate(table, "--json", "--bootstraps", "5")
    assert (code, err) == (0, "")
    assert [set(row) for row in rows(out)] == [{"model", "rating", "ci95_low", "ci95_high", "rank", "battles"}] * 4


def test_what_would_mislead_in_json_is_said_on_stderr(curate, tmp_path):
    games(*drawn(400, 3).rows(), *beats("hero", "m0", 3)).write_csv(tmp_path / "v.csv")
    code, out, err = curate(tmp_path / "v.csv", "--json", "--bootstraps", "5")
    assert code == 0 and len(rows(out)) == 4
    assert "only_wins: hero" in err and "unbounded: hero" in err


def test_thirty_wins_and_no_loss_print_no_end_no_rank_and_a_flag(curate, tmp_path):
    games(*drawn(900, 3).rows(), *beats("hero", "m0", 30)).write_csv(tmp_path / "v.csv")
    hero = next(line for line in curate(tmp_path / "v.csv")[1].splitlines() if "hero" in line)
    assert hero.split()[0] == "-" and " to ∞ " in hero and "only_wins unbounded" in hero


@pytest.mark.parametrize("name", TABLES)
def test_every_table_prints_as_json_and_for_people(curate, table, name):
    code, out, _ = curate(table, "--table", name, "--json", "--bootstraps", "5")
    assert code == 0 and (rows(out) or name in ("outlier_judges", "best_of", "suspects"))
    code, out, _ = curate(table, "--table", name, "--bootstraps", "5")
    words = ("m3", "tokens", "overall", "density", "2024-09", "no rows", "both_bad")
    assert code == 0 and any(word in out for word in words)


def test_slices_are_rows_with_their_name_and_flags(curate, table):
    found = rows(curate(table, "--json", "--slice", "all", "--bootstraps", "3")[1])
    assert {"overall", "language:English", "month:2024-09"} <= {row["slice"] for row in found}
    one = rows(curate(table, "--json", "--slice", "language:English", "--bootstraps", "3")[1])
    assert one == [row for row in found if row["slice"] == "language:English"] and "flags" in one[0]


def test_a_window_of_days_is_rated_alone(curate, table):
    found = rows(curate(table, "--json", "--since", "2024-09-01", "--until", "2024-09-10", "--bootstraps", "3")[1])
    assert sum(row["battles"] for row in found) == 2 * 96


def test_a_board_agrees_with_itself_from_a_file(curate, table, tmp_path):
    (tmp_path / "board.jsonl").write_text(curate(table, "--json", "--bootstraps", "5")[1])
    found = rows(curate(table, "--json", "--agreement", tmp_path / "board.jsonl", "--bootstraps", "5")[1])[0]
    assert (found["models"], found["agreement_strict"]) == (4, 1) and found["spearman"] == pytest.approx(1)


def test_both_bad_votes_count_as_ties_unless_left_out(curate, tmp_path):
    games(*beats("A", "B", 9), *beats("B", "A", 1), *[("A", "B", "both_bad")] * 10).write_csv(tmp_path / "v.csv")
    tied, left_out = (
        rows(curate(tmp_path / "v.csv", "--json", "--bootstraps", "5", "--set", f"both_bad={choice}")[1])
        for choice in ("tie", "exclude")
    )
    assert (tied[0]["battles"], left_out[0]["battles"]) == (20, 10)
    assert left_out[0]["rating"] - 1000 > 1.5 * (tied[0]["rating"] - 1000)


def test_votes_of_outliers_are_left_out_on_request_only(curate, tmp_path):
    votes = games(*beats("A", "B", 19), *[("A", "B", "tie")] * 5)
    votes = votes.with_columns(judge=pl.Series([f"j{n}" for n in range(19)] + ["always"] * 5))
    votes.write_csv(tmp_path / "v.csv")
    for options, battles in (((), 24), (("--set", "exclude_outlier_judges=yes"), 19)):
        found = rows(curate(tmp_path / "v.csv", "--json", "--bootstraps", "3", *options)[1])
        assert [row["battles"] for row in found] == [battles, battles]


WRONG = [
    (("--table", "rating"), "Did you mean ratings?"),
    (("--slice", "language:Englsh"), "Did you mean language:English?"),
    (("--anchor", "m9=1000"), "Known: m0, m1, m2, m3"),
    (("--anchor", "m1"), "MODEL=RATING"),
    (("--anchor", "m1=nan"), "MODEL=RATING"),
    (("--reference", "m9", "--table", "win_rates"), "reference model"),
    (("--since", "2030-01-01"), "the table holds 2024-08-30 to 2024-10-10"),
    (("--since", "soon"), "YYYY-MM-DD"),
    (("--agreement", "nowhere.csv"), "does not exist"),
    (("--agreement", "nowhere.csv", "--slice", "all"), "compares one board"),
    (("--table", "outlier_judges", "--slice", "overall"), "leave --slice out"),
    (("--cluster", "user"), "no column user"),
]


@pytest.mark.parametrize(("arguments", "words"), WRONG)
def test_a_bad_option_is_one_clear_line(refused, table, arguments, words):
    assert words in refused(table, "--bootstraps", "3", *arguments)


def test_the_name_of_a_model_cannot_steer_a_terminal(curate, tmp_path):
    games(*drawn(40, 3).rows(), *beats("\x1b[31mred\x9b0m", "m0", 3)).write_csv(tmp_path / "v.csv")
    for options in ((), ("--json",), ("--table", "pair_records")):
        code, out, err = curate(tmp_path / "v.csv", "--bootstraps", "3", *options)
        assert code == 0 and "red" in out and not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", out + err)


EMPTY = "holds no battle between two different models"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("model_a,model_b,winner\n", EMPTY),
        ("model_a,model_b,winner\nA,A,tie\n", EMPTY),
        ("model_a,model_b,winner\nA,B,draw\nA,B,A\n", "'A, draw'"),
        ("model_a,model_b,winner\n,B,tie\n", "lacks a model name"),
        ("model_a,model_b\nA,B\n", "lacks winner"),
    ],
)
def test_a_bad_table_is_one_clear_line(refused, tmp_path, content, words):
    (tmp_path / "v.csv").write_text(content)
    assert words in refused(tmp_path / "v.csv")


def test_tables_without_voters_or_covariates_say_what_is_lacking(curate, tmp_path):
    drawn(40, 3).write_csv(tmp_path / "v.csv")
    assert "column judge" in curate(tmp_path / "v.csv", "--table", "outlier_judges")[2]
    assert "tokens_a and tokens_b" in curate(tmp_path / "v.csv", "--table", "style_control")[2]
    assert "column tstamp" in curate(tmp_path / "v.csv", "--since", "2024-01-01")[2]


def test_battles_of_a_model_with_itself_are_left_out_and_said(curate, tmp_path):
    pl.DataFrame(games(*beats("A", "B", 3), *beats("B", "A", 1))).write_csv(tmp_path / "plain.csv")
    pl.DataFrame(games(*beats("A", "B", 3), *beats("B", "A", 1), *beats("A", "A", 2))).write_csv(tmp_path / "more.csv")
    plain, more = (curate(tmp_path / name, "--json") for name in ("plain.csv", "more.csv"))
    assert plain[:2] == more[:2]
    assert "itself" not in plain[2] and "note: 2 battles of a model with itself are left out" in more[2]


def test_twice_the_elo_k_moves_the_first_vote_twice_as_far(curate, tmp_path):
    pl.DataFrame(games(*beats("A", "B", 1))).write_csv(tmp_path / "one.csv")

    def best(*options: object) -> float:
        code, out, err = curate(tmp_path / "one.csv", "--table", "elo_ratings", "--json", *options)
        assert code == 0, err
        return max(json.loads(row)["rating"] for row in out.splitlines()) - 1000

    assert (best(), best("--set", "elo_k=8")) == pytest.approx((2.0, 4.0))


ROWS = """question_id,model_a,model_b,winner,anony,question_category,question_subcategory,image_domain
q1,x,y,model_a,true,Analytical,Data Analysis,Expert
q2,y,x,model_b,true,Analytical,Mathematical Reasoning,Expert
q3,x,y,model_b,true,Recognition,,Objects
q4,x,y,tie,true,,,Objects
q5,x,y,model_b,false,Analytical,Data Analysis,
q6,y,x,model_b,true,Recognition,Text Recognition,Expert
"""


@pytest.fixture
def rate(curate, tmp_path):
    """JSON rows and stderr of `curate rate` on the table."""
    table = tmp_path / "votes.csv"
    table.write_text(ROWS)

    def rows(*options):
        code, out, err = curate(table, "--json", *options)
        assert code == 0, err
        return [json.loads(line) for line in out.splitlines()], err

    return rows


def test_every_category_subcategory_and_domain_is_a_slice(rate):
    rows, _ = rate("--table", "vote_shares")
    sizes = {row["slice"]: row["battles"] for row in rows}
    assert sizes["question:Analytical"] == 2
    assert sizes["question:Analytical / Data Analysis"] == 1
    assert (sizes["image:Expert"], sizes["image:Objects"]) == (3, 2)
    assert "question:Recognition / " not in sizes
    board, _ = rate("--slice", "image:Expert")
    assert (board[0]["slice"], board[0]["model"], board[0]["battles"]) == ("image:Expert", "x", 3)


def test_named_votes_count_only_when_asked_for_and_mark_the_board(rate):
    (first, _), err = rate("--slice", "overall")
    assert (first["battles"], "named_votes" in first["flags"], err.count("names were shown")) == (5, False, 0)
    (first, second), err = rate("--slice", "overall", "--named")
    assert (first["battles"], "1 votes are on models whose names were shown" in err) == (6, True)
    assert all("named_votes" in row["flags"] for row in (first, second))


def test_a_card_names_battles_that_each_side_won(rate):
    (card, other), _ = rate("--table", "pair_cards")
    assert (card["model"], card["opponent"], card["wins"], card["losses"], card["ties"]) == ("x", "y", 3, 1, 1)
    assert (card["won"], card["lost"]) == (["q1", "q2", "q6"], ["q3"])
    assert (other["won"], other["lost"]) == (card["lost"], card["won"])
