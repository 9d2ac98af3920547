"""Where images stand among the words of a message: read from `<image>` marks, typed parts or given characters.

FastChat logs a message with images as [text, names]: they stand before the text, unless the text has one mark for each.
"""

from collections.abc import Sequence
from typing import Any

from schemas.reject import LineRejected, RejectReason

MARK = "<image>"
_TEXT_PARTS = ("text", "input_text", "output_text")
IMAGE_PARTS = ("image", "image_url", "input_image")


def text_and_images(text: Any, names: list[Any], characters: Any = None) -> tuple[Any, list[Any], Sequence[int]]:
    """(text without marks, image names, characters before each image) of a message's content.

    `characters`, which format adapters give, is checked. Raises LineRejected when it does not fit.
    """
    if characters is not None:
        if type(characters) is not list or len(characters) != len(names) or not _within(characters, text):
            raise LineRejected(RejectReason.BAD_MESSAGES, "places of images do not fit the text")
        return text, names, characters
    if names and type(text) is str and text.count(MARK) == len(names):
        said, places = without_marks(text)
        return said, names, places
    return text, names, [0] * len(names)


def _within(characters: list[Any], text: Any) -> bool:
    most = len(text) if type(text) is str else 0
    return all(type(each) is int and 0 <= each <= most for each in characters)


def without_marks(text: str) -> tuple[str, list[int]]:
    """(the text without its marks, the characters before each). A mark on a line of its own goes with its line."""
    said, *pieces = text.split(MARK)
    places = []
    for piece in pieces:
        places.append(len(said))
        said += piece.removeprefix("\n") if not said or said.endswith("\n") else piece
    return said, places


def text_of(content: Any) -> Any:
    """The text of a message; text parts of a list of typed parts are joined by line breaks."""
    return _joined(content)[0] if isinstance(content, list) else content


def images_of(content: Any) -> list[int]:
    """The characters before each image part of a list of typed parts; other content has none."""
    return _joined(content)[1] if isinstance(content, list) else []


def _joined(parts: Sequence[Any]) -> tuple[str, list[int]]:
    said, places, waiting = "", list[int](), 0
    for part in parts:
        if part["type"] in IMAGE_PARTS:
            waiting += 1
        elif part["type"] in _TEXT_PARTS and part["text"]:
            said += "\n" if said else ""
            places += [len(said)] * waiting
            said, waiting = said + part["text"], 0
    return said, places + [len(said)] * waiting
