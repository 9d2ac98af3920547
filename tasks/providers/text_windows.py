"""Splits long texts into overlapping pieces, for models with a short context."""

from collections.abc import Iterator

_BREAKS = str.maketrans("\n\t\r", "   ")


def windows(text: str, characters: int, overlap: int) -> Iterator[str]:
    """Pieces of at most `characters` that cover the text, in order; `overlap` is less than half of `characters`.

    Pieces begin and end between words if there is a break within the last `overlap` characters of a piece.
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


def pieces_of(text: str, characters: int, overlap: int) -> list[str]:
    """The windows of a text; none of a blank one."""
    return list(windows(text, characters, overlap)) if text.strip() else []
