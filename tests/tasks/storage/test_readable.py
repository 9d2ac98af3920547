"""Of a damaged store all that can be read is answered, each damaged table is named once, and what must fail, fails."""

import random
from pathlib import Path

import polars as pl
import pyarrow.parquet as pq
import pytest

from schemas.errors import StoreUnwell
from schemas.tables import TABLES
from tasks.storage.readable import ReadableStore
from tasks.storage.tables import Store, frame_schema

REJECTS, SIGHTINGS, LANGUAGE = DRAWN_TABLES = ("rejects", "sightings", "signals/language")
ROWS = 30
"""Rows of a part."""


def drawn_rows(table: str, numbers: range) -> pl.DataFrame:
    """Rows whose first text column has these numbers, and whose other columns are empty."""
    types = frame_schema(TABLES[table].row)
    key = next(name for name, of_type in types.items() if of_type == pl.String)
    frame = pl.DataFrame({key: [f"{number:06}" for number in numbers]})
    empty = {pl.String: "", pl.Int64: 0, pl.Int32: 0, pl.Float32: 0.0}
    others = {name: pl.lit(empty.get(of_type), of_type) for name, of_type in types.items() if name != key}
    return frame.with_columns(**others).select(types.names())


def with_parts(store: Store, table: str, parts: int) -> dict[str, pl.DataFrame]:
    """Part -> its rows."""
    frames = [drawn_rows(table, range(number * ROWS, (number + 1) * ROWS)) for number in range(parts)]
    for frame in frames:
        store.append(table, frame)
    return dict(zip(store.parts(table), frames, strict=True))


def path_of(store: Store, table: str, part: str) -> Path:
    return Path(store.at(f"tables/{table}/{part}"))


def flipped(path: Path, place: int) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 16
    path.write_bytes(content)


def key_page(path: Path, table: str) -> int:
    """A byte of the values of a table's first text column."""
    types = frame_schema(TABLES[table].row)
    group = pq.read_metadata(path).row_group(0)
    column = group.column(next(place for place, of_type in enumerate(types.values()) if of_type == pl.String))
    start = min(column.dictionary_page_offset or column.data_page_offset, column.data_page_offset)
    return int(start) + int(column.total_compressed_size) // 2


DAMAGES = {
    "lost": lambda path, table: path.unlink(),
    "cut": lambda path, table: path.write_bytes(path.read_bytes()[:-20]),
    "another": lambda path, table: path.write_bytes(b"broken"),
    "page": lambda path, table: flipped(path, key_page(path, table)),
    "footer": lambda path, table: flipped(path, -20),
}
WAYS = {
    "ask": lambda store, table: store.ask(f'SELECT * FROM "{table}"'),
    "batches": lambda store, table: store.again(lambda: pl.concat(store.batches(f'SELECT * FROM "{table}"', 7))),
    "read": lambda store, table: store.read(table),
    "slices": lambda store, table: store.again(
        lambda: pl.concat([store.empty(table), *store.read_slices(table, rows=7)])
    ),
}


@pytest.fixture
def store(tmp_path) -> Store:
    return Store.open(str(tmp_path / "store"))


@pytest.mark.parametrize("seed", range(12))
def test_all_that_can_be_read_is_answered_under_the_name_of_each_damaged_table(store, seed):
    draw = random.Random(seed)
    whole = {table: with_parts(store, table, draw.randint(1, 5)) for table in DRAWN_TABLES}
    damaged = {table: draw.sample([*parts], draw.randint(0, len(parts))) for table, parts in whole.items()}
    for table, parts in damaged.items():
        for part in parts:
            draw.choice([*DAMAGES.values()])(path_of(store, table, part), table)
    looked = ReadableStore(store.root)
    for table, parts in whole.items():
        found = draw.choice([*WAYS.values()])(looked, table)
        left = [rows for part, rows in parts.items() if part not in damaged[table]]
        assert found.select(rows_of(table)).equals(pl.concat([store.empty(table), *left]).select(rows_of(table)))
        assert WAYS["ask"](looked, table).height == found.height
    incomplete = "a part is lost or broken and is left out; what is shown is incomplete"
    assert looked.problems == [f"table {table}: {incomplete}" for table in sorted(whole) if damaged[table]]


def rows_of(table: str) -> list[str]:
    return frame_schema(TABLES[table].row).names()


@pytest.mark.parametrize(("column", "rows", "problems"), [("line", ROWS, 0), ("source", 0, 1)])
def test_a_part_is_shown_as_long_as_what_is_asked_of_it_can_be_read(store, column, rows, problems):
    (part,) = with_parts(store, REJECTS, 1)
    flipped(path_of(store, REJECTS, part), key_page(path_of(store, REJECTS, part), REJECTS))
    looked = ReadableStore(store.root)
    assert looked.ask(f"SELECT {column} FROM rejects").height == rows
    assert len(looked.problems) == problems


def ids_in(store: ReadableStore) -> list[str]:
    return pl.concat(store.batches("SELECT source FROM rejects", 7))["source"].to_list()


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("place", range(3))
def test_all_is_read_again_when_a_part_breaks_between_two_reads(store, damage, place):
    parts = with_parts(store, REJECTS, 3)
    broken, looked, reads = [*parts][place], ReadableStore(store.root), []

    def read() -> tuple[list[str], list[str]]:
        before = ids_in(looked)
        if not reads:
            DAMAGES[damage](path_of(store, REJECTS, broken), REJECTS)
        reads.append(before)
        return before, ids_in(looked)

    before, after = looked.again(read)
    assert before == after == pl.concat(rows for part, rows in parts.items() if part != broken)["source"].to_list()
    assert len(reads) == 2 and len(reads[0]) == 3 * ROWS and len(looked.problems) == 1


class ReplacedMeanwhile(ReadableStore):
    """A store whose rejects are replaced when a part of them is about to be read."""

    is_replaced = False

    def part_slices(self, *of_part):
        if not self.is_replaced:
            self.is_replaced = True
            Store(self.root).replace(REJECTS, drawn_rows(REJECTS, range(7)))
        return super().part_slices(*of_part)


@pytest.mark.parametrize("way", WAYS)
def test_a_part_that_a_writer_replaced_is_no_damage(store, way):
    with_parts(store, REJECTS, 3)
    looked = ReplacedMeanwhile(store.root)
    assert looked.again(lambda: ids_in(looked)) == [f"{number:06}" for number in range(7)]
    assert looked.problems == [] and WAYS[way](looked, REJECTS).height == 7


class FailsClosed(ReadableStore):
    whole_or_none = (LANGUAGE,)


@pytest.fixture(params=range(3))
def two_damaged(store, damage, request) -> Store:
    """A store with the same damage at one place of two tables of three parts each."""
    for table in (LANGUAGE, REJECTS):
        parts = [*with_parts(store, table, 3)]
        DAMAGES[damage](path_of(store, table, parts[request.param]), table)
    return store


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize(("kind", "parts"), [(FailsClosed, 2), (ReadableStore, 4)])
def test_a_question_has_no_row_of_a_damaged_table_that_is_whole_or_nothing(two_damaged, kind, parts):
    both = 'SELECT content_id AS id FROM "signals/language" UNION ALL SELECT source FROM rejects'
    assert kind(two_damaged.root).ask(both).height == parts * ROWS


@pytest.mark.parametrize("damage", DAMAGES)
def test_of_a_table_that_is_whole_or_nothing_no_part_is_read_when_one_is_lost(two_damaged):
    looked = FailsClosed(two_damaged.root)
    assert looked.read(LANGUAGE).height == 0 and looked.damaged == {LANGUAGE}


@pytest.mark.parametrize("damage", ["broken", "lost"])
@pytest.mark.parametrize("kind", [ReadableStore, FailsClosed])
def test_a_table_whose_list_is_lost_or_broken_is_damaged_without_a_row(store, kind, damage):
    with_parts(store, LANGUAGE, 2)
    if damage == "lost":
        store.fs.rm_file(store.at(f"tables/{LANGUAGE}/parts.json"))
    else:
        store.write_bytes(f"tables/{LANGUAGE}/parts.json", b"[")
    looked = kind(store.root)
    assert looked.ask('SELECT * FROM "signals/language"').height == 0
    assert looked.damaged == {LANGUAGE}


@pytest.mark.parametrize("what", ["part", "list"])
def test_the_quarantine_is_read_whole_or_nothing_is(store, what):
    parts = [*with_parts(store, "quarantine", 2)]
    store.write_bytes(f"tables/quarantine/{parts[0] if what == 'part' else 'parts.json'}", b"broken")
    looked = ReadableStore(store.root)
    for read in WAYS.values():
        with pytest.raises(StoreUnwell, match="table 'quarantine'"):
            read(looked, "quarantine")


def test_nothing_is_read_of_a_quarantine_whose_list_is_lost(store):
    with_parts(store, "quarantine", 2)
    store.fs.rm_file(store.at("tables/quarantine/parts.json"))
    looked = ReadableStore(store.root)
    for read in WAYS.values():
        with pytest.raises(StoreUnwell, match="table 'quarantine' has parts and no parts"):
            read(looked, "quarantine")


def test_a_store_to_look_at_is_not_written(store):
    with_parts(store, REJECTS, 2)
    looked = ReadableStore(store.root)
    for write in (looked.replace, looked.append):
        with pytest.raises(TypeError, match="is not written"):
            write(REJECTS, drawn_rows(REJECTS, range(90, 95)))
    assert ReadableStore(store.root).read(REJECTS).height == 2 * ROWS


def test_a_part_of_another_layout_is_no_damage(store):
    part = store.write_part("battles", pl.DataFrame({"battle_id": ["b"]}).to_arrow())
    store.list_parts("battles", [part])
    looked = ReadableStore(store.root)
    with pytest.raises(Exception, match="curate migrate"):
        looked.ask("SELECT winner FROM battles")
    assert looked.problems == []
