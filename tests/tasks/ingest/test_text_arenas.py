"""Published sets of texts: their rows as their cards type them, with each nullable column null once."""

import json
import random
from datetime import UTC, datetime

import pytest

from schemas.errors import BadInput
from schemas.items.test_sets import TEST_SET_MARK
from tasks.ingest.log_files import source_files
from tasks.ingest.shrunk import require_whole
from tasks.storage.tables import Store
from tests.tasks.ingest.foreign import assert_conserved, put_rows, sentence, with_each_null
from tests.tasks.ingest.logs import ingested, rejected, texts

NOON = datetime(2024, 6, 20, 12, tzinfo=UTC)
WINNERS = ["model_a", "model_b", "tie"]
SPELLED_WINNERS = [*WINNERS, "tie (bothbad)"]


def row_of_55k(number: int) -> dict:
    drawn = random.Random(number)
    turns = 1 + number % 3
    lists = {
        name: json.dumps([sentence(drawn) for _ in range(turns)]) for name in ("prompt", "response_a", "response_b")
    }
    models = {"model_a": f"heron-{number % 4}", "model_b": "wren-1"}
    won = {f"winner_{name}": int(number % 3 == place) for place, name in enumerate(("model_a", "model_b", "tie"))}
    return {"id": 30192 + number, **models, **lists, **won}


def row_of_ppe(number: int) -> dict:
    drawn = random.Random(number)
    said = {name: sentence(drawn) for name in ("prompt", "response_1", "response_2")}
    return {
        "question_id": f"{drawn.getrandbits(128):032x}", "model_a": "heron-2", "model_b": "wren-1",
        "winner": SPELLED_WINNERS[number % 4], **said, "language": "English",
        "conv_metadata": {"turns": 1}, "is_code": False,
    }  # fmt: skip


ROLES = ("user", "assistant")


def row_of_wildchat(number: int) -> dict:
    drawn = random.Random(number)
    person = f"{drawn.getrandbits(256):064x}"
    header = {"accept-language": "en", "user-agent": "Mozilla/5.0"}
    facts = {"language": "English", "toxic": False, "redacted": False, "timestamp": NOON, "temperature": None}
    messages = [
        {
            "content": sentence(drawn), "country": "France", "hashed_ip": person if role == "user" else None,
            "header": header, "role": role, "state": "Brittany", "turn_identifier": 1000 + number, **facts,
        }
        for _ in range(1 + number % 3)
        for role in ROLES
    ]  # fmt: skip
    moderation = {"categories": {"sexual/minors": False, "hate": False}, "flagged": False}
    return {
        "conversation_hash": f"{drawn.getrandbits(128):032x}", "model": "gpt-4o-mini", "timestamp": NOON,
        "conversation": messages, "turn": 1, "language": "English", "openai_moderation": [moderation], "toxic": False,
        "redacted": False, "state": "Brittany", "country": "France", "hashed_ip": person, "header": header,
    }  # fmt: skip


def row_of_search_arena(number: int) -> dict:
    drawn = random.Random(number)
    sides = {}
    asked = sentence(drawn)
    for side in "ab":
        messages = [{"role": "user", "content": asked}, {"role": "assistant", "content": sentence(drawn)}]
        trace = {"conv_id": f"{drawn.getrandbits(128):032x}", "formatted_messages": messages, "web_search_trace": ["x"]}
        sides |= {f"messages_{side}": messages, f"system_{side}_metadata": trace}
    return {
        "model_a": "sonar", "model_b": "gpt-4o-search", "winner": SPELLED_WINNERS[number % 4],
        "judge": f"{drawn.getrandbits(256):064x}", "turn": 1, "timestamp": NOON.replace(tzinfo=None), **sides,
        "primary_intent": "Other", "secondary_intent": "Unassigned", "languages": ["English"],
    }  # fmt: skip


# Name -> (row of a number, the columns that may be null, the files that are tried)
SETS = {
    "human-preference-55k": (row_of_55k, [], ["csv", "jsonl", "parquet"]),
    "ppe-human-preference": (row_of_ppe, ["language", "conv_metadata", "is_code"], ["parquet", "csv", "array"]),
    "wildchat": (
        row_of_wildchat,
        ["timestamp", "language", "openai_moderation", "toxic", "redacted", "state", "country", "hashed_ip", "header"],
        ["parquet", "arrow"],
    ),
    "search-arena": (
        row_of_search_arena,
        ["winner", "judge", "timestamp", "primary_intent", "secondary_intent", "languages", "system_a_metadata"],
        ["parquet", "arrow"],
    ),
}


@pytest.mark.parametrize(("name", "kind"), [(name, kind) for name, (_, _, kinds) in SETS.items() for kind in kinds])
def test_a_set_is_recognized_and_every_row_is_read(tmp_path, name, kind):
    row, nullable, _ = SETS[name]
    rows = [*with_each_null(row, nullable), *map(row, range(100, 112))]
    data = put_rows(tmp_path / "data", rows, kind)
    assert [found for _, found in source_files(data)] == [name]
    store = ingested(data, tmp_path / "store")
    assert rejected(store) == {}
    assert_conserved(store, len(rows))
    assert store.read("conversations").height == len(rows) * (1 if name == "wildchat" else 2)


def test_the_votes_of_55k_are_those_of_its_columns(tmp_path):
    rows = [row_of_55k(number) for number in range(9)]
    store = ingested(put_rows(tmp_path / "data", rows, "csv"), tmp_path / "store")
    battles = store.read("battles").sort("line")
    assert battles["winner"].to_list() == [WINNERS[number % 3] for number in range(9)]
    assert battles["turns_a"].to_list() == [1 + number % 3 for number in range(9)]
    asked = {row["prompt"] for row in rows}
    conversations = store.read("conversations").to_dicts()
    assert {json.dumps(texts(row)[::2]) for row in conversations} == asked


def test_a_null_in_a_list_of_55k_is_a_null_turn_and_no_text(tmp_path):
    row = row_of_55k(1) | {"response_b": '["A map.", null]'}
    store = ingested(put_rows(tmp_path / "data", [row], "csv"), tmp_path / "store")
    by_model = {each["model"]: each["null_turns"] for each in store.read("conversations").to_dicts()}
    assert by_model == {"heron-1": [], "wren-1": [3]}


@pytest.mark.parametrize(
    ("change", "reason", "evidence"),
    [
        ({"winner_tie": 1}, "unknown_winner", "2 of model_a, model_b and tie have won"),
        ({"winner_model_a": 0}, "unknown_winner", "no winner and no tie"),
        ({"winner_tie": "perhaps"}, "unknown_winner", "a column of the winner is neither 0 nor 1"),
        ({"response_a": '["one", "too many"]'}, "bad_messages", "1 prompts and 2 answers"),
        ({"prompt": "no list"}, "bad_messages", "a text that is not the JSON of a list"),
        ({"prompt": "[3]"}, "bad_messages", "not a list of texts"),
        ({"prompt": "[]", "response_a": "[]", "response_b": "[]"}, "no_messages", "offset 0 of 0 messages"),
    ],
)
def test_a_row_of_55k_that_contradicts_itself_is_a_reject_with_its_place(tmp_path, change, reason, evidence):
    rows = [row_of_55k(0), row_of_55k(3) | change, row_of_55k(6)]
    store = ingested(put_rows(tmp_path / "data", rows, "csv"), tmp_path / "store")
    assert_conserved(store, 3)
    assert store.read("rejects").select("line", "reason", "evidence").rows() == [(2, reason, evidence)]


def test_rows_of_the_published_test_set_are_marked_in_every_table(tmp_path):
    rows = [row_of_ppe(0), row_of_ppe(1) | {"question_id": "../odd id"}]
    store = ingested(put_rows(tmp_path / "data", rows, "parquet"), tmp_path / "store")
    ids = [*store.read("conversations")["conversation_id"], *store.read("battles")["battle_id"]]
    assert len(ids) == 6 and all(each.startswith(TEST_SET_MARK) for each in ids)


def test_the_person_of_wildchat_is_its_hashed_address_hashed_again(tmp_path):
    same = row_of_wildchat(0)["hashed_ip"]
    rows = [row_of_wildchat(0), row_of_wildchat(1) | {"hashed_ip": same}, row_of_wildchat(2)]
    store = ingested(put_rows(tmp_path / "data", rows, "parquet"), tmp_path / "store")
    people = store.read("conversations").sort("line")["user_id"].to_list()
    assert people[0] == people[1] != people[2] and None not in people
    stored = "".join(str(store.read(table).to_dicts()) for table in ("sightings", "conversations", "rejects"))
    assert same not in stored and "Mozilla" not in stored


def test_chats_of_equal_texts_that_share_their_hash_stay_two(tmp_path):
    rows = [row_of_wildchat(0), row_of_wildchat(0)]
    for message in rows[1]["conversation"]:
        message["turn_identifier"] = 77
    store = ingested(put_rows(tmp_path / "data", rows, "parquet"), tmp_path / "store")
    assert store.read("conversations").height == 2


def test_a_chat_whose_moderation_names_minors_is_quarantined(tmp_path):
    row = row_of_wildchat(0)
    row["openai_moderation"][0]["categories"]["sexual/minors"] = True
    store = ingested(put_rows(tmp_path / "data", [row, row_of_wildchat(1)], "parquet"), tmp_path / "store")
    assert rejected(store) == {("rows.parquet", 1): "csam_flagged"}
    assert store.read("conversations").height == 1


def test_rows_of_search_arena_without_a_winner_are_two_chats_and_no_vote(tmp_path):
    rows = [row_of_search_arena(0), row_of_search_arena(1) | {"winner": None}]
    store = ingested(put_rows(tmp_path / "data", rows, "parquet"), tmp_path / "store")
    conversations = store.read("conversations").sort("line")
    assert conversations["voted"].to_list() == [True, True, False, False]
    assert sorted(conversations["model"].to_list()[2:]) == ["gpt-4o-search", "sonar"]
    assert store.read("sightings").filter(line=2)["side"].to_list() == [0, 1]
    assert store.read("battles")["winner"].to_list() == ["model_a"]
    assert conversations["unread_parts"].explode().drop_nulls().is_empty()


def test_a_row_of_search_arena_that_gets_a_winner_later_is_a_vote_and_has_lost_nothing(tmp_path):
    rows = [row_of_search_arena(number) | {"winner": None} for number in range(4)]
    rows[3]["timestamp"] = None
    unvoted = ingested(put_rows(tmp_path / "data", rows, "parquet"), tmp_path / "store").read("conversations")
    voted = [row | {"winner": WINNERS[number % 3]} for number, row in enumerate(rows)]
    store = ingested(put_rows(tmp_path / "data", voted, "parquet"), tmp_path / "store")
    require_whole(store)
    assert store.height("battles") == 4
    ids = "conversation_id"
    assert store.read("conversations")[ids].sort().equals(unvoted[ids].sort())


@pytest.mark.parametrize(
    ("name", "change", "says"),
    [
        ("wildchat", {"conversation": "a text"}, "conversation is text in place of list"),
        ("search-arena", {"messages_a": "a text"}, "messages_a is text in place of list"),
        ("ppe-human-preference", {"prompt": [1]}, "prompt is list in place of text"),
    ],
)
def test_a_column_of_another_type_is_one_line(tmp_path, refused, name, change, says):
    data = put_rows(tmp_path / "data", [SETS[name][0](0) | change], "parquet")
    for chosen in ((), ("--format", name)):
        err = refused("ingest", "--logs", data, "--store", tmp_path / "store", *chosen)
        assert says in err and name in err and "rows.parquet" in err


@pytest.mark.parametrize("kind", ["parquet", "csv", "jsonl"])
def test_a_renamed_column_is_one_line_with_the_nearest_format(tmp_path, refused, kind):
    row = row_of_55k(0)
    row["winner_draw"] = row.pop("winner_tie")
    data = put_rows(tmp_path / "data", [row], kind)
    err = refused("ingest", "--logs", data, "--store", tmp_path / "store")
    assert "Nearest is human-preference-55k, but it lacks winner_tie" in err and "winner_draw" in err
    err = refused("ingest", "--logs", data, "--store", tmp_path / "store", "--format", "human-preference-55k")
    assert "lacks winner_tie" in err and "winner_draw" in err


BROKEN_CSV = {
    "a quote that is not doubled": ('1,"say "hi" to him",c\n', "expected after .* near line 2"),
    "a quote that never ends": ('1,"say hi,c\n2,x,c\n', "unexpected end of data near line 3"),
    "a field without a name": ("1,a,c,d\n", "line 2 has 10 fields, and the header 9"),
    "a field that lacks": ("1,a,c\n2,a\n", "line 3 has 8 fields, and the header 9"),
}


@pytest.mark.parametrize("broken", BROKEN_CSV)
def test_a_csv_file_that_breaks_off_is_one_line_and_nothing_is_stored(tmp_path, broken):
    records, says = BROKEN_CSV[broken]
    other_fields = "," * (len(row_of_55k(0)) - 3)
    lines = [",".join(row_of_55k(0)), *(f"{record}{other_fields}" for record in records.splitlines())]
    (tmp_path / "rows.csv").write_text("\n".join(lines) + "\n")
    with pytest.raises(BadInput, match=f"^data file 'rows.csv' is no CSV file that can be read: .*{says}"):
        ingested(tmp_path / "rows.csv", tmp_path / "store")
    assert Store(str(tmp_path / "store")).read("log_files").is_empty()


@pytest.mark.parametrize(("delimiter", "name"), [(";", "semicolons"), ("\t", "tabs"), ("|", "bars")])
def test_another_delimiter_is_one_line_that_names_it(tmp_path, delimiter, name):
    (tmp_path / "rows.csv").write_text(delimiter.join(row_of_55k(0)) + "\n")
    with pytest.raises(BadInput, match=f"separates its fields by {name}; write the file with commas"):
        source_files(tmp_path / "rows.csv")


def test_a_csv_file_of_another_encoding_is_one_line(tmp_path):
    folder = put_rows(tmp_path, [row_of_55k(0)], "csv")
    (folder / "rows.csv").write_bytes((folder / "rows.csv").read_bytes().replace(b"heron", b"h\xe9ron"))
    with pytest.raises(BadInput, match=r"'rows.csv' cannot be read \(UnicodeDecodeError\)"):
        ingested(folder, tmp_path / "store")
