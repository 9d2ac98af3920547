"""Writing rows with pictures: our Parquet options against pyarrow's defaults and against a plain write."""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.timing import compare
from tasks.tables import encode_parquet, parquet_options

ROWS, PICTURE_BYTES = 3_000, 60_000


def run() -> list[dict[str, Any]]:
    """Seconds to write the same table."""
    generator = np.random.default_rng(0)
    pictures = [generator.bytes(PICTURE_BYTES) for _ in range(ROWS)]
    text = [f"What is shown in picture {number}? " * 20 for number in range(ROWS)]
    images = [[{"bytes": content, "path": f"{number:032x}.png"}] for number, content in enumerate(pictures)]
    table = pa.table({"images": images, "text": text})
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "rows.parquet"

        def chunked() -> None:
            pq.write_table(table, target, use_content_defined_chunking=True, **parquet_options(table.schema))

        def plain() -> None:
            target.write_bytes(b"".join(pictures))

        def ours() -> None:
            target.write_bytes(encode_parquet(table))

        return [
            compare("release: Parquet write", ROWS, ours, "pyarrow defaults", lambda: pq.write_table(table, target)),
            compare("release: Parquet write", ROWS, ours, "plain write of the picture bytes", plain),
            compare(
                "release: Parquet write, content-defined chunks",
                ROWS,
                chunked,
                "pyarrow defaults",
                lambda: pq.write_table(table, target),
            ),
        ]
