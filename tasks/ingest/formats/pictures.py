"""The pictures of a row: bytes, texts that encode them, and paths below the folder of the files.

In: a value of a row, in any nesting of `PICTURE_KEYS`. Out: where its picture is (`picture_of`), and from this its
bytes (`picture_bytes`) or its file (`file_below`). Nothing is decoded or opened before that. Another key below which
pictures stand is a word of `PICTURE_KEYS`.
"""

import base64
import binascii
import os
import posixpath
import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote, unquote_to_bytes, urlsplit

from tasks.ingest.log_line import Place
from tasks.runtime.spelled_paths import as_on_disk

SourceRow = Mapping[str, Any]
PICTURE_KEYS = (
    "bytes", "data", "base64", "b64_json", "file_data", "image_data", "image", "image_url", "input_image", "img",
    "picture", "url", "source", "file", "image_file", "inline_data", "inlineData", "media", "blob", "file_url", "uri",
    "file_uri", "path", "image_path", "file_path",
)  # fmt: skip
"""Keys of a part below which its picture stands, the closest to the bytes first."""
_ENCODED_KEYS = frozenset({"bytes", "data", "base64", "b64_json", "file_data", "image_data"})
"""Keys of which a text encodes the bytes, whatever it begins with; below the others it may be a path."""
_MEDIA_TYPE_KEYS = ("media_type", "mediaType", "mime_type", "mimeType", "mimetype")
_DEPTH_MAX = 6
"""Mappings and lists of one within each other that `picture_of` opens."""
_DATA_HEAD = re.compile(r"(?i)\s*data:([^,]*),")
_LEADING_CHARACTERS = 32
"""A data: address begins within these first characters: blanks may stand before it."""
_ADDRESS_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")
_BASE64_BEGINNINGS = ("iVBORw0KGgo", "/9j/", "R0lGOD", "UklGR", "JVBERi0")
"""How PNG, JPEG, GIF, WebP and PDF begin in base64."""
_BASE64_CHARACTERS_MIN = 60
"""A shorter text with one of `_BASE64_BEGINNINGS` is a path."""
_SLASHES = re.compile(r"[/\\]+")


def as_list(value: Any) -> list[Any]:
    """The elements of a list without its nulls; [value] for another value, [] for null."""
    values = value if isinstance(value, list) else [value]
    return [element for element in values if element is not None]


def is_empty(value: Any) -> bool:
    """Whether a value holds nothing. A mapping of nulls does: Arrow gives a struct all keys that it has in any row."""
    if isinstance(value, Mapping):
        return all(field is None or field == "" for field in value.values())
    return value is None or value == "" or value == []


def column_pictures(row: SourceRow) -> list[SourceRow]:
    """The pictures in the row's columns `images` and `image`, in order; {} for a null in a list."""
    pictures: list[SourceRow] = []
    for column in ("images", "image"):
        value = row.get(column)
        # A null in a list keeps its number: parts of messages refer to the pictures by their order.
        values = value if isinstance(value, list) else as_list(value)
        pictures += [{} if picture is None else picture_of(picture) for picture in values]
    return pictures


def picture_of(value: Any) -> SourceRow:
    """Where a picture of a row is. Nothing is fetched from an address.

    {bytes, path}: its bytes, which are absent while only lines are read, and the name of its file;
    {encoded}: a text that encodes its bytes; {file}: a path; {}: none that can be read.
    """
    key = ""
    for _ in range(_DEPTH_MAX):
        if isinstance(value, Mapping):
            # The struct of `datasets`, perhaps with more keys.
            content, path = value.get("bytes"), value.get("path")
            if value.keys() <= {"bytes", "path"} or content is not None or path is not None:
                return _picture_of_struct(content, path)
            key = _first_picture_key(value)
            value = value.get(key)
        elif isinstance(value, list) and len(value) == 1:
            value = value[0]
        else:
            break
    if isinstance(value, bytes):
        return {"bytes": value, "path": None}
    if isinstance(value, str):
        return _picture_of_text(value.strip(), is_encoded=key in _ENCODED_KEYS)
    return {}


def _first_picture_key(part: SourceRow) -> str:
    """The first of `PICTURE_KEYS` that a part has a value below; empty if there is none."""
    for key in PICTURE_KEYS:
        if part.get(key) is not None:
            return key
    return ""


def _picture_of_struct(content: Any, path: Any) -> SourceRow:
    """The picture of a {bytes, path}, either of which may be a text that encodes it."""
    if isinstance(path, str) and is_data_address(path):
        return {"encoded": path}
    if isinstance(content, str):
        return {"encoded": content}
    return {"bytes": content, "path": path}


def _picture_of_text(text: str, *, is_encoded: bool) -> SourceRow:
    """The picture that a text encodes or names; `is_encoded`: its key says that it encodes one."""
    if is_data_address(text):
        return {"encoded": text}
    if text.startswith(_BASE64_BEGINNINGS) and len(text) >= _BASE64_CHARACTERS_MIN:
        return {"encoded": text}
    is_file_address = text.lower().startswith("file:")
    if not text or (_ADDRESS_SCHEME.match(text) and not is_file_address):
        return {}
    return {"encoded": text} if is_encoded else {"file": text}


def is_data_address(text: str, begins: str = "") -> bool:
    """Whether a text is a data: address whose media type begins with `begins`."""
    if "data:" not in text[:_LEADING_CHARACTERS].lower():
        return False
    head = _DATA_HEAD.match(text)
    return head is not None and head[1].strip().lower().startswith(begins)


def stated_media_type(holder: SourceRow) -> str | None:
    """The media type that a part states, in lower case, such as image/png; None if it states none."""
    for key in _MEDIA_TYPE_KEYS:
        media_type = holder.get(key)
        if isinstance(media_type, str):
            return media_type.strip().lower()
    return None


def picture_bytes(picture: SourceRow) -> bytes | None:
    """The bytes that a picture of a row holds, of a page those of its PDF; None for a path and what cannot be read."""
    content = picture.get("bytes")
    if isinstance(content, bytes):
        return content
    encoded = picture.get("encoded")
    return _decoded(encoded) if isinstance(encoded, str) else None


@lru_cache(maxsize=1)
def _decoded(text: str) -> bytes:
    """The bytes of a data: address or of base64; those of the text itself where it is neither.

    Case, blanks, wrapped lines, lacking padding, the alphabet of addresses and %-escapes do not matter. The pages of a
    PDF, which follow each other, share the bytes.
    """
    head = _DATA_HEAD.match(text)
    raw = unquote_to_bytes(text[head.end() :] if head else text)
    parameters = [parameter.strip().lower() for parameter in head[1].split(";")] if head else []
    is_base64 = head is None or "base64" in parameters
    # Some writers leave `;base64` out; then only how it begins says so.
    looks_encoded = raw.lstrip().startswith(tuple(beginning.encode() for beginning in _BASE64_BEGINNINGS))
    if not is_base64 and not looks_encoded:
        return raw
    standard = b"".join(raw.split()).translate(bytes.maketrans(b"-_", b"+/")).rstrip(b"=")
    padding = b"=" * (-len(standard) % 4)
    try:
        return base64.b64decode(standard + padding, validate=True)
    except binascii.Error:
        return raw


def path_of(picture: SourceRow) -> str | None:
    """The path that a picture of a row names, or the name of its file; users may have chosen it."""
    path = picture.get("file") or picture.get("path")
    return path if isinstance(path, str) else None


def relative_path(place: Place, path: str) -> str | None:
    """The path relative to the folder of all files, read from that of the place's file; None for one out of it.

    Nothing is looked for: this is the spelling of the row, but for the kind and number of its slashes.
    """
    if path.lower().startswith("file:"):
        path = unquote(urlsplit(path).path)
    path = _SLASHES.sub("/", path)
    for folder in (place.folder, _without_links(place.folder)):
        if folder and path.startswith(f"{folder}/"):
            return _normalized(path.removeprefix(f"{folder}/"))
    return _normalized(posixpath.join(posixpath.dirname(place.source), path))


def _normalized(path: str) -> str | None:
    """A relative path without `.`, `..` and doubled slashes; None for one that leads out, or that no file can have."""
    normal = posixpath.normpath(path)
    leads_out = normal.startswith(("/", "../")) or normal in ("..", ".")
    return None if leads_out or "\0" in normal else normal


@lru_cache(maxsize=16)
def _without_links(folder: str) -> str:
    return os.path.realpath(folder) if folder else ""


def relative_path_on_disk(place: Place, path: str) -> str | None:
    """`relative_path` as the folder spells it, where it has the file under another Unicode form or case.

    The row's spelling where there is no such file, or where several would fit.
    """
    relative = relative_path(place, path)
    if relative is None or not place.folder:
        return relative
    folder = Path(place.folder)
    file = as_on_disk(folder, relative)
    # A path of which only the folders are there has their spelling, too, so it is no answer.
    return file.relative_to(folder).as_posix() if os.path.lexists(file) else relative


def file_below(place: Place, path: str) -> Path | None:
    """The readable file of a path, below the folder of all files also when links are followed; None without one.

    One whose name differs in Unicode form, case or slashes alone is the file (`spelled_paths`).
    """
    relative = relative_path_on_disk(place, path)
    if relative is None:
        return None
    file = Path(place.folder, relative)
    try:
        is_inside = os.path.realpath(file).startswith(f"{_without_links(place.folder)}/")
        return file if is_inside and file.is_file() and os.access(file, os.R_OK) else None
    except (OSError, ValueError):
        return None
