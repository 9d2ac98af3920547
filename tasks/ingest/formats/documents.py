"""PDFs that a message names by a path below the folder of the files, as pictures may be named.

In: a row as its adapter reads it, and its place. Out: the row with a `DocumentFile` in place of each part of a message
that is such a PDF, so that its pages are pictures of the row. A file that is not there, is none of the folder or no PDF
that can be drawn stays a part that is not read, of a kind that says so.
"""

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from tasks.images.decode import FILE_BYTES_MAX
from tasks.images.pdf_pages import LARGE, PDF, PdfRejected, page_count
from tasks.ingest.formats.parts import CONTENT_KEYS, DocumentFile, is_plain, paths_of_pdfs
from tasks.ingest.formats.pictures import SourceRow, as_list, file_below
from tasks.ingest.log_line import Place


def with_documents(row: SourceRow, place: Place) -> SourceRow:
    """The row with the PDFs that its messages name by a path; the row itself, as most are, without one."""
    changed_columns = {}
    for column, value in row.items():
        if type(value) is list:
            # an element is a message, or a part of the only one; most rows name no PDF and stay the same object
            messages = [_message(element, place) for element in value]
            if any(new is not old for new, old in zip(messages, value, strict=True)):
                changed_columns[column] = messages
    return {**row, **changed_columns} if changed_columns else row


def _message(message: Any, place: Place) -> Any:
    if is_plain(message):
        return message
    if type(message) is list and len(message) == 1:  # some releases wrap each message
        inner = _message(message[0], place)
        return message if inner is message[0] else [inner]
    if not isinstance(message, Mapping):
        return message
    changed_fields = {}
    for key in CONTENT_KEYS:
        content = message.get(key)
        if isinstance(content, list | Mapping):
            items = [_item(item, place) for item in as_list(content)]
            if any(isinstance(item, DocumentFile) for item in items):
                changed_fields[key] = items
    return {**message, **changed_fields} if changed_fields else message


def _item(item: Any, place: Place) -> Any:
    """The document that an item of a content names by a path; another item as it is."""
    paths = paths_of_pdfs(item) if isinstance(item, Mapping) else []
    if len(paths) != 1:
        return item
    file = file_below(place, paths[0])
    if file is None:
        return DocumentFile(paths[0], 0, PDF)
    status = file.stat()
    return DocumentFile(paths[0], *_pages(file, status.st_size, status.st_mtime_ns))


@lru_cache(maxsize=4096)
def _pages(file: Path, size_bytes: int, modified_ns: int) -> tuple[int, str]:
    """(pages, why none can be drawn) of a file with this size and time of change."""
    if size_bytes > FILE_BYTES_MAX:
        return 0, LARGE
    try:
        return page_count(file.read_bytes()), ""
    except PdfRejected as rejected:
        return 0, rejected.kind
    except OSError:
        return 0, PDF
