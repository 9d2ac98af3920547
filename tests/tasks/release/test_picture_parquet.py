"""Files whose pictures are laid out here are what pyarrow would have written, to every reader."""

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.parquet import PAGE_BYTES, ParquetFile, encode_parquet
from tasks.release import picture_parquet
from tasks.release.file_pieces import FilePieces
from tasks.release.picture_pages import lay_out
from tasks.release.picture_parquet import PictureParquet, encode_group
from tasks.release.plain_values import plain_values
from tasks.release.thrift import repeated, signed

PICTURE = pa.struct([pa.field("bytes", pa.binary()), pa.field("path", pa.string())])
SCHEMA = pa.schema([pa.field("name", pa.string()), pa.field("images", pa.list_(PICTURE)), pa.field("n", pa.int32())])


def _rows(shown, empty=False):
    """One row a list of pictures; `empty` leaves their bytes out."""
    listed = [[{"bytes": b"" if empty else each, "path": f"{len(each)}.png"} for each in row] for row in shown]
    columns = [pa.array([f"row {n % 3}" for n in range(len(shown))]), pa.array(listed, SCHEMA.field("images").type)]
    return pa.table([*columns, pa.array(range(len(shown)), pa.int32())], schema=SCHEMA)


def _group(shown):
    sizes = [len(each) for row in shown for each in row]
    return encode_group(_rows(shown, empty=True), np.array([len(row) for row in shown]), np.array(sizes, np.int64))


def _write(path, groups):
    pictures = path.with_name("pictures")
    pictures.write_bytes(b"".join(each for shown in groups for row in shown for each in row))
    at = 0
    with PictureParquet(path, SCHEMA) as file:
        for shown in groups:
            sizes = [len(each) for row in shown for each in row]
            file.write(_group(shown), _pieces([pictures], [0] * len(sizes), sizes, at))
            at += sum(sizes)
    return path


def _pieces(paths, files, lengths, start=0):
    """Pieces that follow each other, whichever of the files each is from."""
    lengths = np.array(lengths, np.int64)
    offsets = start + np.cumsum(lengths) - lengths
    return FilePieces(np.array(files, np.int32), offsets, lengths, lambda number: paths[number].open("rb"))


def _picture(seed, size):
    return np.random.default_rng(seed).bytes(size)


SIZES = st.sampled_from([0, 1, 200, 20_000, 32 * 1024 - 5, 32 * 1024 - 4, 70_000])
ROWS = st.lists(st.lists(SIZES, max_size=4), min_size=1, max_size=40)


@settings(max_examples=60)
@given(groups=st.lists(ROWS, min_size=1, max_size=3))
def test_what_is_written_is_read_back_by_pyarrow_and_polars(tmp_path_factory, groups):
    shown = [[[_picture(n, size) for size in row] for n, row in enumerate(group)] for group in groups]
    path = _write(tmp_path_factory.mktemp("file") / "x.parquet", shown)
    wanted = pa.concat_tables([_rows(group) for group in shown])
    assert pq.read_table(path).equals(wanted)
    assert pl.read_parquet(path).equals(pl.from_arrow(wanted))
    metadata = pq.read_metadata(path)
    assert [metadata.row_group(n).num_rows for n in range(metadata.num_row_groups)] == list(map(len, groups))


@pytest.mark.parametrize("rows", [0, 1, 3])
def test_one_large_picture_a_row_gives_the_bytes_that_pyarrow_writes(tmp_path, monkeypatch, rows):
    monkeypatch.setattr(picture_parquet, "TEXT_ROWS", 1)
    monkeypatch.setattr(picture_parquet, "_UNIQUE", set())
    monkeypatch.setattr(picture_parquet, "_layout", picture_parquet._layout.__wrapped__)
    groups = [[[_picture(n, 40_000 + n)] for n in range(rows)] for _ in range(2) if rows]
    with ParquetFile(tmp_path / "pyarrow.parquet", SCHEMA) as file:
        for shown in groups:
            file.write(_rows(shown))
    assert _write(tmp_path / "ours.parquet", groups).read_bytes() == (tmp_path / "pyarrow.parquet").read_bytes()


def test_the_page_index_finds_single_rows(tmp_path):
    shown = [[_picture(n, 40_000)] for n in range(50)]
    path = _write(tmp_path / "x.parquet", [shown])
    chunk = pq.read_metadata(path).row_group(0).column(1)
    assert chunk.path_in_schema == "images.list.element.bytes"
    assert chunk.has_offset_index
    found = pl.scan_parquet(path).slice(31, 2).select("images").collect()
    assert [row[0]["bytes"] for row in found["images"]] == [shown[31][0], shown[32][0]]


@given(numbers=st.lists(st.integers(0, 2**62 - 1), max_size=20))
def test_many_structs_at_once_are_what_one_at_a_time_are(numbers):
    content, ends = repeated(b"\x16", np.array(numbers, np.int64), b"\0")
    apart = [b"\x16" + signed(number) + b"\0" for number in numbers]
    assert content == b"".join(apart)
    assert ends == np.cumsum([len(each) for each in apart]).tolist()


def test_a_failure_leaves_a_file_that_no_reader_takes_for_whole(tmp_path):
    with pytest.raises(RuntimeError, match="stop"), PictureParquet(tmp_path / "x.parquet", SCHEMA) as file:
        file.write(_group([[]]), _pieces([], [], []))
        raise RuntimeError("stop")
    with pytest.raises(pa.ArrowInvalid):
        pq.read_table(tmp_path / "x.parquet")


def test_a_page_ends_with_the_row_that_fills_it_to_the_byte():
    alone = np.full(3, PAGE_BYTES - 4)  # and four for its length
    assert lay_out(np.ones(3, np.int64), alone).rows.tolist() == [1, 1, 1]
    assert lay_out(np.ones(3, np.int64), alone - 1).rows.tolist() == [2, 1]


def test_too_few_pictures_stop_the_release(tmp_path):
    with pytest.raises(ValueError, match="0 pictures"), PictureParquet(tmp_path / "x.parquet", SCHEMA) as file:
        file.write(_group([[b"a"]]), _pieces([], [], []))


FLAT = pa.schema([pa.field("bytes", pa.binary()), pa.field("name", pa.string())])


@settings(max_examples=40)
@given(sizes=st.lists(st.sampled_from([0, 1, 900, 400_000]), max_size=30))
def test_values_of_a_part_are_found_where_they_lie(tmp_path_factory, sizes):
    values = [_picture(n, size) for n, size in enumerate(sizes)]
    path = tmp_path_factory.mktemp("part") / "x.parquet"
    path.write_bytes(encode_parquet(pa.table([values, ["x"] * len(values)], schema=FLAT)))
    content = path.read_bytes()
    offsets, lengths = plain_values(str(path), "bytes")
    assert [content[a : a + n] for a, n in zip(offsets, lengths, strict=True)] == values


@pytest.mark.parametrize(
    "options",
    [
        {"compression": "zstd"},
        {"use_dictionary": True},
        {"data_page_version": "2.0"},
        {"write_statistics": True},
        {"nulls": True},
    ],
    ids=lambda options: next(iter(options)),
)
def test_values_that_are_stored_in_another_way_are_not_misread(tmp_path, options):
    large = b"y" * (1000 if "write_statistics" in options else 100)
    values = [None if options.get("nulls") else b"x", large, large]
    plain = {"compression": "none", "use_dictionary": False, "write_statistics": False} | {
        k: v for k, v in options.items() if k != "nulls"
    }
    pq.write_table(pa.table([values, ["x"] * 3], schema=FLAT), tmp_path / "x.parquet", **plain)
    assert plain_values(str(tmp_path / "x.parquet"), "bytes") is None


@pytest.mark.parametrize("lost", [1, 5])
def test_values_that_do_not_fill_their_page_are_not_misread(tmp_path, lost):
    path = tmp_path / "x.parquet"
    path.write_bytes(encode_parquet(pa.table([[b"first", b"the last"], ["x"] * 2], schema=FLAT)))
    content = path.read_bytes()
    length = (8).to_bytes(4, "little") + b"the last"
    path.write_bytes(content.replace(length, (8 - lost).to_bytes(4, "little") + b"the last"))
    assert path.read_bytes() != content and plain_values(str(path), "bytes") is None
