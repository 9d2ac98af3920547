"""`curate rate` and the stage: every table from any battle table or store, and one clear line for what cannot be."""

import json
import re
from functools import partial

import polars as pl
import pytest

from schemas.policy import Policy, Rename
from schemas.run import StageReport
from schemas.settings import Settings
from schemas.tables import TABLES as STORED
from tasks.leaderboard.rating_tables import RATING_TABLES
from tasks.leaderboard.steps import rate_models, rated_battles
from tasks.storage.tables import Store
from tests.builders import VERSIONS, battle, decision, measure_clean, sides, store_with
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


def test_a_board_is_six_stable_columns_and_slices_and_windows_are_rated_alone(curate, table):
    code, out, err = curate(table, "--json", "--bootstraps", "5")
    assert (code, err) == (0, "")
    assert [set(row) for row in rows(out)] == [{"model", "rating", "ci95_low", "ci95_high", "rank", "battles"}] * 4
    found = rows(curate(table, "--json", "--slice", "all", "--bootstraps", "3")[1])
    assert {"overall", "language:English", "month:2024-09"} <= {row["slice"] for row in found}
    one = rows(curate(table, "--json", "--slice", "language:English", "--bootstraps", "3")[1])
    assert one == [row for row in found if row["slice"] == "language:English"] and "flags" in one[0]
    found = rows(curate(table, "--json", "--since", "2024-09-01", "--until", "2024-09-10", "--bootstraps", "3")[1])
    assert sum(row["battles"] for row in found) == 2 * 96


def test_a_name_cannot_steer_a_terminal_and_what_would_mislead_is_said_on_stderr(curate, tmp_path):
    games(*drawn(400, 3).rows(), *beats("hero", "m0", 3)).write_csv(tmp_path / "v.csv")
    code, out, err = curate(tmp_path / "v.csv", "--json", "--bootstraps", "5")
    assert code == 0 and len(rows(out)) == 4
    assert "only_wins: hero" in err and "unbounded: hero" in err
    games(*drawn(900, 3).rows(), *beats("hero", "m0", 30)).write_csv(tmp_path / "v.csv")
    hero = next(line for line in curate(tmp_path / "v.csv")[1].splitlines() if "hero" in line)
    assert hero.split()[0] == "-" and " to ∞ " in hero and "only_wins unbounded" in hero
    games(*drawn(40, 3).rows(), *beats("\x1b[31mred\x9b0m", "m0", 3)).write_csv(tmp_path / "v.csv")
    for options in ((), ("--json",), ("--table", "pair_records")):
        code, out, err = curate(tmp_path / "v.csv", "--bootstraps", "3", *options)
        assert code == 0 and "red" in out and not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", out + err)


@pytest.mark.parametrize("name", RATING_TABLES)
def test_every_table_prints_as_json_and_for_people(curate, table, name):
    code, out, _ = curate(table, "--table", name, "--json", "--bootstraps", "5")
    assert code == 0 and (rows(out) or name in ("outlier_judges", "best_of", "suspects"))
    code, out, _ = curate(table, "--table", name, "--bootstraps", "5")
    words = ("m3", "tokens", "overall", "density", "2024-09", "no rows", "both_bad")
    assert code == 0 and any(word in out for word in words)


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
    (("--since", "2030-01-01"), "no battle from --since 2030-01-01 on; the table holds 2024-08-30 to 2024-10-10"),
    (("--until", "2020-01-01"), "no battle up to --until 2020-01-01; the table holds 2024-08-30 to 2024-10-10"),
    (("--since", "2024-09-02", "--until", "2024-09-01"), "--until 2024-09-01 is before --since 2024-09-02"),
    (("--since", "soon"), "YYYY-MM-DD"),
    (("--agreement", "nowhere.csv"), "does not exist"),
    (("--agreement", "nowhere.csv", "--slice", "all"), "compares one board"),
    (("--table", "outlier_judges", "--slice", "overall"), "leave --slice out"),
    (("--cluster", "user"), "no column user"),
]


@pytest.mark.parametrize(("arguments", "words"), WRONG)
def test_a_bad_option_is_one_clear_line(refused, table, arguments, words):
    assert words in refused(table, "--bootstraps", "3", *arguments)


EMPTY = "holds no battle between two different models"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("model_a,model_b,winner\n", EMPTY),
        ("model_a,model_b,winner\nA,A,tie\n", EMPTY),
        ("model_a,model_b,winner\nA,B,draw\nA,B,A\n", "'A, draw'"),
        ("model_a,model_b,winner\n,B,tie\n", "1 of 1 battles lack a model name or a winner; every row"),
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


def test_classes_are_slices_named_votes_count_when_asked_for_and_cards_name_battles(rate):
    rows, _ = rate("--table", "vote_shares")
    sizes = {row["slice"]: row["battles"] for row in rows}
    assert sizes["question:Analytical"] == 2
    assert sizes["question:Analytical / Data Analysis"] == 1
    assert (sizes["image:Expert"], sizes["image:Objects"]) == (3, 2)
    assert "question:Recognition / " not in sizes
    board, _ = rate("--slice", "image:Expert")
    assert (board[0]["slice"], board[0]["model"], board[0]["battles"]) == ("image:Expert", "x", 3)
    (first, _), err = rate("--slice", "overall")
    assert (first["battles"], "named_votes" in first["flags"], err.count("names were shown")) == (5, False, 0)
    (first, second), err = rate("--slice", "overall", "--named")
    assert (first["battles"], "1 votes are on models whose names were shown" in err) == (6, True)
    assert all("named_votes" in row["flags"] for row in (first, second))
    (card, other), _ = rate("--table", "pair_cards")
    assert (card["model"], card["opponent"], card["wins"], card["losses"], card["ties"]) == ("x", "y", 3, 1, 1)
    assert (card["won"], card["lost"]) == (["q1", "q2", "q6"], ["q3"])
    assert (other["won"], other["lost"]) == (card["lost"], card["won"])


WINNERS = ["model_a", "model_b", "model_a", "tie", "tie_bothbad", "model_a"]


@pytest.fixture
def store(tmp_path):
    """Six kept battles, one dropped and one not anonymous; the right answer of the first has bold text and names."""
    pairs = [sides(f"b{n}") for n in range(8)]
    battles = [battle(*pair, winner) for pair, winner in zip(pairs, [*WINNERS, "model_a", "model_a"], strict=True)]
    battles[7] = battle(*pairs[7], "model_a", anonymous=False)
    conversations = [side for pair in pairs for side in pair]
    verdicts = [decision(item) for item in (*conversations, *battles)]
    verdicts[len(conversations) + 6] = decision(battles[6], "nsfw")
    verdicts[0] = decision(conversations[0], preset_dataset="memes")
    made = store_with(tmp_path, conversations=conversations, battles=battles, decisions=verdicts)
    bold = {conversations[1].turns[1].text_id: {"bold_stars": 3}}
    named = {conversations[1].turns[1].text_id: {"entities": 4}}
    refused = {conversations[2].turns[1].text_id: {"refusal": True}}
    unmeasured = {conversations[4].turns[1].text_id: None}
    measure_clean(
        made,
        conversations,
        markdown=bold | unmeasured,
        named_entities=named,
        refusal=refused,
        categories={conversations[6].document_id: {"ocr": True}},
    )
    return made


def rated(store, **changes) -> StageReport:
    return rate_models.fn(Settings(store=store.root, bootstraps=4, **changes), VERSIONS)


def test_kept_battles_are_rated_with_what_is_known_of_them_into_every_table(store):
    battles = rated_battles(store, VERSIONS).sort("battle_id")
    assert battles["battle_id"].to_list() == [f"b{n}" for n in range(6)]
    assert battles["bold_b"].to_list()[:2] == [3, 0] and battles["refusal"].to_list()[:2] == [False, True]
    assert battles["entities_b"].to_list() == [4] + [0] * 5 and battles["entities_a"].to_list() == [0] * 6
    assert battles["is_preset"].to_list() == [True] + [False] * 5
    report = rated(store)
    assert report.counts["battles"] == 6
    written = {name: store.read(name) for name in STORED if name in RATING_TABLES}
    assert set(written) == set(RATING_TABLES) - {"style_control", "pair_cards", "plan"}
    empty = ("outlier_judges", "best_of", "suspects")
    assert all(frame.height for name, frame in written.items() if name not in empty)


def test_texts_and_signals_are_read_some_at_a_time_and_no_table_depends_on_how_many(store, monkeypatch):
    rated(store)
    first, whole, slices = {name: store.parts(name) for name in STORED}, Store.read, Store.read_slices
    grow = ("conversations", "redacted_conversations", "decisions", "topics", "signals/")

    def read(self, table, columns=None):
        assert not table.startswith(grow), f"{table} was read at once"
        return whole(self, table, columns)

    monkeypatch.setattr(Store, "read", read)
    monkeypatch.setattr(Store, "read_slices", lambda self, table, columns=None, rows=2: slices(self, table, columns, 2))
    rated(store)
    assert {name: store.parts(name) for name in STORED} == first


def test_models_are_rated_under_the_names_of_the_policy(store):
    policy = Policy(name="renaming", rules=[], renames=[Rename(model="llava-34b", to="llava-next-34b")])
    store.write_bytes(f"policies/{'0' * 12}.json", policy.model_dump_json().encode())
    rated(store)
    assert set(store.read("ratings")["model"]) == {"vicuna-13b", "llava-next-34b"}


def test_boards_hold_the_battles_of_their_slice_and_specificity_is_controlled_for(store):
    rated(store)
    ratings = store.read("ratings")
    battles = dict(ratings.group_by("slice").agg(pl.col("battles").max()).iter_rows())
    assert (battles["overall"], battles["exclude_ties"]) == (6, 4)
    assert (battles["exclude_refusal"], battles["exclude_preset"], battles["category:ocr"]) == (5, 5, 1)
    rated(store)
    flags = dict(store.read("style_coefficients").filter(slice="overall").select("covariate", "flags").iter_rows())
    assert flags == {name: ["constant"] for name in ("tokens", "headers", "list_items")} | {"bold": [], "entities": []}


@pytest.mark.parametrize("signal", ["tokens", "markdown", "named_entities"])
def test_style_control_is_fitted_on_battles_whose_answers_both_have_length_markdown_and_names(store, signal):
    answer = store.read("conversations").filter(conversation_id="b5-right")["turns"][0][1]["text_id"]
    known = store.read(f"signals/{signal}")
    store.replace(f"signals/{signal}", known.filter(pl.col("content_id") != answer))
    rated(store)
    overall = store.read("style_coefficients").filter(slice="overall")
    assert (set(overall["battles"]), set(overall["of"])) == ({4}, {6})


def test_the_note_on_a_board_without_names_says_on_how_many_battles_they_are_counted(curate, tmp_path):
    table = drawn(60, 3).with_columns(tokens_a=pl.int_range(pl.len()), tokens_b=pl.lit(9), entities_a=pl.lit(2))
    table.with_columns(entities_b=pl.when(pl.int_range(pl.len()) < 20).then(1)).write_parquet(tmp_path / "v.parquet")
    _, _, err = curate(tmp_path / "v.parquet", "--table", "style_control")
    words = "entities: counted on both sides of 20 of 60 battles, less than half; the board is not adjusted for it"
    assert words in err


def test_a_store_without_battles_has_empty_boards(tmp_path):
    empty = store_with(tmp_path)
    report = rated(empty)
    assert report.counts == {"battles": 0, "boards": 0, "outlier_judges": 0, "suspects": 0}
    assert empty.read("ratings").is_empty() and empty.read("vote_shares").is_empty()


def test_settings_reach_the_boards(store):
    rated(store, anchor_model="llava-34b", anchor_rating=1114.0, both_bad="exclude", interval="sandwich")
    overall = store.read("ratings").filter(slice="overall")
    anchor = overall.row(by_predicate=pl.col("model") == "llava-34b", named=True)
    assert anchor["battles"] == 5
    assert (anchor["rating"], anchor["ci95_low"]) == pytest.approx((1114, 1114))
