"""Every published make of battle table is read for what it says."""

from datetime import UTC, datetime

import orjson
import polars as pl
import pytest

from schemas.errors import BadInput
from tasks.leaderboard.battle_files import read_battles, read_board
from tasks.leaderboard.votes import rateable

COUNTS = {"h1": 1, "h2": 2, "h3": 0, "h4": 0, "h5": 0, "h6": 0}
METADATA = {
    "sum_assistant_a_tokens": 120,
    "sum_assistant_b_tokens": 80,
    "header_count_a": COUNTS,
    "header_count_b": COUNTS,
    "list_count_a": {"ordered": 4, "unordered": 1},
    "list_count_b": {"ordered": 0, "unordered": 0},
    "bold_count_a": {"**": 2, "__": 1},
    "bold_count_b": {"**": 0, "__": 0},
}
STYLE = {"tokens_a": 120, "headers_a": 3, "list_items_a": 5, "bold_a": 3, "tokens_b": 80, "bold_b": 0}
VISION_ARENA = {
    "question_id": "q",
    "model_a": "A",
    "model_b": "B",
    "winner": "tie (bothbad)",
    "judge": "arena_user_x",
    "conversation_a": [{"role": "user", "content": "?"}],
    "num_turns": 2,
    "language": "English",
    "tstamp": 1725000000.5,
    "images": [{"bytes": b"png", "path": "p"}],
    "conv_metadata": METADATA,
    "categories": {"captioning": True, "ocr": False, "is_code": True, "refusal": False},
}
PREFERENCE = {
    "id": "1",
    "model_a": "A",
    "model_b": "B",
    "winner": "both_bad",
    "evaluation_session_id": "s",
    "conv_metadata": METADATA,
    "category_tag": {"math_v0.1": {"math": True}, "if_v0.1": {"if": False, "score": 2}},
    "language": "en",
    "is_code": False,
    "timestamp": datetime(2025, 5, 1, tzinfo=UTC),
}
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


def test_vision_arena_columns_are_told(tmp_path):
    found = read_battles(parquet(tmp_path, VISION_ARENA)).row(0, named=True)
    assert (found["judge"], found["language"]) == ("arena_user_x", "English")
    assert found["tstamp"] == datetime.fromtimestamp(1725000000.5, UTC)
    assert (found["category:captioning"], found["category:ocr"], found["category:code"]) == (True, False, True)
    assert found["category:multi_turn"] is True and found["refusal"] is False


def test_preference_columns_are_told(tmp_path):
    found = read_battles(parquet(tmp_path, PREFERENCE)).row(0, named=True)
    assert (found["category:math"], found["category:if"], found["category:code"]) == (True, False, False)
    assert (found["judge"], found["tstamp"]) == ("s", datetime(2025, 5, 1, tzinfo=UTC))


def test_images_are_never_read(tmp_path):
    assert not {"images", "conversation_a"} & set(read_battles(parquet(tmp_path, VISION_ARENA)).columns)


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


def test_plain_tables_may_have_times_and_covariates(tmp_path):
    (tmp_path / "v.csv").write_text(PLAIN)
    found = read_battles(tmp_path / "v.csv")
    assert found["tstamp"][1] == datetime(2024, 8, 31, 6, 40, 0, 500_000, tzinfo=UTC)
    assert found["tokens_b"].to_list() == [6.0, 8.0]


def test_one_hot_votes_are_read(tmp_path):
    (tmp_path / "v.csv").write_text(
        "model_a,model_b,winner_model_a,winner_model_b,winner_tie\nA,B,1,0,0\nA,B,0,1,0\nA,B,0,0,1\n"
    )
    assert read_battles(tmp_path / "v.csv")["winner"].to_list() == ["model_a", "model_b", "tie"]


WRONG = [
    ("v.csv", b"model_a,model_b\nA,B\n", "lacks winner; its columns are model_a, model_b"),
    ("v.csv", b"x,y\n1,2\n", "lacks model_a, model_b, winner; its columns are x, y"),
    ("v.csv", b"", "cannot be read"),
    ("v.jsonl", b'{"model_a": "A", "model_b": "B", "winner": "tie"}\n{oops\n', "line 2 is not JSON"),
    ("v.jsonl", b"[1, 2]\n", "row 1 is not an object"),
    ("v.parquet", b"PAR1 not really", "cannot be read"),
    ("v.xlsx", b"", "unknown kind of table"),
    ("v.csv", b"model_a,model_b,winner,tstamp\nA,B,tie,yesterday\n", "neither seconds since 1970"),
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
