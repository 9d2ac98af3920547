"""Questions in SQL give what pages show: nothing behind a mask leaves, whatever the question does with a column."""

import io
import json
import os
import random
import shutil
import signal
import sys
import threading
from contextlib import suppress
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from schemas.errors import BadInput, StoreUnwell
from schemas.tables import TABLES
from schemas.upkeep import Audited
from tasks.explore.answer_files import write_answer
from tasks.explore.asked_store import LEFT_OUT_TEXT, NOT_OFFERED, AskedStore, Treatment, treatment
from tasks.explore.questions import OfAskedRelease, OfAskedStore, Questions
from tasks.export.destination import exports
from tasks.storage.content_id import text_id
from tasks.storage.keyed_ids import UNFINISHED, note_unfinished
from tasks.storage.queries.signals import versions_in_use
from tasks.storage.records import add_audit_entry, audit_entries
from tasks.storage.tables import Store
from tests.builders import VERSIONS
from tests.looked_store import EMAIL, SOURCE, USER, Looked

UNSEARCHED, FLAGGED = "Left.", "A flagged prompt"
TEXT_FUNCTIONS = (
    "upper({})", "lower({})", "reverse({})", "substr({}, 1, 40)", "regexp_extract({}, '[a-z.]+@[a-z.]+')",
    "string_agg({}, '|') OVER ()", "hex({})", "base64(encode({}))", "to_json({})", "list_value({})", "{} || ''",
    "replace({}, ' ', '')", "md5({})", "format('{{}}', {})", "struct_pack(a := {})", "translate({}, '@', '#')",
    "split({}, ' ')", "CAST({} AS BLOB)", "max({}) OVER ()", "first({}) OVER ()", "levenshtein({}, '" + EMAIL + "')",
)  # fmt: skip

_CONTENTS = '(SELECT unnest("turns.content") AS content FROM released)'
COMPARISONS = (
    "SELECT count(*) AS n FROM prompts WHERE prompt LIKE '%{}%'",
    "SELECT count(*) AS n FROM battles WHERE contains(vote_reason, '{}')",
    "SELECT sum(strpos(content, '{}')) AS n FROM " + _CONTENTS,
    "SELECT bool_or(content SIMILAR TO '.*{}.*') AS n FROM " + _CONTENTS,
    "SELECT count(*) AS n FROM " + _CONTENTS + " WHERE content > 'Write to {}'",
    "SELECT count(*) AS n FROM turns WHERE text_id = text_id('Write to {}, please')",
)


@pytest.fixture
def own(looked, tmp_path) -> Looked:
    """A copy of the store to write to."""
    return looked._replace(store=Store(str(shutil.copytree(looked.store.root, tmp_path / "store"))))


def asked(root: str, unmasked: bool = False) -> OfAskedStore:
    store = AskedStore.existing(root)
    store.unmasked = unmasked
    return OfAskedStore(store, lambda: versions_in_use(VERSIONS))


def rows_of(questions: Questions, question: str) -> list[dict]:
    return [row for batch in questions.answer(question) for row in batch.to_pylist()]


@pytest.fixture(scope="module")
def questions(looked) -> OfAskedStore:
    return asked(looked.store.root)


def test_no_table_or_view_holds_what_pages_hide(questions, looked):
    raw = {
        row["content"]
        for row in Store(looked.store.root)
        .ask('SELECT unnest("turns.content") AS content FROM conversations')
        .to_dicts()
    }
    assert any(EMAIL in text for text in raw)
    hidden = (EMAIL, f'"{UNSEARCHED}"', FLAGGED, SOURCE, USER, looked.plain, text_id(UNSEARCHED))
    seen = 0
    for view in questions.views():
        rows = rows_of(questions, f'SELECT * FROM "{view}"')
        seen += len(rows)
        shown = json.dumps(rows, default=str, ensure_ascii=False)
        assert [(each, shown[shown.find(each) - 60 :][:120]) for each in hidden if each in shown] == [], view
    assert seen > 100


@pytest.mark.parametrize("form", TEXT_FUNCTIONS)
def test_no_function_reaches_what_is_masked(questions, looked, form):
    """The same function over the texts as they are gives something else: the mask comes before it."""
    column = '(SELECT content FROM (SELECT conversation_id, unnest("turns.content") AS content FROM conversations))'
    column = column.replace("SELECT content", f"SELECT {form.format('content')} AS said", 1).strip("()")
    question = "SELECT " + column.partition("SELECT ")[2] + ") WHERE conversation_id = 'personal'"
    masked, raw = (rows_of(asked(looked.store.root, unmasked), question) for unmasked in (False, True))
    assert len(masked) == len(raw) == 2
    assert masked != raw
    spelled = (EMAIL, EMAIL.upper(), EMAIL[::-1], EMAIL.encode().hex().upper(), EMAIL.replace("@", "#"))
    assert [each for each in spelled if each in json.dumps(masked, default=str)] == []


def test_no_comparison_tells_a_guess_from_another(questions):
    """Questions with the right guess and with a wrong one, drawn by rule, have equal answers."""
    draw = random.Random(5)
    wrong = "bob.byron@analytical.example"
    for _ in range(25):
        start = draw.randrange(len(EMAIL) - 4)
        end = draw.randrange(start + 4, len(EMAIL) + 1)
        form = draw.choice(COMPARISONS)
        answers = [rows_of(questions, form.format(guess[start:end])) for guess in (EMAIL, wrong)]
        if EMAIL[start:end] not in wrong:
            assert answers[0] == answers[1], form


def test_a_value_found_in_one_message_is_masked_in_all(questions, looked):
    contents = rows_of(
        questions, "SELECT \"turns.content\" AS said FROM conversations WHERE conversation_id = 'personal'"
    )
    assert contents == [{"said": ["Write to [email], please", "Done."]}]
    (reason,) = rows_of(questions, "SELECT vote_reason FROM battles")
    assert reason["vote_reason"].endswith("ask [email]")


def test_ids_are_keyed_alike_in_all_tables(questions, looked):
    joined = rows_of(questions, 'SELECT count(*) AS n FROM turns JOIN "signals/tokens" ON text_id = content_id')
    plain = rows_of(
        asked(looked.store.root, True), 'SELECT count(*) AS n FROM turns JOIN "signals/tokens" ON text_id = content_id'
    )
    assert joined == plain != [{"n": 0}]
    same = "SELECT count(*) AS n FROM conversations JOIN images ON list_contains(image_ids, image_id)"
    assert rows_of(questions, same) == rows_of(asked(looked.store.root, True), same) != [{"n": 0}]


def test_keyed_ids_are_the_same_each_time_and_other_ones_in_another_store(own):
    question = "SELECT text_id FROM turns ORDER BY conversation_id, number"
    add_audit_entry(own.store, Audited.LOOKED, {})  # a store that nobody worked with has no key yet
    ids = [rows_of(asked(own.store.root), question) for _ in range(2)]
    assert ids[0] == ids[1]
    own.store.write_bytes("secret/people_key", b"another key of another store")
    assert {row["text_id"] for row in ids[0]} & {
        row["text_id"] for row in rows_of(asked(own.store.root), question)
    } == set()


def test_facts_of_masked_rows_are_those_of_the_rows(questions, looked):
    """Views that join by ids give the same facts whether ids are keyed or not."""
    facts = (
        "SELECT * EXCLUDE (user_id, prompt_id, document_id, image_ids) FROM conversation_facts ORDER BY conversation_id"
    )
    assert rows_of(questions, facts) == rows_of(asked(looked.store.root, True), facts)
    outcomes = "SELECT outcome, reason, count(*) AS n FROM line_outcomes GROUP BY ALL ORDER BY ALL"
    assert rows_of(questions, outcomes) == rows_of(asked(looked.store.root, True), outcomes)


def test_what_is_quarantined_is_not_there_for_anybody(looked):
    for unmasked in (False, True):
        found = rows_of(asked(looked.store.root, unmasked), "SELECT conversation_id FROM conversations")
        assert "flagged" not in {row["conversation_id"] for row in found}
        hidden_name = (
            "SELECT * FROM (WITH quarantine AS (SELECT 1 AS x) SELECT * FROM quarantine) JOIN quarantine ON true"
        )
        with suppress(BadInput):
            assert rows_of(asked(looked.store.root, unmasked), hidden_name) == []


def test_a_column_that_nobody_named_is_left_out():
    assert treatment("conversations", "a_column_of_tomorrow") is Treatment.LEFT_OUT
    assert treatment("conversations", "turns", "a_field_of_tomorrow") is Treatment.LEFT_OUT
    assert treatment("rejects", "evidence") is Treatment.LEFT_OUT


def test_left_out_is_said(questions):
    assert {row["evidence"] for row in rows_of(questions, "SELECT evidence FROM rejects")} == {LEFT_OUT_TEXT}


@pytest.mark.parametrize(
    "question, said",
    [
        ("SELECT * FROM battle", "there is no table 'battle'; did you mean battles?"),
        ("SELECT modle_a FROM battles", 'column "modle_a" not found in FROM clause; did you mean model_a?'),
        ("SELECT b.winer FROM battles AS b", 'does not have a column named "winer"; did you mean winner?'),
        ("SELEC 1", 'syntax error at or near "SELEC"'),
        ("", "the question is empty"),
        ("-- nothing", "the question is empty"),
        ("SELECT 1; SELECT 2", "one statement at a time"),
        ("SELECT 1) UNION ALL (SELECT 2", "syntax error"),
        ("COPY battles TO 'x.csv'", "only questions are asked here"),
        ("CREATE TABLE x AS SELECT 1", "only questions are asked here"),
        ("DROP VIEW battles", "only questions are asked here"),
        ("ATTACH 'x.db'", "only questions are asked here"),
        ("INSTALL httpfs", "only questions are asked here"),
        ("LOAD httpfs", "only questions are asked here"),
        ("SET memory_limit = '1TB'", "only questions are asked here"),
        ("RESET threads", "only questions are asked here"),
        ("PRAGMA database_list", "there is no table 'pragma_database_list'"),
        ("CALL range(3)", "only questions are asked here"),
        ("EXPLAIN SELECT 1", "only questions are asked here"),
        ("PREPARE v AS SELECT 1", "only questions are asked here"),
        ("SHOW TABLES", "write .tables"),
        ("SELECT * FROM read_csv('/etc/passwd')", "'read_csv' may not stand behind FROM"),
        ("SELECT * FROM read_parquet('s3://x/y')", "'read_parquet' may not stand behind FROM"),
        ("SELECT * FROM glob('/*')", "'glob' may not stand behind FROM"),
        ("SELECT * FROM query('SELECT 1')", "'query' may not stand behind FROM"),
        ("SELECT * FROM duckdb_settings()", "'duckdb_settings' may not stand behind FROM"),
        ("SELECT * FROM '/etc/passwd'", "there is no table '/etc/passwd'"),
        ("SELECT * FROM information_schema.tables", "there is no table 'information_schema.tables'"),
        ("SELECT * FROM main.conversations", "there is no table 'main.conversations'"),
        ("SELECT (SELECT max(key) FROM quarantine)", "there is no table 'quarantine'"),
        ('SELECT * FROM "parts of conversations"', "there is no table 'parts of conversations'"),
        ("SELECT current_setting('temp_directory')", "tells of this machine"),
        ("SELECT model_a::INT FROM battles", "Could not convert string"),
        ("SELECT $x", "parameter"),
    ],
)  # fmt: skip
def test_what_may_not_be_asked_ends_in_one_line(questions, question, said):
    with pytest.raises(BadInput) as refused:
        rows_of(questions, question)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "question",
    [
        "SELECT count(*) FROM battles;",
        "select COUNT(*) from BATTLES -- a;b",
        "SELECT count(*) FROM battles; -- said",
        "WITH few AS (FROM battles LIMIT 3) SELECT count(*) FROM few ORDER BY 1",
        "WITH battles AS (SELECT 1 AS x) SELECT * FROM battles",
        "DESCRIBE battles",
        "SUMMARIZE SELECT winner FROM battles",
        "FROM battles SELECT winner, count(*) GROUP BY ALL",
        "VALUES (1), (2)",
        "SELECT ';é' AS é FROM range(3)",
        "SELECT * FROM battles POSITIONAL JOIN bench",
    ],
)  # fmt: skip
def test_what_only_reads_is_answered(questions, question):
    assert rows_of(questions, question)


def test_rows_come_in_the_order_that_was_asked_for(questions):
    rows = rows_of(questions, "SELECT conversation_id AS name FROM conversations ORDER BY name DESC")
    assert [row["name"] for row in rows] == sorted((row["name"] for row in rows), reverse=True)


def test_a_damaged_part_ends_with_the_line_of_the_engine(own):
    store = own.store
    (part, *_) = store.parts("signals/text_pii")
    path = Path(store.at(f"tables/signals/text_pii/{part}"))
    content = bytearray(path.read_bytes())
    content[len(content) // 3] ^= 255
    path.write_bytes(content)
    assert rows_of(asked(store.root), "SELECT count(*) AS n FROM battles")  # texts need it, and nothing else does
    with pytest.raises(StoreUnwell, match="damaged"):
        rows_of(asked(store.root), "SELECT prompt FROM prompts")


def test_a_release_is_asked_by_the_names_of_its_files(small_release):
    release = OfAskedRelease(small_release)
    assert {"chat", "battle", "bench", "boards"} <= {*release.views()}
    files = sorted(small_release.glob("battle/data/*.parquet"))
    votes = sum(pq.read_metadata(path).num_rows for path in files)
    assert rows_of(release, "SELECT count(*) AS n FROM battle") == [{"n": votes}]
    assert rows_of(release, "SELECT DISTINCT b.model FROM boards AS b JOIN battle ON b.model = model_a")
    assert {each.name for each in release.columns("battle")} >= {"winner", "images"}
    with pytest.raises(BadInput, match="did you mean chat"):
        rows_of(release, "SELECT * FROM chats")


def test_every_offered_name_can_be_described(questions):
    assert {*questions.views()} & NOT_OFFERED == set()
    assert {*TABLES} - NOT_OFFERED <= {*questions.views()}
    for view, about in questions.views().items():
        assert about
        assert questions.columns(view)


def test_a_file_holds_all_rows_by_its_suffix(questions, tmp_path):
    question = """
        SELECT '=1+1' AS "=formula", -1 AS number, NULL AS nothing, [1, 2] AS list, 'a' || chr(10) || 'b' AS lines,
            1e999 AS big
    """
    for suffix in (".csv", ".json", ".jsonl", ".parquet"):
        assert write_answer(questions.answer(question), tmp_path / f"a{suffix}") == 1
        assert write_answer(questions.answer("SELECT winner FROM battles WHERE false"), tmp_path / f"none{suffix}") == 0
    assert (tmp_path / "a.csv").read_text() == '\'=formula,number,nothing,list,lines,big\n\'=1+1,-1,,"[1, 2]","a\nb",\n'
    row = {"=formula": "=1+1", "number": -1, "nothing": None, "list": [1, 2], "lines": "a\nb", "big": None}
    assert json.loads((tmp_path / "a.jsonl").read_text()) == row
    assert json.loads((tmp_path / "a.json").read_text()) == [row]
    assert json.loads((tmp_path / "none.json").read_text()) == []
    assert pl.read_parquet(tmp_path / "a.parquet").select("=formula", "list").rows() == [("=1+1", [1, 2])]
    assert {path.name for path in tmp_path.iterdir()} == {
        f"{stem}{s}" for stem in ("a", "none") for s in (".csv", ".json", ".jsonl", ".parquet")
    }


AS_TEXTS = {
    "TIMESTAMP '2024-01-02 03:00:00' - TIMESTAMP '2024-01-01'": "1 day 03:00:00",
    "[INTERVAL 2 HOUR]": ["02:00:00"],
    "[INTERVAL 2 HOUR]::INTERVAL[1]": ["02:00:00"],
    "{'a': 1, 'it''s \"b\"': INTERVAL 1 MONTH}": {"a": 1, 'it\'s "b"': "1 month"},
    "'01:02:03+02'::TIMETZ": "01:02:03+02",
    "union_value(a := 1)": "1",
    "'101'::BIT": "101",
    "12::VARINT": "12",
    "1::VARIANT": "1",
}
"""Expression of a type that files, JSON and polars lack -> its value in an answer."""


@pytest.mark.parametrize("expression", AS_TEXTS)
@pytest.mark.parametrize("is_release", [False, True])
def test_values_that_files_cannot_hold_are_texts(questions, small_release, tmp_path, expression, is_release):
    asked = OfAskedRelease(small_release) if is_release else questions
    value, question = AS_TEXTS[expression], f'SELECT {expression} AS "an ""x"""'
    for suffix in (".csv", ".jsonl", ".parquet"):
        write_answer(asked.answer(question), tmp_path / f"a{suffix}")
    assert json.loads((tmp_path / "a.jsonl").read_text()) == {'an "x"': value}
    assert pl.read_parquet(tmp_path / "a.parquet").rows() == [(value,)]
    assert pl.from_arrow(pa.Table.from_batches(asked.answer(question))).rows() == [(value,)]
    assert "02:00:00" in (tmp_path / "a.csv").read_text() or "02:00:00" not in str(value)


def test_a_map_keeps_its_plain_part(questions):
    (row,) = rows_of(questions, "SELECT MAP {'a': INTERVAL 1 DAY} AS x, MAP {'b': 1} AS y")
    assert (row["x"], row["y"]) == ([("a", "1 day")], [("b", 1)])


@pytest.mark.parametrize("value", ["'infinity'::DATE", "'-infinity'::TIMESTAMP", "'0044-03-15 (BC)'::DATE"])
def test_a_date_that_is_none_ends_in_one_line(refused, own, tmp_path, value):
    (tmp_path / "out").mkdir()
    out = tmp_path / "out" / "x.csv"
    for more in ([], ["--json"], ["--out", out]):
        assert "write CAST(… AS VARCHAR)" in refused("sql", own.store.root, f"SELECT {value} AS x", *more)
    assert [*out.parent.iterdir()] == []


def test_a_file_and_json_on_the_terminal_are_one_or_the_other(refused, looked, tmp_path):
    line = refused("sql", looked.store.root, "SELECT 1", "--json", "--out", tmp_path / "x.csv")
    assert "give one of them" in line
    assert [*tmp_path.iterdir()] == []


ENDLESS = "SELECT sum(a.range) AS x FROM range(1000000000) AS a, range(1000000000) AS b"


@pytest.fixture
def interrupted():
    """Sends Ctrl-C once, when the engine works on a question."""

    def send() -> None:
        main = threading.main_thread().ident
        seen = 0
        while not ended.wait(0.05):
            frame = sys._current_frames()[main]
            seen = seen + 1 if frame.f_code.co_name in ("arrow_batches", "answer") else 0
            if seen == 10:  # it is in a call of the engine, and in none of Python's lines
                os.kill(os.getpid(), signal.SIGINT)
                return

    ended, thread = threading.Event(), threading.Thread(target=send)
    thread.start()
    yield
    ended.set()
    thread.join()


@pytest.mark.parametrize("is_release", [False, True])
@pytest.mark.usefixtures("interrupted")
def test_an_interrupt_stays_one(questions, small_release, is_release):
    asked = OfAskedRelease(small_release) if is_release else questions
    with pytest.raises(KeyboardInterrupt):
        rows_of(asked, ENDLESS)
    assert rows_of(asked, "SELECT 7 AS x") == [{"x": 7}]


@pytest.mark.usefixtures("interrupted")
def test_an_interrupted_question_ends_the_command_without_a_file(curate, own, tmp_path):
    (tmp_path / "out").mkdir()
    status, out, err = curate("sql", own.store.root, ENDLESS, "--out", tmp_path / "out" / "x.csv")
    assert (status, out, err.strip()) == (130, "", "")
    assert [*(tmp_path / "out").iterdir()] == []


@pytest.mark.usefixtures("interrupted")
def test_the_prompt_goes_on_after_an_interrupted_question(curate, looked, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{ENDLESS};\nSELECT 7 AS seven;"))
    status, out, err = curate("sql", looked.store.root)
    assert (status, "seven" in out, "curate: stopped" in err) == (0, True, True)


def test_the_command_prints_a_bounded_table(curate, looked):
    status, out, err = curate("sql", looked.store.root, "SELECT range AS n, repeat('é', 500) AS long FROM range(100)")
    assert (status, out.count("…")) == (0, 40)
    assert "the first 40 of 100 rows; --out FILE writes all" in err
    status, out, err = curate(
        "sql", looked.store.root, "SELECT chr(27) || '[31m' AS red, '[bold]x' AS markup, 2024 AS year"
    )
    assert (status, "\x1b" in out, "[bold]x" in out, "2024" in out) == (0, False, True, True)
    status, out, _ = curate("sql", looked.store.root, "SELECT 1 AS a WHERE false")
    assert (status, out) == (0, "no rows (a)\n")
    status, out, _ = curate("sql", looked.store.root, "FROM conversations LIMIT 1", "--set", "memory_gb=0.1")
    assert (status, "row 1" in out, EMAIL in out) == (0, True, False)


def test_unmasking_and_files_stand_in_the_store(curate, refused, own, tmp_path):
    root, prompts = own.store.root, "SELECT prompt FROM prompts WHERE conversation_id = 'personal'"
    entries_before = [*audit_entries(own.store)]  # of tests that looked at the store of which this one is a copy
    assert EMAIL not in curate("sql", root, prompts)[1]
    assert [*audit_entries(own.store)] == entries_before
    assert EMAIL in curate("sql", root, prompts, "--unmask")[1]
    refused("sql", root, "SELECT nothing_like_it FROM", "--unmask")
    (looked_at,) = [entry for entry in audit_entries(own.store) if entry not in entries_before]
    assert looked_at.what is Audited.LOOKED
    out = tmp_path / "prompts.jsonl"
    assert curate("sql", root, prompts, "--out", out)[1] == f"{out}: 1 rows\n"
    assert json.loads(out.read_text()) == {"prompt": "Write to [email], please"}
    (record,) = exports(own.store)
    assert (record.place, record.version, record.kind) == (str(out), "", "answer to a question")
    assert "exists already" in refused("sql", root, prompts, "--out", out)
    assert "ends in none of .csv" in refused("sql", root, prompts, "--out", tmp_path / "x.txt")
    assert "is a release" in refused("sql", *_release_of(own.store), "SELECT 1", "--unmask")


def _release_of(store: Store) -> list[str]:
    return [f"{store.root}/releases/1.0.0"]


def test_nothing_is_answered_while_a_takedown_is_unfinished(refused, own):
    note_unfinished(own.store)
    assert "takedown" in refused("sql", own.store.root, "SELECT 1")
    assert own.store.read_bytes(UNFINISHED) is not None


def test_the_prompt_answers_until_its_input_ends(curate, own, monkeypatch):
    typed = ".tables\n\\d battles\nSELECT count(*) AS votes\nFROM battles;\nSELECT nope;\nSELECT 7 AS seven"
    monkeypatch.setattr("sys.stdin", io.StringIO(typed))
    status, out, err = curate("sql", own.store.root)
    assert status == 0
    assert "conversation_facts" in out
    assert "vote_reason" in out
    assert "votes" in out
    assert "seven" in out
    assert "nope" in err
