"""Pieces of files reach another file whole and in order, whatever the system does in between."""

import errno
import os
import resource
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.release import file_pieces
from tasks.release.file_pieces import FilePieces

FILES = [np.random.default_rng(number).bytes(700_000) for number in range(3)]
PIECE = st.tuples(
    st.integers(0, 2),
    st.integers(0, 90_000),
    st.sampled_from([0, 1, 5_000, 256 * 1024 - 1, 256 * 1024, 600_000]),
    st.sampled_from([b"", b"head", b"x" * 300_000]),
)


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    for number, content in enumerate(FILES):
        (folder / str(number)).write_bytes(content)
    return [folder / str(number) for number in range(len(FILES))]


def _appended(paths, target, drawn, last=b"last"):
    files, offsets, lengths, heads = zip(*drawn, strict=True) if drawn else [()] * 4
    pieces = FilePieces(
        np.array(files, np.int32),
        np.array(offsets, np.int64),
        np.array(lengths, np.int64),
        lambda number: paths[number % len(paths)].open("rb"),
    )
    ends = np.cumsum([len(head) for head in heads]).astype(np.int64)
    pieces.append_to(target.fileno(), b"".join(heads) + last, ends)


def _wanted(drawn, last=b"last"):
    return b"".join(head + FILES[file % len(FILES)][start : start + size] for file, start, size, head in drawn) + last


@settings(max_examples=60, deadline=None)
@given(drawn=st.lists(PIECE, max_size=12))
def test_pieces_follow_what_stands_before_them(paths, tmp_path_factory, drawn):
    path = tmp_path_factory.mktemp("out") / "x"
    with path.open("wb", buffering=0) as target:
        _appended(paths, target, drawn)
    assert path.read_bytes() == _wanted(drawn)


def test_pieces_of_more_files_than_may_be_open_are_found(paths, tmp_path):
    drawn = [(number, number, 1_000 + number, b"head") for number in range(700)]
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    last = max(int(each.name) for each in Path("/dev/fd").iterdir())
    resource.setrlimit(resource.RLIMIT_NOFILE, (last + 80, hard))
    try:
        with (tmp_path / "x").open("wb", buffering=0) as target:
            _appended(paths, target, drawn)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert (tmp_path / "x").read_bytes() == _wanted(drawn)


@settings(max_examples=40, deadline=None)
@given(drawn=st.lists(PIECE, min_size=1, max_size=6), share=st.floats(0, 1))
def test_what_the_system_left_undone_is_done_again(paths, tmp_path_factory, drawn, share):
    path = tmp_path_factory.mktemp("out") / "x"
    with path.open("wb", buffering=0) as target, pytest.MonkeyPatch.context() as patch:

        def interrupted(file, files, offsets, lengths, between, ends, buffer):
            count = int(share * (len(between) + lengths.sum()))
            return os.write(file, _wanted(drawn, b"")[:count])

        patch.setattr(file_pieces, "_appended", interrupted)
        patch.setattr(file_pieces, "_OPEN_FILES", 100)
        _appended(paths, target, drawn)
    assert path.read_bytes() == _wanted(drawn)


def test_a_part_that_became_shorter_stops_the_release(paths, tmp_path):
    with (tmp_path / "x").open("wb", buffering=0) as target, pytest.raises(OSError, match="ends before its pictures"):
        _appended(paths, target, [(0, 0, 10, b"head"), (0, 699_999, 2, b"")])


def test_a_full_disk_is_told_as_one(paths, tmp_path):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    with (tmp_path / "x").open("wb", buffering=0) as target:
        resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, limits[1]))
        try:
            with pytest.raises(OSError) as told:
                _appended(paths, target, [(1, 0, 300_000, b"head"), (1, 5, 300_000, b"head")])
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert told.value.errno == errno.EFBIG
