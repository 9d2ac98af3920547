"""PDF documents for tests: pages of one colour, and documents that cannot be drawn."""

import io

import PIL.Image

COLOURS = ("red", "lime", "blue")
"""Colours of the pages, in turn."""


def pdf(pages: int) -> bytes:
    """A document of some pages."""
    drawn = [PIL.Image.new("RGB", (64, 48), COLOURS[number % len(COLOURS)]) for number in range(pages)]
    stream = io.BytesIO()
    drawn[0].save(stream, "PDF", save_all=True, append_images=drawn[1:])
    return stream.getvalue()


def page_with(content: bytes, box: bytes = b"0 0 600 800", trailer: bytes = b"") -> bytes:
    """A document of one page with these drawing commands."""
    objects = (
        b"1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj\n"
        b"3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[" + box + b"]/Contents 4 0 R>>endobj\n"
    )
    stream = b"4 0 obj<</Length %d>>stream\n" % len(content) + content + b"\nendstream endobj\n"
    end = b"trailer<</Root 1 0 R" + trailer + b">>\n%%EOF\n"
    return b"%PDF-1.4\n" + objects + stream + end


def encrypted() -> bytes:
    """A document behind a password that nobody knows."""
    handler = b"/Encrypt<</Filter/Standard/V 1/R 2/P -4/O<" + b"11" * 32 + b">/U<" + b"22" * 32 + b">>>/ID[<00><00>]"
    return page_with(b"", trailer=handler)


def slow() -> bytes:
    """A page of many long lines."""
    lines = (b"%d %d m %d %d l S" % (n % 600, n * 7 % 800, n * 13 % 600, n * 29 % 800) for n in range(300_000))
    return page_with(b"\n".join(lines))
