"""Pages of a PDF become pixels within limits; a document that cannot be drawn says why."""

import io
import threading
import time
import tracemalloc
from itertools import count

import numpy as np
import PIL.Image
import pytest

from schemas.items.reject import RejectReason
from tasks.images.decode import FILE_BYTES_MAX, ImageRejected
from tasks.images.pdf_pages import PAGES_MAX, SIDE_PIXELS_MAX, PdfRejected, open_page, page_count
from tests.pdf_documents import COLOURS, encrypted, page_with, pdf, slow

pytest.importorskip("pypdfium2", reason="the extra pdf")


def test_pages_of_a_document_are_counted():
    assert page_count(pdf(3)) == 3


@pytest.mark.parametrize(("number", "colour"), [*enumerate(COLOURS)])
def test_a_page_is_drawn_in_its_colours(number, colour):
    middle = open_page(pdf(3), number).rgb[40, 60].astype(int)
    assert np.abs(middle - PIL.ImageColor.getrgb(colour)).max() <= 3


def test_a_page_is_the_same_picture_each_time():
    assert open_page(pdf(2), 1).image_id == open_page(pdf(2), 1).image_id


@pytest.mark.parametrize(
    ("box", "shape"),
    [(b"0 0 595 842", (1754, 1240)), (b"0 0 14400 14400", (2000, 2000)), (b"0 0 14400 1", (1, 2000))],
)
def test_no_page_is_drawn_larger_than_the_limit(box, shape):
    assert open_page(page_with(b"", box), 0).rgb.shape == (*shape, 3)
    assert max(shape) <= SIDE_PIXELS_MAX


REFUSED = {
    "junk": (b"junk", "damaged_pdf"),
    "empty": (b"", "damaged_pdf"),
    "cut off": (pdf(1)[:150], "damaged_pdf"),
    "encrypted": (encrypted(), "encrypted_pdf"),
    "too many pages": (pdf(PAGES_MAX + 1), "large_pdf"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_document_that_cannot_be_drawn_says_why(what):
    content, kind = REFUSED[what]
    with pytest.raises(PdfRejected, match=kind):
        page_count(content)


def test_as_many_pages_as_the_limit_are_drawn():
    assert page_count(pdf(PAGES_MAX)) == PAGES_MAX


def test_too_many_bytes_are_not_opened():
    with pytest.raises(PdfRejected, match="large_pdf"):
        page_count(pdf(2) + bytes(FILE_BYTES_MAX))


def test_documents_whose_pages_are_counted_do_not_stay_in_memory():
    page_count.cache_clear()
    tracemalloc.start()
    for number in range(12):
        page_count(pdf(1).replace(b"\n", b"\n%" + b"%d" % number + bytes(8_000_000) + b"\n", 1))
    held_bytes, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held_bytes < 50_000_000


def test_a_page_that_takes_too_long_is_given_up(monkeypatch):
    monkeypatch.setattr(time, "thread_time", count(0, 31).__next__)  # half a minute passes between two looks
    with pytest.raises(ImageRejected) as told:
        open_page(slow(), 0)
    assert told.value.reason is RejectReason.IMAGE_TOO_LARGE


def test_threads_draw_what_one_thread_draws():
    document = pdf(3)
    alone = [open_page(document, number).image_id for number in range(3)]
    drawn: dict[int, str] = {}

    def draw(place: int) -> None:
        drawn[place] = open_page(document, place % 3).image_id

    threads = [threading.Thread(target=draw, args=(place,)) for place in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [drawn[place] for place in range(12)] == alone * 4


def test_no_broken_document_stops_the_process():
    rng = np.random.default_rng(0)
    whole = np.frombuffer(pdf(2), np.uint8)
    rejected = 0
    for _ in range(60):
        broken = whole.copy()
        broken[rng.integers(0, len(whole), 20)] = rng.integers(0, 256, 20)
        try:
            for number in range(page_count(broken.tobytes())):
                open_page(broken.tobytes(), number)
        except (PdfRejected, ImageRejected):
            rejected += 1
    assert 0 < rejected < 60, "some are read, some refused, and none raises anything else"


def test_a_page_holds_pixels_alone():
    image = open_page(pdf(1), 0)
    assert PIL.Image.open(io.BytesIO(image.encoded)).info == {}
