"""Questions in SQL give the rows of the listed parts, notice damage, and end in one line where they fail."""

import math
import pickle
import random
import subprocess
import sys
import tempfile
import threading
from datetime import UTC, date, datetime
from itertools import takewhile
from pathlib import Path

import duckdb
import polars as pl
import pyarrow.parquet as pq
import pytest

from schemas.errors import BadInput, StoreUnwell
from schemas.tables import TABLES
from tasks.storage.engine import VIEWS_FILE, ListedParts, column_types, view_queries
from tasks.storage.queries.released import days
from tasks.storage.queries.signals import missing_ids, outdated
from tasks.storage.tables import Store, frame_schema
from tests.disk_steps import steps_at

TEXTS = [f"text {number} " + "x" * 500 for number in range(400)]


def edge_values(of_type: pl.DataType) -> list:
    """Three values of a type: small or empty ones, and those that other engines take for something else."""
    if isinstance(of_type, pl.List):
        return [[], edge_values(of_type.inner), edge_values(of_type.inner)[:1]]
    if isinstance(of_type, pl.Struct):
        fields = {field.name: edge_values(field.dtype) for field in of_type.fields}
        return [{name: values[place] for name, values in fields.items()} for place in range(3)]
    if of_type.is_float():
        return [math.nan, -0.0, math.inf]
    if of_type.is_integer():
        return [0, 1, 127]
    if of_type == pl.Boolean:
        return [False, True, False]
    if isinstance(of_type, pl.Datetime):
        return [
            datetime(1970, 1, 1, tzinfo=UTC),
            datetime(2024, 10, 27, 1, 30, 0, 1, UTC),
            datetime(9999, 12, 31, tzinfo=UTC),
        ]
    if of_type == pl.Date:
        return [date(1, 1, 1), date(2024, 2, 29), date(9999, 12, 31)]
    if of_type == pl.Binary:
        return [b"", b"\x00\xff", b"'"]
    assert of_type == pl.String, f"no values for {of_type}"
    return ["", "a\x00b 'q' \"q\" ;--", "é e\u0301 \U0001f600"]


@pytest.fixture
def store(tmp_path) -> Store:
    return Store.open(str(tmp_path / "store"))


@pytest.mark.parametrize("table", TABLES)
def test_every_value_of_a_table_comes_back_as_it_is_stored(store, table):
    types = frame_schema(TABLES[table].row)
    rows = pl.DataFrame({name: edge_values(of_type) for name, of_type in types.items()}, schema=types)
    store.append(table, rows)
    names = ", ".join(f'"{name}"' for name in types)
    asked = store.ask(f'SELECT {names} FROM "{table}"')
    stored = store.read(table)
    assert asked.schema == stored.schema
    assert sorted(map(repr, asked.rows())) == sorted(map(repr, stored.rows()))


def with_texts(store: Store, texts: list[str]) -> Store:
    """A conversation a text; ids are numbers."""
    numbers = range(len(texts))
    turns = [
        [{"role": "user", "content": text, "text_id": f"t{number:05}", "images": []}]
        for number, text in enumerate(texts)
    ]
    types = frame_schema(TABLES["conversations"].row)
    rows = pl.DataFrame({"conversation_id": [f"c{number:05}" for number in numbers], "turns": turns},
                        schema={name: types[name] for name in ("conversation_id", "turns")})  # fmt: skip
    others = [
        pl.lit(edge_values(of_type)[1], of_type).alias(name)
        for name, of_type in types.items()
        if name not in rows.columns
    ]
    store.append("conversations", rows.select(*rows.columns, *others).select(types.names()))
    return store


def the_part(store: Store, table: str) -> Path:
    (part,) = store.parts(table)
    return Path(store.at(f"tables/{table}/{part}"))


def damaged_column(path: Path, leaf: str) -> None:
    """Flip a bit in the middle of the data of one column."""
    groups = pq.read_metadata(path).row_group(0)
    column = next(groups.column(n) for n in range(groups.num_columns) if groups.column(n).path_in_schema == leaf)
    content = bytearray(path.read_bytes())
    content[column.data_page_offset + column.total_compressed_size // 2] ^= 16
    path.write_bytes(content)


@pytest.fixture
def with_damaged_text(store) -> Store:
    with_texts(store, TEXTS)
    damaged_column(the_part(store, "conversations"), "turns.list.element.content")
    return store


def test_ids_of_texts_are_read_without_the_texts(with_damaged_text):
    store = with_damaged_text
    assert store.ask("SELECT text_id FROM turns ORDER BY text_id")["text_id"].to_list() == [
        f"t{n:05}" for n in range(400)
    ]


def test_a_damaged_text_that_is_asked_for_is_noticed(with_damaged_text):
    store = with_damaged_text
    with pytest.raises(StoreUnwell, match="is damaged: a part of table 'conversations'"):
        store.ask('SELECT "turns.content" FROM conversations')


@pytest.fixture
def with_damaged_image(store) -> Store:
    types = frame_schema(TABLES["images"].row)
    shown = {
        "image_id": ["a", "b"],
        "bytes": [b"1" * 5_000, b"2" * 5_000],
        "format": ["PNG"] * 2,
        "width": [1, 1],
        "height": [1, 1],
    }
    store.append("images", pl.DataFrame({name: shown[name] for name in types}, schema=types))
    damaged_column(the_part(store, "images"), "bytes")
    return store


def test_ids_of_images_are_read_without_their_bytes(with_damaged_image):
    ids = with_damaged_image.ask("SELECT image_id FROM images ORDER BY image_id")["image_id"]
    assert ids.to_list() == ["a", "b"]


def test_a_damaged_image_that_is_asked_for_is_noticed(with_damaged_image):
    with pytest.raises(StoreUnwell, match="is damaged: a part of table 'images'"):
        with_damaged_image.ask("SELECT bytes FROM images")


@pytest.mark.parametrize("seed", range(30))
def test_a_flipped_bit_is_noticed_or_touches_nothing_that_is_asked(store, seed):
    path = the_part(with_texts(store, TEXTS), "conversations")
    draw, content = random.Random(seed), bytearray(path.read_bytes())
    content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
    path.write_bytes(content)
    question = 'SELECT conversation_id, "turns.content" AS texts FROM conversations ORDER BY conversation_id'
    try:
        assert store.ask(question)["texts"].explode().to_list() == TEXTS
    except StoreUnwell as error:
        assert "is damaged: a part of table 'conversations'" in str(error)


def test_two_streams_on_one_store_both_give_all_their_rows(store):
    with_texts(store, TEXTS)
    question = "SELECT text_id FROM turns ORDER BY text_id"
    one, other = store.batches(question, 30), store.batches(question, 70)
    first = next(one)
    whole = pl.concat(other)
    assert pl.concat([first, *one]).equals(whole) and whole.height == 400


class WrittenMeanwhile(Store):
    """A store whose conversations are replaced by others when a question is about to read a part of them."""

    later_texts = ("later",)

    def part_slices(self, table, part, columns=None, rows=16_384):
        if self.later_texts:
            later, self.later_texts = self.later_texts, ()
            writer = Store.open(self.root)
            writer.list_parts("conversations", [])
            with_texts(writer, list(later))
        return super().part_slices(table, part, columns, rows)


def test_a_question_is_asked_once_more_when_a_writer_replaces_a_part(store):
    meanwhile = WrittenMeanwhile(with_texts(store, TEXTS).root)
    assert meanwhile.ask("SELECT text_id FROM turns")["text_id"].to_list() == ["t00000"]


def test_a_stream_ends_with_one_line_when_a_takedown_removes_its_part(store):
    meanwhile = WrittenMeanwhile(with_texts(store, TEXTS).root)
    with pytest.raises(StoreUnwell, match="table 'conversations'"):
        list(meanwhile.batches("SELECT text_id FROM turns", 10))


def test_a_part_of_another_layout_is_one_line_that_says_to_migrate(store):
    part = store.write_part("battles", pl.DataFrame({"battle_id": ["b"]}).to_arrow())
    store.list_parts("battles", [part])
    with pytest.raises(BadInput, match=r"part of table 'battles' .*curate migrate"):
        store.ask("SELECT winner FROM battles")


LITTLE_MEMORY = """
import sys
from schemas.errors import BadInput
from tasks.runtime.memory import use_limits
from tasks.storage.tables import Store
use_limits(0.01, None)
try:
    Store.existing(sys.argv[1]).ask("SELECT DISTINCT md5(text_id || r::VARCHAR) FROM turns, range(500) AS numbers(r)")
except BadInput as error:
    print(error)
"""


def test_a_process_with_too_little_memory_ends_with_one_line_that_names_the_setting(store):
    for number in range(4):
        with_texts(store, [f"{number} {text}" for text in TEXTS])
    ended = subprocess.run(
        [sys.executable, "-c", LITTLE_MEMORY, store.root], text=True, capture_output=True, timeout=120
    )
    assert (ended.returncode, ended.stdout.count("\n")) == (0, 1), ended.stderr
    assert "memory_gb=0.01 is too little" in ended.stdout and "give memory_gb=0.25" in ended.stdout


class NotesThreads(Store):
    """A store that notes which threads read its parts."""

    def part_slices(self, *of_part):
        for rows in super().part_slices(*of_part):
            self.threads.add(threading.get_ident())
            yield rows


def test_parts_are_read_on_the_thread_that_asks_for_rows(store):
    """A thread of Arrow that still reads when a query has failed keeps the process from ending."""
    noting = NotesThreads(with_texts(store, TEXTS).root)
    noting.threads = set()
    assert (
        sum(
            batch.num_rows
            for batch in ListedParts(noting, "conversations", noting.parts("conversations"), print)
            .scanner()
            .to_reader()
        )
        == 400
    )
    assert noting.threads == {threading.get_ident()}


LARGE_ANSWER = "SELECT text_id, repeat('x', 1000) AS filler FROM turns, range(700)"


def test_an_answer_that_is_too_large_is_refused_with_the_name_of_what_reads_it(store):
    with pytest.raises(BadInput, match=r"rows of more than 268 MB; .*`batches`"):
        with_texts(store, TEXTS).ask(LARGE_ANSWER)


def test_an_answer_that_is_too_large_for_one_frame_is_read_in_batches(store):
    batches = with_texts(store, TEXTS).batches(LARGE_ANSWER, 10_000)
    assert sum(batch.height for batch in batches) == 280_000


NUMBERS = [math.nan, None, 0.5, 2.0, math.inf, -math.inf]


@pytest.mark.parametrize(
    "comparison", [f"{sign} {value}" for sign in (">", ">=", "<", "=", "<>") for value in ("1", "'inf'", "'nan'")]
)
@pytest.mark.parametrize(("table", "value", "column"), [
    ("sightings", "served.first_token_seconds", [{"first_token_seconds": number} for number in NUMBERS]),
    ("topics", "probability", NUMBERS),
])  # fmt: skip
def test_a_comparison_means_the_same_whether_parts_or_rows_are_filtered_by_it(store, table, value, column, comparison):
    types, (name, *_) = frame_schema(TABLES[table].row), value.split(".")
    others = {other: [edge_values(of_type)[1]] * len(NUMBERS) for other, of_type in types.items() if other != name}
    whole = pl.Series(name, column, types[name], strict=False)
    store.append(table, pl.DataFrame(others).with_columns(whole).select(types.names()).cast(types))
    of_parts, of_rows = (
        store.ask(f"SELECT {value} AS number FROM {table} WHERE {compared} {comparison} ORDER BY number")
        for compared in (value, f"({value} * CASE WHEN random() < 2 THEN 1 END)")
    )
    assert of_parts.equals(of_rows)


def test_a_pickled_copy_of_a_store_with_an_open_connection_can_be_asked(store):
    with_texts(store, TEXTS)
    question = "SELECT count(*) AS messages FROM turns"
    store.ask(question)
    assert pickle.loads(pickle.dumps(store)).ask(question)["messages"].to_list() == [400]


@pytest.fixture
def scratch(tmp_path, monkeypatch) -> Path:
    """An empty folder for what is temporary."""
    (tmp_path / "scratch").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "scratch"))
    return tmp_path / "scratch"


FIVE_THOUSAND = pl.DataFrame({"text_id": [str(number) for number in range(5_000)]})
ALL_OF_THEM = "SELECT text_id FROM with_texts"


def test_open_questions_share_a_temporary_folder_that_ends_with_the_last(store, scratch):
    streams = [store.batches(ALL_OF_THEM, 10, with_texts=FIVE_THOUSAND) for _ in range(2)]
    assert [next(stream).height for stream in streams] == [10, 10]
    assert len(list(scratch.iterdir())) == 1
    for stream in streams:
        stream.close()
    assert list(scratch.iterdir()) == []


def test_an_answered_question_leaves_no_temporary_folder(store, scratch):
    assert store.ask(ALL_OF_THEM, with_texts=FIVE_THOUSAND).height == 5_000
    assert list(scratch.iterdir()) == []


GIVEN = pl.DataFrame({"number": [1]})
ALL_GIVEN = "SELECT number FROM given"


@pytest.fixture
def database_folders(scratch):
    """Folders that databases of questions made; each database has its own."""
    with steps_at("mkdir", str(scratch)) as folders:
        yield folders


def test_the_empty_database_of_a_question_serves_the_next_of_any_store(store, tmp_path, database_folders):
    for asked in (store, Store.open(str(tmp_path / "other")), store):
        assert asked.ask(ALL_GIVEN, given=GIVEN)["number"].to_list() == [1]
    assert len({*database_folders}) == 1


def test_what_one_question_was_given_is_no_table_of_the_next(store, tmp_path):
    store.ask(ALL_GIVEN, given=GIVEN)
    with pytest.raises(duckdb.CatalogException):
        Store.open(str(tmp_path / "other")).ask(ALL_GIVEN)


def test_the_database_of_a_question_that_failed_serves_no_other(store, database_folders):
    store.ask(ALL_GIVEN, given=GIVEN)
    with pytest.raises(duckdb.CatalogException):
        store.ask(ALL_GIVEN)
    assert store.ask(ALL_GIVEN, given=GIVEN).height == 1
    assert len({*database_folders}) == 2


def test_a_database_whose_folder_another_user_made_serves_no_question(store, database_folders):
    store.ask(ALL_GIVEN, given=GIVEN)
    Path(database_folders[-1]).mkdir()  # by another user, who knows the name
    assert store.ask(ALL_GIVEN, given=GIVEN).height == 1
    assert len({*database_folders}) == 2


@pytest.mark.parametrize(("role", "ids"), [("user", ["t00003"]), ("user'; --", [])])
def test_a_question_may_join_a_given_frame_under_given_parameters(store, role, ids):
    with_texts(store, TEXTS)
    wanted = pl.DataFrame({"text_id": ["t00003", "none"]})
    question = "SELECT text_id FROM turns SEMI JOIN wanted USING (text_id) WHERE role = $role"
    assert store.ask(question, wanted=wanted, role=role)["text_id"].to_list() == ids


def test_a_name_in_a_query_is_never_a_python_variable(store):
    mine = pl.DataFrame({"a": [1]})
    with pytest.raises(Exception, match="mine"):
        store.ask("SELECT * FROM mine")
    assert mine.height == 1


@pytest.mark.parametrize("view", view_queries())
def test_a_view_has_a_comment_that_says_what_a_row_is(view):
    lines = VIEWS_FILE.read_text().splitlines()
    place = lines.index(f"CREATE VIEW {view} AS")
    comment = takewhile(lambda line: line.startswith("--"), reversed(lines[:place]))
    assert [*comment][-1].startswith("-- one ")


@pytest.mark.parametrize("view", view_queries())
def test_a_view_can_be_asked_of_an_empty_store(store, view):
    versions = pl.DataFrame(schema={"signal": pl.String, "version": pl.String})
    assert store.ask(f"SELECT * FROM {view}", versions=versions).is_empty()


def test_fields_of_lists_of_structs_are_columns_of_their_own():
    assert column_types("conversations")["turns.text_id"] == pl.List(pl.String)


def of_versions(*rows: tuple[str, str]) -> pl.DataFrame:
    types = frame_schema(TABLES["signals/code"].row)
    filled = {name: [edge_values(of_type)[1]] * len(rows) for name, of_type in types.items()}
    ids, versions = zip(*rows, strict=True)
    return pl.DataFrame(filled | {"content_id": ids, "version": versions}, schema=types)


@pytest.fixture
def of_two_versions(store) -> Store:
    """Values of `code` in versions 1 or 2, or both."""
    store.append("signals/code", of_versions(("a", "1"), ("b", "1"), ("b", "2"), ("c", "2")))
    store.append("signals/code", of_versions(("c", "1"), ("d", "1")))
    return store


def test_all_ids_are_missing_before_anything_is_measured(store):
    assert missing_ids(store, "code", "2", ["b", "a", "b"]) == ["a", "b"]


def test_ids_without_a_value_of_the_version_are_missing(of_two_versions):
    assert missing_ids(of_two_versions, "code", "2", ["e", "d", "c", "b", "a"]) == ["a", "d", "e"]


def test_ids_with_values_of_other_versions_alone_are_outdated(of_two_versions):
    assert outdated(of_two_versions, {"code": "2", "markdown": "1"}) == {"code": 2}


def logged_at(*times: datetime) -> pl.DataFrame:
    types = frame_schema(TABLES["conversations"].row)
    filled = {name: [edge_values(of_type)[1]] * len(times) for name, of_type in types.items()}
    own = {
        "conversation_id": [str(time) for time in times],
        "tstamp": times,
        "day": [time.date() for time in times],
    }
    return pl.DataFrame(filled | own, schema=types)


UNDATED = datetime(2023, 1, 1, tzinfo=UTC)
EARLIER, LATER = datetime(2024, 6, 1, tzinfo=UTC), datetime(2024, 6, 2, tzinfo=UTC)


def test_an_empty_store_has_no_days(store):
    assert days(store) == []


def test_days_without_times_count_where_no_conversation_has_one(store):
    store.append("conversations", logged_at(UNDATED))
    assert days(store) == [UNDATED.date()]


def test_days_without_times_do_not_count_beside_others(store):
    store.append("conversations", logged_at(UNDATED))
    store.append("conversations", logged_at(LATER, EARLIER, LATER))
    assert days(store) == [EARLIER.date(), LATER.date()]


def numbered_frames(rows: int):
    """`number` from 0, and its text, three rows a frame; the first frame has none."""
    numbers = pl.DataFrame({"number": range(rows)}).with_columns(text=pl.format("text {}", "number"))
    yield numbers.clear()
    yield from numbers.iter_slices(3)


@pytest.mark.parametrize("rows", [0, 1, 10_000])
def test_an_iterator_of_frames_is_a_table_that_a_query_orders(store, rows):
    batches = store.batches("SELECT text, number FROM given ORDER BY number DESC", 1_000, given=numbered_frames(rows))
    numbers = [number for batch in batches for number in batch["number"]]
    assert numbers == [*reversed(range(rows))]


def test_an_iterator_is_filtered_like_a_table(store):
    batches = store.batches("SELECT text FROM given WHERE number = $wanted", given=numbered_frames(9), wanted=4)
    assert [row for batch in batches for row in batch.rows()] == [("text 4",)]


def test_an_iterator_that_a_query_reads_twice_is_an_error(store):
    question = "SELECT * FROM given UNION ALL SELECT * FROM given"
    with pytest.raises(ValueError, match="twice"):
        [*store.batches(question, given=numbered_frames(9))]


def test_an_error_of_an_iterator_is_the_error_of_the_question(store):
    def broken():
        yield pl.DataFrame({"number": [1]})
        raise BadInput("the log is broken")

    with pytest.raises(BadInput, match="the log is broken"):
        [*store.batches("SELECT * FROM given ORDER BY number", given=broken())]


def test_rows_that_do_not_exist_are_one_empty_frame_with_their_columns(store):
    (frame,) = store.batches("SELECT conversation_id, tstamp FROM kept_texts", kept_texts=store.empty("conversations"))
    assert (frame.height, frame.columns) == (0, ["conversation_id", "tstamp"])


@pytest.mark.parametrize("join", ["SEMI JOIN", "JOIN"])
def test_the_left_side_of_a_join_streams_in_its_stored_order(store, join):
    """Otherwise a join with a few ids would hold all texts: DuckDB does not know which side has more rows."""
    with_texts(store, TEXTS)
    wanted = pl.DataFrame({"conversation_id": [f"c{number:05}" for number in range(399, -1, -7)]})
    question = f"SELECT conversation_id, turns FROM conversations {join} wanted USING (conversation_id)"
    rows = pl.concat(store.batches(question, wanted=wanted))
    assert rows["conversation_id"].to_list() == sorted(wanted["conversation_id"])


def timed_store(store: Store) -> Store:
    """Ten parts of conversations, one an hour."""
    for hour in range(10):
        times = [datetime(2024, 5, 1, hour, minute, tzinfo=UTC) for minute in range(0, 60, 20)]
        rows = pl.DataFrame({"conversation_id": [f"c{hour}{minute}" for minute in range(3)], "tstamp": times})
        empty = store.empty("conversations")
        store.append("conversations", pl.concat([empty, rows.cast(empty.select(rows.columns).schema)], how="diagonal"))
    return store


TIMES = [datetime(2024, 5, 1, hour, minute, tzinfo=UTC) for hour in range(11) for minute in (0, 20, 50)]
WITHIN = "SELECT conversation_id, tstamp FROM conversations WHERE tstamp BETWEEN $first AND $last"
OF_BLOCK = "SELECT conversation_id, tstamp FROM conversations SEMI JOIN block USING (tstamp, conversation_id)"


def damage_parts_without(store: Store, rows: pl.DataFrame) -> None:
    """Damage the pages, and not the footer, of every part that holds none of the rows."""
    for part in store.parts("conversations"):
        if store.read_part("conversations", part).join(rows, on="conversation_id").is_empty():
            path = Path(store.at(f"tables/conversations/{part}"))
            content = bytearray(path.read_bytes())
            content[4:200] = bytes(196)
            path.write_bytes(content)


@pytest.mark.parametrize("seed", range(12))
def test_all_rows_within_bounds_come_from_the_parts_of_those_times_alone(store, seed):
    timed_store(store)
    chance = random.Random(seed)
    first, last = sorted(chance.sample(TIMES, 2))
    rows = store.read("conversations").select("conversation_id", "tstamp")
    within = rows.filter(pl.col("tstamp").is_between(first, last))
    damage_parts_without(store, within)
    assert sorted(store.ask(WITHIN, first=first, last=last)["conversation_id"]) == sorted(within["conversation_id"])


@pytest.mark.parametrize("seed", range(12))
def test_a_block_of_rows_is_joined_with_the_parts_of_its_times_alone(store, seed):
    timed_store(store)
    chance = random.Random(seed)
    rows = store.read("conversations").select("conversation_id", "tstamp")
    block = rows.slice(chance.randrange(25), chance.randint(1, 9))
    damage_parts_without(store, block)
    assert sorted(store.ask(OF_BLOCK, block=block)["conversation_id"]) == sorted(block["conversation_id"])


def test_an_iterator_is_for_batches_alone(store):
    with pytest.raises(TypeError, match="`batches` alone"):
        store.ask("SELECT * FROM given", given=numbered_frames(3))


def test_an_iterator_without_a_frame_is_an_error(store):
    with pytest.raises(ValueError, match="at least one"):
        [*store.batches("SELECT * FROM given", given=iter(()))]


def test_an_interrupt_while_rows_are_read_stays_one(store):
    def frames():
        yield pl.DataFrame({"x": range(3)})
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(store.batches("SELECT * FROM given", given=frames()))
    assert store.ask("SELECT 7 AS x").rows() == [(7,)]
