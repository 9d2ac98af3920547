"""A long text in overlapping pieces, so that a model that reads little at a time reads all of it."""

from collections.abc import Iterator

_BREAKS = str.maketrans("\n\t\r", "   ")


def windows(text: str, characters: int, overlap: int) -> Iterator[str]:
    """Pieces of at most `characters`, in order, that cover the text; `overlap` is less than half of `characters`.

    They begin and end between words where the last `overlap` characters of a piece hold a break, because half a word
    may be another word.
    """
    plain, start = text.translate(_BREAKS), 0
    while start + characters < len(text):
        end = start + characters
        space = plain.rfind(" ", end - overlap, end)
        end = end if space < 0 else space
        yield text[start:end]
        space = plain.find(" ", end - overlap, end)
        start = end - overlap if space < 0 else space + 1
    yield text[start:]
