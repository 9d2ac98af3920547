"""Every published make of battle table is read for what it says; votes say more than who won."""

import json
from datetime import UTC, datetime
from functools import partial

import numpy as np
import orjson
import polars as pl
import pytest

from schemas.errors import BadInput
from schemas.rating import Cluster, Interval, RatingMethod
from tasks.leaderboard.battle_files import read_battles, read_board
from tasks.leaderboard.leaderboard import leaderboard
from tasks.leaderboard.rating_tables import RatingTables
from tasks.leaderboard.records import pair_records, win_rates
from tasks.leaderboard.style_control import style_board
from tasks.leaderboard.votes import rateable, votes
from tests.places import PUBLISHED
from tests.tasks.leaderboard.battle_tables import beats, drawn, games

COUNTS = {"h1": 1, "h2": 2, "h3": 0, "h4": 0, "h5": 0, "h6": 0}
METADATA = {
    "sum_assistant_a_tokens": 120, "sum_assistant_b_tokens": 80, "header_count_a": COUNTS, "header_count_b": COUNTS,
    "list_count_a": {"ordered": 4, "unordered": 1}, "list_count_b": {"ordered": 0, "unordered": 0},
    "bold_count_a": {"**": 2, "__": 1}, "bold_count_b": {"**": 0, "__": 0},
}  # fmt: skip
STYLE = {"tokens_a": 120, "headers_a": 3, "list_items_a": 5, "bold_a": 3, "tokens_b": 80, "bold_b": 0}
VISION_ARENA = {
    "question_id": "q", "model_a": "A", "model_b": "B", "winner": "tie (bothbad)", "judge": "arena_user_x",
    "conversation_a": [{"role": "user", "content": "?"}], "num_turns": 2, "language": "English",
    "tstamp": 1725000000.5, "images": [{"bytes": b"png", "path": "p"}], "conv_metadata": METADATA,
    "categories": {"captioning": True, "ocr": False, "is_code": True, "refusal": False},
}  # fmt: skip
PREFERENCE = {
    "id": "1", "model_a": "A", "model_b": "B", "winner": "both_bad", "evaluation_session_id": "s",
    "conv_metadata": METADATA, "category_tag": {"math_v0.1": {"math": True}, "if_v0.1": {"if": False, "score": 2}},
    "language": "en", "is_code": False, "timestamp": datetime(2025, 5, 1, tzinfo=UTC),
}  # fmt: skip
RELEASED = VISION_ARENA | {
    "conv_metadata": {
        "context_tokens": 9,
        "a": {"assistant_tokens": 120, "headers": 3, "list_items": 5, "bold": 3, "entities": 7},
        "b": {"assistant_tokens": 80, "headers": 3, "list_items": 0, "bold": 0, "entities": 2},
    }
}


def parquet(folder, row):
    path = folder / "battles.parquet"
    pl.DataFrame([row]).write_parquet(path)
    return path


@pytest.mark.parametrize("row", [VISION_ARENA, PREFERENCE, RELEASED], ids=["vision", "preference", "released"])
def test_style_lies_in_the_metadata_of_every_published_make(tmp_path, row):
    found = read_battles(parquet(tmp_path, row)).row(0, named=True)
    assert {name: found[name] for name in STYLE} == STYLE
    assert rateable(read_battles(tmp_path / "battles.parquet"))["winner"].to_list() == ["tie_bothbad"]


def test_a_release_tells_its_named_entities_and_one_made_without_them_has_none(tmp_path):
    found = read_battles(parquet(tmp_path, RELEASED))
    assert found.select("entities_a", "entities_b").row(0) == (7, 2)
    sides = {side: {n: v for n, v in RELEASED["conv_metadata"][side].items() if n != "entities"} for side in ("a", "b")}
    older = read_battles(parquet(tmp_path, RELEASED | {"conv_metadata": sides}))
    assert "entities_a" not in older.columns and older["bold_a"].item() == 3


def test_metadata_that_is_missing_is_not_zero(tmp_path):
    counted, missing = VISION_ARENA, VISION_ARENA | {"conv_metadata": None}
    pl.DataFrame([counted, missing], infer_schema_length=None).write_parquet(tmp_path / "v.parquet")
    found = read_battles(tmp_path / "v.parquet")
    assert found.select(*STYLE).rows()[1] == (None,) * len(STYLE)


def test_vision_arena_columns_are_told_and_images_never_read(tmp_path):
    found = read_battles(parquet(tmp_path, VISION_ARENA)).row(0, named=True)
    assert (found["judge"], found["language"]) == ("arena_user_x", "English")
    assert found["tstamp"] == datetime.fromtimestamp(1725000000.5, UTC)
    assert (found["category:captioning"], found["category:ocr"], found["category:code"]) == (True, False, True)
    assert found["category:multi_turn"] is True and found["refusal"] is False
    assert not {"images", "conversation_a"} & set(read_battles(parquet(tmp_path, VISION_ARENA)).columns)


def test_preference_columns_are_told(tmp_path):
    found = read_battles(parquet(tmp_path, PREFERENCE)).row(0, named=True)
    assert (found["category:math"], found["category:if"], found["category:code"]) == (True, False, False)
    assert (found["judge"], found["tstamp"]) == ("s", datetime(2025, 5, 1, tzinfo=UTC))


def test_a_folder_of_shards_is_one_table(tmp_path):
    for number in range(3):
        parquet(tmp_path, VISION_ARENA | {"model_a": f"A{number}"}).rename(tmp_path / f"train-{number}.parquet")
    assert read_battles(tmp_path)["model_a"].to_list() == ["A0", "A1", "A2"]


PLAIN = "model_a,model_b,winner,tstamp,tokens_a,tokens_b\n007,B,model_a,1725000000,5,6\n7,B,tie,1725086400.5,7,8\n"
LINES = (
    b'{"model_a": "007", "model_b": "B", "winner": "model_a"}\n\n{"model_a": "7", "model_b": "B", "winner": "tie"}\n'
)
ARRAY = b'[{"model_a": "007", "model_b": "B", "winner": "model_a"}, {"model_a": "7", "model_b": "B", "winner": "tie"}]'


@pytest.mark.parametrize(
    ("name", "content"), [("v.csv", PLAIN.encode()), ("v.jsonl", LINES), ("v.json", ARRAY), ("v.json", LINES)]
)
def test_plain_tables_keep_names_that_look_like_numbers(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    found = read_battles(tmp_path / name)
    assert found.select("model_a", "winner").rows() == [("007", "model_a"), ("7", "tie")]


def test_plain_tables_may_have_times_covariates_and_one_hot_votes(tmp_path):
    (tmp_path / "v.csv").write_text(PLAIN)
    found = read_battles(tmp_path / "v.csv")
    assert found["tstamp"][1] == datetime(2024, 8, 31, 6, 40, 0, 500_000, tzinfo=UTC)
    assert found["tokens_b"].to_list() == [6.0, 8.0]
    (tmp_path / "v.csv").write_text(
        "model_a,model_b,winner_model_a,winner_model_b,winner_tie\nA,B,1,0,0\nA,B,0,1,0\nA,B,0,0,1\n"
    )
    assert read_battles(tmp_path / "v.csv")["winner"].to_list() == ["model_a", "model_b", "tie"]


WRONG = [
    ("v.csv", b"model_a,model_b\nA,B\n", "lacks winner; its columns are model_a, model_b"),
    ("v.csv", b"x,y\n1,2\n", "lacks model_a, model_b, winner; its columns are x, y; rename those"),
    ("v.csv", b"left,right,vote\nA,B,tie\n", "lacks winner; its columns are left, right, vote; rename those"),
    ("v.json", b'{"left": {"0": "A"}, "vote": {"0": "B"}}', "lacks model_b, winner; its columns are left, vote"),
    ("v.csv", b"", "cannot be read"),
    ("v.jsonl", b"[1, 2]\n", "row 1 is not a JSON object; write one object a line, or an array of objects"),
    ("v.feather", b"FEA1 not really", "cannot be read"),
    ("v.arrow", b"", "cannot be read"),
    ("v.parquet", b"PAR1 not really", "cannot be read"),
    ("v.xlsx", b"", "unknown kind of table"),
    (
        "v.csv",
        b"model_a,model_b,winner,tstamp\nA,B,tie,yesterday\n",
        "1 of 1 times of vote cannot be read, such as 'yesterday' (a text",
    ),
    (
        "v.csv",
        b"model_a,model_b,winner,tstamp\nA,B,tie,20240620120000\n",
        "cannot be read, such as '20240620120000' (a number that is no time",
    ),
    ("v.csv", b"model_a,model_b,winner,tstamp\nA,B,tie,2150-01-01\n", "cannot be read, not from 1970 to 2099"),
]


@pytest.mark.parametrize(("name", "content", "words"), WRONG)
def test_a_table_that_cannot_be_used_says_why(tmp_path, name, content, words):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(BadInput) as error:
        read_battles(tmp_path / name)
    assert words in str(error.value) and "\n" not in str(error.value)


def test_a_board_of_ours_or_others_is_read(tmp_path):
    (tmp_path / "b.csv").write_text("model,rating,rating_q025,rating_q975\nA,1100,1090,1111\n")
    ours = {"slice": "overall", "model": "A", "rating": 1100, "ci95_low": 1090, "ci95_high": 1111}
    (tmp_path / "b.jsonl").write_bytes(orjson.dumps(ours) + b"\n" + orjson.dumps(ours | {"slice": "x"}))
    assert read_board(tmp_path / "b.csv", "overall") == read_board(tmp_path / "b.jsonl", "overall")
    with pytest.raises(BadInput, match=r"no slice 'y'\. Known: overall, x"):
        read_board(tmp_path / "b.jsonl", "y")
    (tmp_path / "b.csv").write_text("model,rating,ci95_low,ci95_high\nA,many,1,2\n")
    with pytest.raises(BadInput, match="not a number"):
        read_board(tmp_path / "b.csv", "overall")


PRINTED = {"gpt-4-vision-preview": 80.01, "Reka-Flash": 64.79, "claude-3-opus-20240229": 62.15}
"""Scores of WildVision's Table 4, in percent."""
REFERENCE = "claude-3-sonnet-20240229"


def board(battles, **method):
    method = RatingMethod(**method)
    return {row.model: row for row in leaderboard(votes(rateable(battles), method.cluster), method=method)}


def read(folder, content):
    (folder / "v.csv").write_text(content)
    return read_battles(folder / "v.csv")


def test_five_way_verdicts_give_the_win_chances_and_win_rates_that_wildvision_prints(tmp_path):
    labels = pl.read_csv(PUBLISHED / "wildvision-labels.csv").drop_nulls("label_parsed")
    told = labels.filter(pl.col("model").is_in(list(PRINTED)))
    told.select(model_a=pl.lit(REFERENCE), model_b="model", winner="label_parsed").write_csv(tmp_path / "v.csv")
    battles = rateable(read_battles(tmp_path / "v.csv"))
    rows = board(battles)
    chances = {m: 100 / (1 + 10 ** ((rows[REFERENCE].rating - rows[m].rating) / 400)) for m in PRINTED}
    assert chances == pytest.approx(PRINTED, abs=0.005)
    rates = {row.model: row.average_win_rate for row in win_rates(pair_records(battles), REFERENCE)}
    assert {model: 100 * rates[model] for model in PRINTED} == pytest.approx(PRINTED, abs=0.005)
    assert rows["Reka-Flash"].battles == 492


def test_a_weight_of_three_is_three_votes_in_ratings_and_one_in_counts(tmp_path):
    head = "model_a,model_b,winner,weight\n"
    weighed = read(tmp_path, head + "A,B,model_a,3\nB,A,model_a,1\nA,B,tie,2\n")
    copied = games(*beats("A", "B", 3), *beats("B", "A", 1), *[("A", "B", "tie")] * 2)
    ours, theirs = board(weighed), board(copied)
    assert ours["A"].rating == pytest.approx(theirs["A"].rating) and (ours["A"].battles, theirs["A"].battles) == (3, 6)
    assert board(read(tmp_path, head + "A,B,A>>B,1\nB,A,A>B,1\nA,B,A=B,2\n"))["A"].rating == ours["A"].rating
    style = {f"tokens_{side}": pl.Series([3, 4, 5]) for side in "ab"}
    (first, second), _ = style_board(rateable(weighed.with_columns(**style)), RatingMethod())
    assert first.model == "A" and first.rating - second.rating > 50


def test_soft_preferences_are_scores_between_a_loss_and_a_win(tmp_path):
    soft = read(tmp_path, "generator_1,generator_2,preference\nA,B,1.0\nA,B,1.25\nA,B,2.0\nB,A,1.5\n")
    assert soft["winner"].to_list() == ["model_a", "model_a", "model_b", "tie"]
    rows = board(soft)
    share = (1 + 0.75 + 0 + 0.5) / 4
    assert rows["A"].rating - rows["B"].rating == pytest.approx(400 * np.log10(share / (1 - share)))
    assert win_rates(pair_records(rateable(soft)))[0].average_win_rate == pytest.approx(share)


@pytest.mark.parametrize("column", ["preference\nA,B,2.1", "preference\nA,B,many", "winner,weight\nA,B,tie,-1"])
def test_a_preference_or_weight_that_is_none_is_one_clear_line(tmp_path, column):
    with pytest.raises(BadInput, match=r"is not a number from \d .* in 1 of 1 battles"):
        read(tmp_path, f"model_a,model_b,{column}\n")


def test_battles_whose_model_names_were_visible_are_left_out(tmp_path):
    found = read(tmp_path, "model_a,model_b,winner,anony\nA,B,model_a,True\nA,B,model_b,False\nA,B,tie,\n")
    assert found["winner"].to_list() == ["model_a", "tie"]


def test_votes_copied_within_their_clusters_say_no_more_than_the_votes():
    battles = drawn(600, 4, question_id=[f"q{n}" for n in range(600)])
    copied = pl.concat([battles] * 4)
    method = {"interval": Interval.BOOTSTRAP, "bootstraps": 1500}
    width = lambda rows: np.mean([row.ci95_high - row.ci95_low for row in rows.values()])  # noqa: E731
    once, naive = width(board(battles, **method)), width(board(copied, **method))
    clustered = width(board(copied, cluster=Cluster.QUESTION, bootstraps=1500))
    assert clustered == pytest.approx(once, rel=0.07) and naive == pytest.approx(once / 2, rel=0.07)


def test_clustered_intervals_hold_the_truth_where_plain_ones_do_not():
    held: dict[Cluster | None, list[bool]] = {None: [], Cluster.JUDGE: []}
    for seed in range(60):
        generator = np.random.default_rng(seed)
        # 40 judges with 25 votes each; a judge prefers A or B for good, and on the whole both are as strong
        taste = generator.choice([0.2, 0.8], 40).repeat(25)
        winner = np.where(generator.random(1000) < taste, "model_a", "model_b")
        table = pl.DataFrame({"winner": winner, "judge": [f"j{n}" for n in range(40) for _ in range(25)]})
        table = table.with_columns(model_a=pl.lit("A"), model_b=pl.lit("B"))
        for cluster, found in held.items():
            row = board(table, cluster=cluster, bootstraps=200)["A"]
            found.append(row.ci95_low <= 1000 <= row.ci95_high)
    assert np.mean(held[Cluster.JUDGE]) > 0.88 > 0.7 > np.mean(held[None])


def test_a_cluster_that_the_table_lacks_is_an_error_and_votes_without_one_stand_alone():
    with pytest.raises(BadInput, match="no column user, so cluster user"):
        board(drawn(40, 3), cluster=Cluster.USER)
    told = votes(rateable(drawn(4, 3, judge=["x", None, "x", None])), Cluster.JUDGE)
    assert told.cluster is not None and len(set(told.cluster)) == 3 and told.cluster[0] == told.cluster[2]


TABLES = ["style_control", "style_coefficients", "rank_changes", "pair_records", "win_rates", "elo_ratings"]


@pytest.mark.parametrize("name", TABLES)
def test_every_table_of_a_slice_is_that_of_its_battles_alone(name):
    counts = {f"tokens_{side}": np.random.default_rng(n).poisson(50, 800) for n, side in enumerate("ab")}
    battles = drawn(800, 4, language=["English", "Russian", None, "English"] * 200, **counts)
    tables = partial(RatingTables, method=RatingMethod(anchor_model="m1"))
    found = tables(battles, slices=("language:English",)).rows(name)
    alone = tables(battles.filter(language="English")).rows(name)
    assert found and {row.slice for row in found} == {"language:English"}
    for row, other in zip(found, alone, strict=True):
        values, expected = ({k: v for k, v in r.model_dump(exclude={"slice"}).items() if v != []} for r in (row, other))
        assert values == pytest.approx(expected)
    assert {row.slice for row in tables(battles, slices=("all",)).rows(name)} >= {
        "language:English",
        "language:Russian",
    }


def test_a_reference_that_has_no_battle_in_a_slice_is_no_error():
    table = drawn(400, 3, language=["en"] * 400).rows() + [("m0", "late", "model_a", "fr")] * 3
    battles = pl.DataFrame(table, schema=["model_a", "model_b", "winner", "language"], orient="row")
    rows = RatingTables(battles, RatingMethod(), ("language:en",), "late").rows("win_rates")
    assert {row.model for row in rows} == {"m0", "m1", "m2"} and {row.battles_vs_reference for row in rows} == {0}
    with pytest.raises(BadInput, match="Known: late, m0, m1, m2"):
        RatingTables(battles, RatingMethod(), (), "early").rows("win_rates")


@pytest.mark.parametrize("count", [-1, -0.5, "many"])
def test_a_count_that_cannot_be_one_is_refused_where_it_is_read(tmp_path, count):
    rows = [
        {"model_a": "A", "model_b": "B", "winner": "model_a", "tokens_a": tokens, "tokens_b": 3}
        for tokens in (1, count)
    ]
    path = tmp_path / "battles.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    with pytest.raises(BadInput, match="tokens_a is negative or not a number in 1 of 2 battles"):
        read_battles(path)
