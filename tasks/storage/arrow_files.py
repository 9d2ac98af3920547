"""Reads Arrow's IPC files, in both of its forms: the stream that `datasets` saves, and the file called Feather."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

_OF_FILES = b"ARROW1"
"""First bytes of the form that is no stream."""


class ArrowFile(NamedTuple):
    """An open file."""

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]


@contextmanager
def open_arrow(path: Path) -> Iterator[ArrowFile]:
    """An Arrow file. It and its batches raise OSError and pa.ArrowException for bytes that are none."""
    with pa.memory_map(str(path)) as mapped:
        is_stream = mapped.read(len(_OF_FILES)) != _OF_FILES
        mapped.seek(0)
        reader = pa.ipc.open_stream(mapped) if is_stream else pa.ipc.open_file(mapped)
        batches = reader if is_stream else map(reader.get_batch, range(reader.num_record_batches))
        yield ArrowFile(reader.schema, _checked(batches))


def _checked(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The batches, each compared with its types: offsets of a broken file would end this process."""
    for batch in batches:
        batch.validate(full=True)
        yield batch
