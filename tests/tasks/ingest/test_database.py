"""compar:IA's database on a real PostgreSQL: the same rows as from its files, new ones alone, and no address."""

import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from schemas.errors import BadInput
from schemas.settings import Settings
from tasks.ingest import steps
from tasks.ingest.database import DatabaseLost, connected, database_days
from tasks.ingest.take_in import NoObserver
from tasks.storage.tables import Store
from tests.comparia import MODELS, comparison, new_set
from tests.comparia_database import ACCOUNT, ADDRESS, COOKIE, VISITOR, fill, insert, model_id
from tests.pooler import pooled
from tests.postgres_server import PostgresServer, is_installed
from tests.tasks.ingest.logs import ingested

pytestmark = pytest.mark.skipif(not is_installed(), reason="PostgreSQL is not installed")
COMPARED = {
    "conversations": "conversation_id",
    "battles": "battle_id",
    "reactions": ["conversation_id", "turn", "winner"],
}


@pytest.fixture(scope="module")
def server():
    with PostgresServer() as started:
        yield started


def from_database(server: PostgresServer, store: Path, **settings: object) -> Store:
    """The store after the three steps of ingest from the database."""
    chosen = Settings(**{"source": server.address, "store": str(store), "workers": 1} | settings)
    counts = steps.read_log_lines.fn(chosen).counts
    steps.take_in_images.fn(chosen, NoObserver())
    steps.assemble.fn(chosen)
    (store / "counts.txt").write_text(str(counts))
    return Store(str(store))


def read_again(server: PostgresServer, store: Store, **settings: object) -> dict[str, int]:
    """Counts of a later run of the reading."""
    chosen = Settings(source=server.address, store=store.root, **{"workers": 1} | settings)
    counts = steps.read_log_lines.fn(chosen).counts
    steps.assemble.fn(chosen)
    return counts


def tables(store: Store) -> dict[str, list[dict]]:
    """What the set says, without where it stands."""
    return {
        table: store.read(table).drop("source", "line", "tstamp", "day", "first_tstamp", strict=False).sort(key).rows()
        for table, key in COMPARED.items()
    }


def spread(rows: list[dict]) -> list[dict]:
    """The rows with their comparisons on different days."""
    ids = list(dict.fromkeys(row["comparison_id"] for row in rows))
    days = {name: number % 5 for number, name in enumerate(ids)}
    return [row | {"timestamp": row["timestamp"].replace(day=5 + days[row["comparison_id"]])} for row in rows]


@pytest.mark.parametrize("older", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_a_database_gives_what_its_exported_file_gives(server, tmp_path, seed, older):
    rows = spread(new_set(seed, comparisons=20, raw=True))
    if older:
        rows = [row for row in rows if row["response_a"][0]["content"] == row["response_a"][0]["user_content"]]
        rows = [row | {"metadata": row["metadata"] | {"time_to_vote": None}} for row in rows]
    (tmp_path / "logs").mkdir()
    pq.write_table(pa.Table.from_pylist(_as_of_first_turn(rows)), tmp_path / "logs" / "raw.parquet")
    fill(server, rows, older)
    assert tables(from_database(server, tmp_path / "a")) == tables(ingested(tmp_path / "logs", tmp_path / "b"))


def _as_of_first_turn(rows: list[dict]) -> list[dict]:
    """The rows with categories and languages of the comparison, which the database has once for all turns."""
    first = {}
    for row in rows:
        first.setdefault(row["comparison_id"], row["metadata"])
    shared = ("categories", "languages")
    return [
        row | {"metadata": row["metadata"] | {name: first[row["comparison_id"]][name] for name in shared}}
        for row in rows
    ]


def test_models_have_the_names_of_their_table(server, tmp_path):
    fill(server, new_set(raw=True))
    assert set(from_database(server, tmp_path / "s").read("conversations")["model"]) == set(MODELS)


def test_nothing_about_people_is_in_any_file_of_the_store(server, tmp_path):
    fill(server, new_set(raw=True))
    store = from_database(server, tmp_path / "s")
    assert store.height("conversations") > 0
    content = b"".join(path.read_bytes() for path in (tmp_path / "s").rglob("*") if path.is_file())
    # Parts are packed, so the tables are looked at, too.
    text = content + str([store.read(table).to_dicts() for table in ("sightings", "rejects", "log_files")]).encode()
    assert [word for word in (ADDRESS, COOKIE, VISITOR, ACCOUNT) if word.encode() in text] == []


def test_a_second_night_reads_the_days_that_changed_alone(server, tmp_path):
    rows = spread(new_set(comparisons=20, raw=True))
    fill(server, rows)
    store = from_database(server, tmp_path / "s")
    assert read_again(server, store) == {"files": 5, "files_read": 0, "lines": 0, "rejected": 0}
    new = comparison(random.Random(99), 50, 2, raw=True, timestamp=rows[0]["timestamp"].replace(day=20))
    insert(server, new)
    assert read_again(server, store)["lines"] == 2


LATER = {
    "a vote": ("UPDATE turn SET choice = 'b_better' WHERE id = '{turn}'", ("model_b", [], None)),
    "a reason and a comment": (
        "UPDATE turn SET choice = 'b_better', keyword_annotations_b = '[\"useful\", \"incorrect\"]',"
        " custom_annotation_b = 'Short.' WHERE id = '{turn}'",
        ("model_b", ["useful+", "incorrect-"], "Short."),
    ),
    "a reason of its own": (
        "INSERT INTO vote_tag VALUES ('très-vif', 'positive');"
        "UPDATE turn SET choice = 'both_good', keyword_annotations_b = '[\"très-vif\"]' WHERE id = '{turn}'",
        ("tie", ["tr_s_vif+"], None),
    ),
}


@pytest.mark.parametrize("what", LATER)
def test_a_vote_that_comes_later_is_taken_up(server, tmp_path, what):
    statement, expected = LATER[what]
    rows = comparison(random.Random(1), 5, 1, raw=True)  # nobody voted
    fill(server, rows)
    store = from_database(server, tmp_path / "s")
    assert store.height("battles") == 0
    server.run(statement.format(turn=rows[0]["response_id"]))
    counts = read_again(server, store)
    assert "files_shrunk" not in counts
    answers = store.read("reactions").sort("side")
    assert answers.select("winner", "reasons", "comment").rows()[1] == expected


def test_a_turn_that_comes_later_is_taken_up(server, tmp_path):
    rows = comparison(random.Random(1), 3, 2, raw=True)
    fill(server, [rows[0]])
    store = from_database(server, tmp_path / "s")
    assert set(store.read("conversations")["num_turns"]) == {1}
    fill(server, rows)
    read_again(server, store)
    assert set(store.read("conversations")["num_turns"]) == {2}


def test_what_the_source_excludes_later_is_withdrawn_without_a_question(server, tmp_path):
    rows = new_set(comparisons=6, raw=True)
    fill(server, rows)
    store = from_database(server, tmp_path / "s")
    gone = rows[0]["comparison_id"]
    server.run(f"UPDATE comparison SET contains_pii = true, archived = true WHERE id = '{gone}'")
    assert "files_shrunk" not in read_again(server, store)
    assert not any(name.startswith(gone) for name in store.read("conversations")["conversation_id"])
    reasons = store.read("rejects").drop_nulls("line")
    assert reasons.select("reason", "evidence").rows() == [("excluded_by_source", "by archived")]


def test_a_comparison_that_is_analyzed_later_is_taken_up(server, tmp_path):
    rows = comparison(random.Random(1), 0, 1, raw=True)
    fill(server, rows)
    server.run("UPDATE comparison SET llm_analyzed = NULL")
    store = from_database(server, tmp_path / "s")
    assert store.height("conversations") == 0
    server.run("UPDATE comparison SET llm_analyzed = true")
    read_again(server, store)
    assert store.height("battles") == 1


def _delete(server: PostgresServer, comparison_id: str) -> None:
    server.run(
        f"""
        CREATE TEMP TABLE going AS SELECT * FROM turn WHERE comparison_id = '{comparison_id}';
        DELETE FROM user_message WHERE turn_id IN (SELECT id FROM going);
        DELETE FROM turn WHERE id IN (SELECT id FROM going);
        DELETE FROM comparison WHERE id = '{comparison_id}';
        """
    )


def test_deleted_rows_stay_until_the_loss_is_accepted(server, tmp_path):
    rows = new_set(comparisons=6, raw=True)
    fill(server, rows)
    store = from_database(server, tmp_path / "s")
    before = store.height("conversations")
    _delete(server, rows[0]["comparison_id"])
    assert read_again(server, store)["files_shrunk"] == 1
    assert store.height("conversations") == before
    read_again(server, store, accept_shrunk=True)
    assert store.height("conversations") == before - 2


def test_what_tools_did_is_named(server, tmp_path):
    rows = comparison(random.Random(1), 0, 1, raw=True)
    fill(server, rows)
    server.run(
        """UPDATE llm_message SET agent_trace = '[
        {"type": "reasoning", "content": "Hm."}, {"type": "intermediate_content", "content": "I look it up."},
        {"type": "tool_call", "tool_call_id": "1", "name": "search", "arguments_json": "{}"},
        {"type": "tool_result", "tool_call_id": "1", "name": "search", "status": "success", "content": "found"}]'"""
    )
    store = from_database(server, tmp_path / "s")
    assert store.read("conversations")["unread_parts"].to_list() == [["tool_call", "tool"]] * 2
    answer = store.read("conversations")["turns"].to_list()[0][1]["content"]
    assert answer == "I look it up.\n\n" + rows[0]["response_a"][1]["content"]


def test_worker_processes_read_what_one_process_reads(server, tmp_path):
    rows = [
        row | {"timestamp": row["timestamp"].replace(day=1 + number)} for number, row in enumerate(new_set(raw=True))
    ]
    fill(server, rows)  # 24 days, more than are read in this process
    alone, together = (from_database(server, tmp_path / str(workers), workers=workers) for workers in (1, 2))
    assert tables(alone) == tables(together)


def test_a_pooler_that_refuses_options_of_a_start_is_read_like_the_database(server, tmp_path):
    fill(server, spread(new_set(comparisons=10, raw=True)))
    with pooled(server.port) as port:
        address = server.address.replace(str(server.port), str(port))
        store = from_database(server, tmp_path / "pooled", source=address)
    assert tables(store) == tables(from_database(server, tmp_path / "direct"))


@pytest.mark.parametrize("statement", ["INSERT INTO turn VALUES (1) RETURNING id", "CREATE TABLE other (id integer)"])
def test_a_connection_writes_nothing(server, statement):
    server.run("DROP SCHEMA public CASCADE; CREATE SCHEMA public; CREATE TABLE turn (id integer)")
    with connected(server.address) as database, pytest.raises(DatabaseLost, match="ReadOnlySQLTransactionError"):
        database.ask(statement)
    assert server.run("SELECT count(*) FROM turn") == ["0"]


def test_an_interrupted_import_goes_on_from_its_position(server, tmp_path, monkeypatch):
    rows = spread(new_set(comparisons=20, raw=True))
    fill(server, rows)
    monkeypatch.setattr("tasks.ingest.database.ROWS_LISTED_AT_ONCE", 1)
    days = database_days(server.address, "comparia")
    cut = Settings(source=server.address, store=str(tmp_path / "s"), workers=1)

    class Ends(type(days[0])):
        def rows(self, facts):
            server.stop()  # in the middle of the import
            return super().rows(facts)

    (third,) = [Ends(**vars(days[2]))]
    monkeypatch.setattr("tasks.ingest.database.database_days", lambda *_: [*days[:2], third, *days[3:]])
    with pytest.raises(
        BadInput, match=r"went away .* after 2 of 5 days, which are read and kept; run this again"
    ) as told:
        steps.read_log_lines.fn(cut)
    assert "\n" not in str(told.value)
    monkeypatch.undo()
    server.start()
    counts = steps.read_log_lines.fn(cut).counts
    assert (counts["files"], counts["files_read"]) == (5, 3)
    steps.assemble.fn(cut)
    whole = from_database(server, tmp_path / "whole")
    assert tables(Store(str(tmp_path / "s"))) == tables(whole)


MISFITS = {
    "renamed": ("ALTER TABLE turn RENAME choice TO vote", "turn lacks choice"),
    "retyped": ("ALTER TABLE turn ALTER choice TYPE integer USING 1", "turn.choice is another type in place of text"),
    "missing table": ("DROP TABLE user_message", "there is no table user_message"),
    "retyped where it may lack": (
        "ALTER TABLE turn ALTER voted_at TYPE text",
        "turn.voted_at is text in place of timestamp",
    ),
}


@pytest.mark.parametrize("what", MISFITS)
def test_a_database_of_other_columns_is_one_line_that_names_them(server, tmp_path, what):
    statement, words = MISFITS[what]
    fill(server, new_set(comparisons=1, raw=True))
    server.run(statement)
    with pytest.raises(BadInput, match="source is no database of comparia: ") as told:
        from_database(server, tmp_path / "s")
    assert words in str(told.value)
    assert "\n" not in str(told.value)


def test_the_older_tables_are_answered_with_the_format_that_reads_their_export(server, tmp_path):
    server.run(
        "DROP SCHEMA public CASCADE; CREATE SCHEMA public; CREATE TABLE conversations (conversation_pair_id text,"
        " conversation_a jsonb, conversation_b jsonb, model_a_name text, model_b_name text);"
    )
    with pytest.raises(BadInput, match="Nearest is comparia-conversations, whose rows are read from a file"):
        from_database(server, tmp_path / "s")


def test_days_outside_of_the_window_are_not_read(server, tmp_path):
    fill(server, spread(new_set(comparisons=20, raw=True)))
    store = from_database(server, tmp_path / "s", since="2026-01-06", until="2026-01-07")
    assert store.read("log_files")["source"].to_list() == ["comparison/2026-01-06", "comparison/2026-01-07"]
    with pytest.raises(BadInput, match="the database holds 2026-01-05 to 2026-01-09"):
        from_database(server, tmp_path / "t", since="2027-01-01")


def test_the_database_is_as_it_was(server, tmp_path):
    fill(server, new_set(raw=True))
    before = server.run("SELECT count(*), sum(n_tup_ins + n_tup_upd + n_tup_del) FROM pg_stat_user_tables")
    from_database(server, tmp_path / "s")
    assert server.run("SELECT count(*), sum(n_tup_ins + n_tup_upd + n_tup_del) FROM pg_stat_user_tables") == before


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("postgresql://curate:geheim@127.0.0.1/x", "has a password in it"),
        ("postgresql://curate@127.0.0.1/x?password=geheim", "has a password in it"),
        ("mysql://curate@127.0.0.1/x", "no address of a PostgreSQL database"),
        ("postgresql://[::1/x", "no address"),
    ],
)
def test_an_address_that_cannot_be_used_is_one_line_without_its_password(address, words):
    with pytest.raises(BadInput, match=words) as told:
        Settings(source=address, store="s")
    assert "geheim" not in str(told.value)


def test_a_database_beside_logs_is_refused():
    with pytest.raises(BadInput, match="both given"):
        Settings(source="postgresql://127.0.0.1/x", logs="logs", store="s")


def test_a_format_of_files_alone_is_one_line(server, tmp_path):
    with pytest.raises(BadInput, match=r"format of a database: 'lmsys-chat'\. Known: comparia"):
        from_database(server, tmp_path / "s", format="lmsys-chat")


def test_a_server_that_does_not_answer_is_one_line(server, tmp_path):
    nowhere = Settings(source="postgresql://127.0.0.1:9/x", store=str(tmp_path / "s"), workers=1)
    with pytest.raises(BadInput, match=r"source cannot be read .*; check the address, that the server runs") as told:
        steps.read_log_lines.fn(nowhere)
    assert "\n" not in str(told.value)


def test_a_model_without_a_name_keeps_its_id(server, tmp_path):
    fill(server, new_set(raw=True))
    server.run(f"DELETE FROM llm_data WHERE human_id = '{MODELS[0]}'")
    models = set(from_database(server, tmp_path / "s").read("conversations")["model"])
    assert models == {str(model_id(MODELS[0])), *MODELS[1:]}


@pytest.mark.parametrize("column", ["turn.voted_at", "llm_message.updated_at"])
def test_times_with_a_zone_beside_times_without_one_are_read(server, tmp_path, column):
    table, name = column.split(".")
    fill(server, new_set(raw=True))
    seconds = from_database(server, tmp_path / "a").read("reactions")["seconds_to_vote"].sort()
    server.run(f"ALTER TABLE {table} ALTER {name} TYPE timestamptz USING {name} AT TIME ZONE 'UTC'")
    with_zone = from_database(server, tmp_path / "b").read("reactions")["seconds_to_vote"].sort()
    assert with_zone.equals(seconds)
    assert seconds.null_count() < len(seconds)
