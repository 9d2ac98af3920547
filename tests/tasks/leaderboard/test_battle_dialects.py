"""Battle tables as other tools write them give the same votes, at the same times."""

import json
import math
from datetime import UTC, date, datetime, timedelta

import pandas
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import parquet

from schemas.errors import BadInput
from schemas.rating import RatingMethod
from tasks.leaderboard.battle_files import read_battles, read_board, with_prompts
from tasks.leaderboard.rating_tables import RatingTables, within
from tests.places import DATA, needs_data

AT = datetime(2024, 6, 10, 6, 13, 20, tzinfo=UTC)
SECONDS = int(AT.timestamp())
VOTES = [
    {"model_a": ("null", "no")[n % 2], "model_b": ("1e3", "2024-01-01")[n % 3 % 2], "winner": ("tie", "model_a")[n % 2],
     "tstamp": SECONDS + n, "judge": None}
    for n in range(12)
]  # fmt: skip


def read(folder, name, content):
    (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_battles(folder / name)


def test_votes_are_the_same_in_every_shape_of_file(tmp_path):
    frame, votes = pandas.DataFrame(VOTES), pl.DataFrame(VOTES)
    spaced = [vote | {"model_a": f" {vote['model_a']}\u00a0", "winner": f"{vote['winner']} "} for vote in VOTES]
    nan = [vote | {"judge": math.nan, "language": math.inf} for vote in VOTES]
    made = [
        read(tmp_path, "lines.jsonl", "\ufeff" + "\n".join(map(json.dumps, VOTES))),
        read(tmp_path, "nan.jsonl", "\n".join(map(json.dumps, nan))),
        read(tmp_path, "nan.json", json.dumps(nan, indent=2)),
        read(tmp_path, "spaced.ndjson", "\n\n".join(map(json.dumps, spaced))),
        *(read(tmp_path, f"{orient}.json", frame.to_json(orient=orient))
          for orient in ("columns", "records", "index", "split", "table")),
        read(tmp_path, "spaced.csv", pandas.DataFrame(spaced).to_csv(index=False)),
    ]  # fmt: skip
    votes.write_ipc(tmp_path / "file.feather", compression="lz4")
    votes.write_ipc_stream(tmp_path / "stream.arrow")
    made += [read_battles(tmp_path / name) for name in ("file.feather", "stream.arrow")]
    columns = ["model_a", "model_b", "winner", "tstamp"]
    first, *others = (each.select(columns) for each in made)
    assert first.rows() == [(*list(vote.values())[:3], AT + timedelta(seconds=n)) for n, vote in enumerate(VOTES)]
    assert all(each.equals(first) for each in others)


UNITS = {
    "seconds": SECONDS, "milliseconds": SECONDS * 10**3, "microseconds": SECONDS * 10**6,
    "nanoseconds": SECONDS * 10**9, "floats": SECONDS * 1e3, "text": str(SECONDS), "iso": "2024-06-10T08:13:20+02:00",
    "utc": "2024-06-10 06:13:20 UTC", "mail": "Mon, 10 Jun 2024 06:13:20 GMT",
    "mongo": {"$date": {"$numberLong": str(SECONDS * 1000)}},
}  # fmt: skip


@pytest.mark.parametrize("kind", [*UNITS, "all"])
def test_votes_in_any_unit_have_their_time(tmp_path, kind):
    spelled = list(UNITS.values()) if kind == "all" else [UNITS[kind], None, UNITS[kind]]
    votes = [{"model_a": "A", "model_b": "B", "winner": "tie", "tstamp": at} for at in spelled]
    found = read(tmp_path, "v.jsonl", "\n".join(map(json.dumps, votes)))
    assert found["tstamp"].to_list() == [None if at is None else AT for at in spelled]
    lives = RatingTables(found, RatingMethod()).rows("model_lives")
    assert {row.last_day for row in lives} == {AT.date()}
    assert within(found, date(2024, 6, 10), None).height == sum(at is not None for at in spelled)


def test_times_of_types_that_hold_them_are_read_and_those_out_of_this_world_are_not(tmp_path, capsys):
    moments = pa.array([SECONDS * 1000, 1718000000000 * 1000, None], pa.timestamp("ms"))  # year 56411
    table = pl.DataFrame({"model_a": ["A"] * 3, "model_b": ["B"] * 3, "winner": ["tie"] * 3})
    for column in (moments, pl.Series([float(SECONDS), math.nan, math.inf])):
        table.with_columns(tstamp=pl.Series(column)).write_parquet(tmp_path / "v.parquet")
        assert read_battles(tmp_path / "v.parquet")["tstamp"].to_list() == [AT, None, None]
        assert "1 of 2 times of vote cannot be read" in capsys.readouterr().err
    zoned = pl.Series([AT] * 3).dt.convert_time_zone("Asia/Kathmandu").dt.cast_time_unit("ns")
    table.with_columns(tstamp=zoned).write_parquet(tmp_path / "v.parquet")
    assert read_battles(tmp_path / "v.parquet")["tstamp"].to_list() == [AT] * 3


def test_a_row_that_is_none_and_a_time_that_is_none_cost_themselves_alone(tmp_path, capsys):
    lines = [*map(json.dumps, VOTES[:2]), "{oops", "3", json.dumps(VOTES[2] | {"tstamp": "yesterday"})]
    found = read(tmp_path, "v.jsonl", "\n".join(lines))
    assert found["tstamp"].is_null().to_list() == [False, False, True]
    rows, times = capsys.readouterr().err.splitlines()
    unvoted = [VOTES[0] | {name: math.nan} for name in ("winner", "model_a", "model_b")]
    assert read(tmp_path, "n.jsonl", "\n".join(map(json.dumps, [VOTES[1], *unvoted]))).height == 1
    assert "3 of 4 battles lack a model name or a winner; they are left out" in capsys.readouterr().err
    assert rows.endswith("v.jsonl': row 3 is not a JSON object; 2 such rows are left out")
    assert "1 of 3 times of vote cannot be read, such as 'yesterday' (a text that is neither" in times


RAGGED = {
    "a list without quotes": "[A, B],B,tie", "a list with quotes": '["A", "B"],B,tie', "a cell more": "A,B,tie,x",
    "many more": "A,B,tie,x,,,,,y",
}  # fmt: skip


@pytest.mark.parametrize("bad", RAGGED.values(), ids=RAGGED)
@pytest.mark.parametrize("place", [1, 2, 3])
@pytest.mark.parametrize("head", ["model_a,model_b,winner\n", "\n\nmodel_a,model_b,winner\n"], ids=["", "blank lines"])
def test_a_csv_row_with_a_cell_too_many_costs_itself_alone(tmp_path, capsys, bad, place, head):
    rows = ["M1,N,tie", "M2,N,model_a"]
    rows.insert(place - 1, bad)
    assert read(tmp_path, "v.csv", head + "\n".join(rows))["model_a"].to_list() == ["M1", "M2"]
    problem = f"v.csv': row {place} has more cells than the header's 3; 1 such rows are left out\n"
    assert capsys.readouterr().err.endswith(problem)


def test_a_csv_of_ragged_rows_alone_says_what_to_do(tmp_path):
    with pytest.raises(BadInput, match="row 1 has more cells than the header's 3; quote cells with commas"):
        read(tmp_path, "v.csv", "model_a,model_b,winner\n[A, B],C,tie\n[A, B],D,tie\n")


@pytest.mark.parametrize("name", ["model_a", "winner", "language", "tokens_a", "is_code", "conversation_a"])
@pytest.mark.parametrize("odd", [["A"], {"x": 1}], ids=["list", "object"])
@pytest.mark.parametrize("place", [1, 3])
def test_a_json_row_with_a_cell_of_another_kind_costs_itself_alone(tmp_path, capsys, name, odd, place):
    usual = {
        "model_a": "A", "model_b": "B", "winner": "tie", "language": "en", "tokens_a": 3, "is_code": True,
        "conversation_a": "Why?",
    }  # fmt: skip
    rows = [usual, usual | {"model_a": 7}]
    rows.insert(place - 1, usual | {name: odd})
    (tmp_path / "v.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert read_battles(tmp_path / "v.jsonl", prompts=True)["model_a"].to_list() == ["A", "7"]
    kind = "a list" if isinstance(odd, list) else "an object"
    problem = f"row {place} has {kind} as {name}, and other rows a plain value; 1 such rows are left out"
    assert problem in capsys.readouterr().err


@pytest.mark.parametrize("name", ["model_a", "winner", "language"])
def test_a_table_whose_votes_are_lists_is_one_line(tmp_path, name):
    usual = {"model_a": "A", "model_b": "B", "winner": "tie", "language": "en"}
    pl.DataFrame([usual | {name: ["A"]}]).write_parquet(tmp_path / "v.parquet")
    with pytest.raises(BadInput, match=f"lists or objects as {name}; give a text or a number"):
        read_battles(tmp_path / "v.parquet")


@pytest.mark.parametrize("value", [True, [1], {"_seconds": SECONDS}, 20240610120000, "2024/06/10", -1])
def test_times_that_none_can_read_are_one_line(tmp_path, value):
    with pytest.raises(BadInput, match=r"12 of 12 times of vote cannot be read, such as .*seconds"):
        read(tmp_path, "v.jsonl", "\n".join(json.dumps(vote | {"tstamp": value}) for vote in VOTES))


@pytest.mark.parametrize(
    "content", ["{}", '{"model_a": {"0": "A"}}', '{"0": {"model_a": "A"}}', "[]", "[{}]", "null", ""]
)
@pytest.mark.parametrize("name", ["v.json", "v.jsonl"])
def test_json_that_is_no_table_of_battles_is_one_line(tmp_path, name, content):
    with pytest.raises(BadInput, match=r"lacks|not a JSON object"):
        read(tmp_path, name, content)


@needs_data
@pytest.mark.parametrize(
    ("name", "battles"),
    [
        ("nan-in-lines/battles.jsonl", 60),
        ("times-in-milliseconds/battles.jsonl", 80),
        ("json-columns-battles/battles.json", 200),
    ],
)
def test_reported_tables_are_rated(name, battles):
    found = read_battles(DATA / "public-reports" / name)
    assert found.height == battles and found["tstamp"].dt.year().unique().to_list() == [2024]
    assert RatingTables(found, RatingMethod()).rows("model_lives")


HEAD = "model_a,model_b,winner"


@pytest.mark.parametrize("no", ["False", "false ", "0", "0.0", "no"])
def test_named_battles_are_left_out_in_every_spelling(tmp_path, no):
    votes = read(tmp_path, "v.csv", f"{HEAD},anony\nA,B,model_a,{no}\nA,B,tie,True\nA,B,model_b,\n")
    assert votes["winner"].to_list() == ["tie", "model_b"]


def test_whether_names_were_visible_is_never_guessed(tmp_path):
    with pytest.raises(BadInput, match=r"anony is neither true nor false in 1 of 2 battles, such as 'partly'"):
        read(tmp_path, "v.csv", f"{HEAD},anony\nA,B,model_a,partly\nA,B,tie,1\n")


def test_numbers_with_gaps_are_unknown_where_they_say_nothing(tmp_path):
    table = pandas.DataFrame({"model_a": "A", "model_b": "B", "winner": "tie"}, index=range(3))
    pl.from_pandas(table.assign(refusal=[1.0, 0.0, math.nan]), nan_to_null=False).write_parquet(tmp_path / "v.parquet")
    assert read_battles(tmp_path / "v.parquet")["refusal"].to_list() == [True, False, None]


def test_one_hot_votes_are_read_as_pandas_writes_them_with_gaps(tmp_path):
    rows = "A,B,1.0,0.0,0.0\nA,B,0.0,0.0,1.0\nA,B,,,\n"
    votes = read(tmp_path, "v.csv", f"model_a,model_b,winner_model_a,winner_model_b,winner_tie\n{rows}")
    assert votes["winner"].to_list() == ["model_a", "tie"]


def test_chances_to_win_are_no_votes(tmp_path):
    pl.DataFrame(
        {"model_a": "A", "model_b": "B", "winner_model_a": 0.7, "winner_model_b": 0.2, "winner_tie": 0.1}
    ).write_parquet(tmp_path / "v.parquet")
    with pytest.raises(BadInput, match="1 of 1 battles lack a model name or a winner"):
        read_battles(tmp_path / "v.parquet")


@pytest.mark.parametrize("nothing", ["", "nan", "None"])
def test_a_row_without_a_preference_costs_itself_alone(tmp_path, capsys, nothing):
    votes = read(tmp_path, "v.csv", f"generator_1,generator_2,preference\nA,B,1.0\nA,B,{nothing}\nA,B,1.5\n")
    assert votes.select("winner", "score").rows() == [("model_a", 1.0), ("tie", 0.5)]
    assert "1 of 3 battles lack a model name or a winner; they are left out" in capsys.readouterr().err


@pytest.mark.parametrize("turns", ["2", "2.0"])
def test_turns_say_the_same_of_rounds_as_of_the_category(tmp_path, turns):
    votes = read(tmp_path, "v.csv", f"{HEAD},turn\nA,B,tie,{turns}\n")
    assert votes.select("rounds", "category:multi_turn").row(0) == (2.0, True)


@pytest.mark.parametrize("blank", ['""', '" "'])
def test_a_blank_model_is_none(tmp_path, capsys, blank):
    assert read(tmp_path, "v.csv", f"{HEAD}\nA,{blank},tie\nA,B,tie\n").height == 1
    assert "1 of 2 battles lack a model name" in capsys.readouterr().err


def test_blank_voters_are_nobody(tmp_path):
    assert read(tmp_path, "v.csv", f'{HEAD},judge\nA,B,tie,""\nA,B,tie," "\n')["judge"].to_list() == [None, None]


def test_weightless_votes_are_counted(tmp_path, capsys):
    assert read(tmp_path, "v.csv", f"{HEAD},weight\nA,B,tie,0\nA,B,tie,2\n").height == 1
    assert "1 of 2 battles have a weight of 0; they are left out" in capsys.readouterr().err


def test_a_table_of_weightless_votes_is_one_line(tmp_path):
    with pytest.raises(BadInput, match="2 of 2 battles have a weight of 0; give at least one a weight above 0"):
        read(tmp_path, "v.csv", f"{HEAD},weight\nA,B,tie,0\nA,B,tie,0\n")


def rows_with(**cells):
    """Two votes with these cells, as JSON lines."""
    return "".join(json.dumps({"model_a": "A", "model_b": "B", "winner": "tie", **cells}) + "\n" for _ in range(2))


@pytest.mark.parametrize(("prompt", "asks"), [(1234, False), (None, None)])
def test_prompts_that_are_no_texts_are_read_as_what_they_say(tmp_path, prompt, asks):
    (tmp_path / "v.jsonl").write_text(rows_with(prompt=prompt, vote_reason=None))
    votes = read_battles(tmp_path / "v.jsonl", prompts=True)
    assert votes.select("asks_identity", "reason_words").row(0) == (asks, None)


@pytest.mark.parametrize("column", ["prompt", "reason", "preference", "weight", "anony", "refusal", "turn", "tokens_a"])
def test_lists_in_any_column_are_one_line(tmp_path, column):
    cells = {column: ["a", "b"]} | ({"winner": "tie"} if column != "preference" else {})
    rows = json.loads(rows_with().splitlines()[0]) | cells
    rows = rows if column != "preference" else {name: cell for name, cell in rows.items() if name != "winner"}
    (tmp_path / "v.jsonl").write_text(json.dumps(rows) + "\n")
    with pytest.raises(BadInput, match="lists"):
        read_battles(tmp_path / "v.jsonl", prompts=True)


def test_counts_by_kind_of_which_none_is_known_are_unknown(tmp_path):
    counts = [{"h1": 1, "h2": None}, {"h1": None, "h2": None}]
    table = pl.DataFrame({"model_a": "A", "model_b": "B", "winner": ["tie"] * 2, "header_count_a": counts})
    table.write_parquet(tmp_path / "v.parquet")
    assert read_battles(tmp_path / "v.parquet")["headers_a"].to_list() == [1, None]


SHARD = pl.DataFrame({"model_a": ["A"], "model_b": ["B"], "winner": ["tie"], "language": ["English"]})


@pytest.mark.parametrize(
    ("other", "languages"),
    [
        (SHARD.drop("language"), ["English", None]),
        (SHARD.select(*reversed(SHARD.columns)), ["English", "English"]),
        (SHARD.clear(), ["English"]),
    ],
    ids=["a column less", "another order", "no row"],
)
@pytest.mark.parametrize("names", [("1", "2"), ("2", "1")])
def test_files_of_a_folder_may_differ_in_what_need_not_be_there(tmp_path, other, languages, names):
    for name, shard in zip(names, (SHARD, other), strict=True):
        shard.write_parquet(tmp_path / f"{name}.parquet")
    votes = read_battles(tmp_path)
    assert sorted(votes["language"], key=str) == languages


def test_a_file_without_row_groups_leaves_the_folder_a_table(tmp_path):
    SHARD.write_parquet(tmp_path / "1.parquet")
    schema = SHARD.with_columns(images=pl.lit(b"")).to_arrow().schema
    with parquet.ParquetWriter(tmp_path / "2.parquet", schema):
        pass
    assert read_battles(tmp_path).columns == SHARD.columns


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        ("A,80,-5,5\n,50,0,0\n", "lacks the model in 1 of 2 rows"),
        ("A,80,5,5\n", "ci_lower_offset must be negative"),
        ("A,80,-5,-5\n", "ci_upper_offset must be positive"),
    ],
)
def test_a_board_that_contradicts_itself_is_one_line(tmp_path, rows, problem):
    (tmp_path / "b.csv").write_text(f"model,score,ci_lower_offset,ci_upper_offset\n{rows}")
    with pytest.raises(BadInput, match=problem):
        read_board(tmp_path / "b.csv", "overall")


def released(folder, rows):
    """Battles of a release, and its folder."""
    (folder / "battle").mkdir()
    table = pl.DataFrame(
        [
            {
                "question_id": name,
                "model_a": "A",
                "model_b": "B",
                "winner": "tie",
                "conversation_a": [{"role": "user", "content": text}],
                "images": images,
            }
            for name, text, images in rows
        ],
        schema_overrides={"images": pl.List(pl.Struct({"path": pl.String}))},
    )
    table.write_parquet(folder / "battle" / "train.parquet")
    return with_prompts(read_battles(folder / "battle"), folder)


def test_prompts_without_images_are_told_apart_by_their_texts(tmp_path):
    votes = released(tmp_path, [("1", "a cat", None), ("2", "a dog", None), ("3", "a cat", [])])
    cat, dog, again = votes["prompt"]
    assert cat == again != dog


def test_votes_that_share_an_id_stay_as_many(tmp_path):
    assert released(tmp_path, [("1", "a cat", []), ("1", "a dog", [])]).height == 2
