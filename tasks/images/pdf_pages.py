"""Pages of PDF documents as pixels, drawn by PDFium (the extra `pdf`).

In: the bytes of an untrusted document. Out: how many pages it has (`page_count`), and one page as the pixels of an
image (`open_page`). A document that cannot be drawn has a name for why (`PdfRejected`). PDFium is not safe on several
threads at once, so it is asked by one at a time; scripts in documents are not run.
"""

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from importlib.util import find_spec
from threading import Lock
from typing import Any

import numpy as np

from schemas.items.reject import RejectReason
from tasks.images.decode import FILE_BYTES_MAX, DecodedImage, ImageRejected, from_pixels

PDF = "pdf"
"""Name of a document whose bytes are not at hand, or for which PDFium is not installed."""
DAMAGED, ENCRYPTED, LARGE = "damaged_pdf", "encrypted_pdf", "large_pdf"
"""Names of documents that cannot be drawn: no PDF that can be read; behind a password; too many bytes or pages."""
PAGES_MAX = 50
"""Pages of the longest document that is drawn."""
_POINTS_AN_INCH, _PIXELS_AN_INCH = 72, 150
SIDE_PIXELS_MAX = 2000
"""Longer side of a page that is drawn; an A4 page has 1,754 pixels at 150 dots an inch."""
_SECONDS_MAX = 30.0
"""Processor time after which the drawing of a page is given up: a small document may repeat a path a billion times."""
_PASSWORD_ERROR = 4
"""FPDF_ERR_PASSWORD."""
_WHITE = (255, 255, 255, 255)
_one_at_a_time = Lock()


class PdfRejected(Exception):
    """A document whose pages cannot be drawn; `kind` is PDF, DAMAGED, ENCRYPTED or LARGE."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.kind = kind


def draws_pages() -> bool:
    """Whether PDFium is installed."""
    return find_spec("pypdfium2") is not None


@lru_cache(maxsize=4)  # a document is held as long as its count
def page_count(content: bytes) -> int:
    """The number of pages of a document, at least 1. Raises PdfRejected."""
    if not draws_pages():
        raise PdfRejected(PDF)
    if len(content) > FILE_BYTES_MAX:
        raise PdfRejected(LARGE)
    with _opened(content) as document:
        count = len(document)
    if count > PAGES_MAX:
        raise PdfRejected(LARGE)
    if count < 1:
        raise PdfRejected(DAMAGED)
    return count


def open_page(content: bytes, number: int) -> DecodedImage:
    """Page `number`, from 0, drawn on white. Raises ImageRejected when it cannot be drawn."""
    try:
        with _opened(content) as document:
            pixels = _drawn(document, number)
    except PdfRejected as rejected:
        raise ImageRejected(RejectReason.NOT_AN_IMAGE, rejected.kind) from None
    except ImageRejected:
        raise
    except Exception as error:  # PDFium's own, or sizes that no array can have
        raise ImageRejected(RejectReason.NOT_AN_IMAGE, f"page of a PDF: {type(error).__name__}") from None
    return from_pixels(pixels)


@contextmanager
def _opened(content: bytes) -> Iterator[Any]:
    """The open document, for this thread alone. Raises PdfRejected."""
    import pypdfium2

    with _one_at_a_time:
        try:
            document = pypdfium2.PdfDocument(content)
        except pypdfium2.PdfiumError as error:
            raise PdfRejected(ENCRYPTED if error.err_code == _PASSWORD_ERROR else DAMAGED) from None
        try:
            yield document
        finally:
            document.close()


def _drawn(document: Any, number: int) -> Any:
    """uint8 (height, width, 3), RGB, of one page, with annotations and what is filled into its forms."""
    import pypdfium2
    import pypdfium2.raw as pdfium

    document.init_forms()
    page = document[number]
    width_points, height_points = page.get_size()
    longer = max(width_points, height_points)
    if not (math.isfinite(longer) and min(width_points, height_points) > 0):
        raise ImageRejected(RejectReason.NOT_AN_IMAGE, "a page without a size")
    scale = min(_PIXELS_AN_INCH / _POINTS_AN_INCH, SIDE_PIXELS_MAX / longer)
    width, height = (max(1, round(points * scale)) for points in (width_points, height_points))
    bitmap = pypdfium2.PdfBitmap.new_native(width, height, pdfium.FPDFBitmap_BGR)
    bitmap.fill_rect(_WHITE, 0, 0, width, height)
    deadline = time.thread_time() + _SECONDS_MAX
    pause = pdfium.IFSDK_PAUSE(version=1)
    pause.NeedToPauseNow = dict(pdfium.IFSDK_PAUSE._fields_)["NeedToPauseNow"](lambda _: time.thread_time() > deadline)
    area = (bitmap, page, 0, 0, width, height, 0, pdfium.FPDF_ANNOT)
    state = pdfium.FPDF_RenderPageBitmap_Start(*area, pause)
    pdfium.FPDF_RenderPage_Close(page)
    if state != pdfium.FPDF_RENDER_DONE:
        is_late = state == pdfium.FPDF_RENDER_TOBECONTINUED
        raise ImageRejected(
            RejectReason.IMAGE_TOO_LARGE if is_late else RejectReason.NOT_AN_IMAGE,
            f"a page that takes more than {_SECONDS_MAX:g} s" if is_late else "a page that cannot be drawn",
        )
    if document.formenv:
        pdfium.FPDF_FFLDraw(document.formenv, *area)
    return np.ascontiguousarray(bitmap.to_numpy()[:, :, ::-1])
