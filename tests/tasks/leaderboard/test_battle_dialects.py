"""Battle tables as other tools write them give the same votes, at the same times."""

import json
import math
from datetime import UTC, date, datetime, timedelta

import pandas
import polars as pl
import pyarrow as pa
import pytest

from schemas.errors import BadInput
from schemas.rating import RatingMethod
from tasks.leaderboard.battle_files import read_battles
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
