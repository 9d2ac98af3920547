"""Items that people wrote for a benchmark: rows of `curate bench collect`, which become user-only conversations.

Columns: item_id, instruction, images ({bytes, path}), captions (null without any) and problem. A row with a problem, or
whose captions are unlike its images in number, is rejected.
"""

from collections.abc import Sequence

from schemas.benches.written import AUTHOR
from schemas.items.reject import LineRejected, RejectReason
from tasks.ingest.formats.adapter import FormatAdapter, Record, Row, chat
from tasks.ingest.log_line import Place

PROBLEMS = (
    "its family is not in the families file",
    "no instruction",
    "no image",
    "captions unlike images in number",
    "an id that an earlier item has",
    "an image path that leads out of the folder",
    "an image file of more than 64 MiB",
)
"""Problems that `curate bench collect` finds in rows that cannot be used."""


def _images(row: Row) -> Sequence[Row]:
    return row["images"] or ()


def _record(row: Row, place: Place) -> Record:
    if row["problem"]:
        known = row["problem"] in PROBLEMS
        raise LineRejected(RejectReason.BAD_ITEM, row["problem"] if known else "another problem of its file")
    if row["captions"] and len(row["captions"]) != len(_images(row)):
        raise LineRejected(RejectReason.BAD_ITEM, PROBLEMS[3])
    said = [{"role": "user", "content": row["instruction"]}]
    return chat(
        {"model": AUTHOR, "item_id": row["item_id"], "conversation": said}, place, _images(row), id_column="item_id"
    )


ADAPTER = FormatAdapter(
    "bench-items", frozenset({"item_id", "instruction", "images", "captions", "problem"}), _record, _images, "images"
)
