"""The pictures of a row: bytes, texts that encode them, and paths; and what a column of a row has of them.

In: a value as a row has it. Out: where its picture is. Nothing is decoded or opened until its bytes are asked for.
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

Row = Mapping[str, Any]
PICTURE_KEYS = (
    "bytes", "data", "base64", "b64_json", "file_data", "image_data", "image", "image_url", "input_image", "img",
    "picture", "url", "source", "file", "image_file", "inline_data", "inlineData", "media", "blob", "file_url", "uri",
    "file_uri", "path", "image_path", "file_path",
)  # fmt: skip
"""Keys of a part below which its picture stands, the closest to the bytes first."""
_ENCODED_KEYS = frozenset({"bytes", "data", "base64", "b64_json", "file_data", "image_data"})
_MEDIA_TYPE_KEYS = ("media_type", "mediaType", "mime_type", "mimeType", "mimetype")
_DEPTH_MAX = 6
_DATA_HEAD = re.compile(r"(?i)\s*data:([^,]*),")
_LEADING_CHARACTERS = 32
"""Characters in which a data: address begins, with blanks before it."""
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")
_ENCODED_IMAGE = ("iVBORw0KGgo", "/9j/", "R0lGOD", "UklGR")
"""How PNG, JPEG, GIF and WebP begin in base64."""
_ENCODED_CHARACTERS_MIN = 60
"""A shorter text that begins so is a path."""
_SLASHES = re.compile(r"[/\\]+")


def listed(value: Any) -> list[Any]:
    """The elements of a list but for nulls; any other value alone; none for null."""
    values = value if isinstance(value, list) else [value]
    return [each for each in values if each is not None]


def is_empty(value: Any) -> bool:
    """Whether a value holds nothing: Arrow gives rows all keys that any row has."""
    if isinstance(value, Mapping):
        return all(each is None or each == "" for each in value.values())
    return value is None or value == "" or value == []


def beside(row: Row) -> list[Row]:
    """The pictures in the row's columns `images` and `image`, in order; {} for a null in a list."""
    pictures: list[Row] = []
    for column in ("images", "image"):
        value = row.get(column)
        values = value if isinstance(value, list) else listed(value)
        pictures += [{} if each is None else picture_of(each) for each in values]
    return pictures


def picture_of(value: Any) -> Row:
    """Where a picture of a row is. Nothing is fetched from an address.

    {bytes, path}: its bytes, which are absent while only lines are read, and the name of its file;
    {encoded}: a text that encodes its bytes; {file}: a path; {}: none that can be read.
    """
    key = ""
    for _ in range(_DEPTH_MAX):
        if isinstance(value, Mapping):
            if {"bytes", "path"}.issuperset(value) or value.get("bytes") is not None or value.get("path") is not None:
                return _of_struct(value.get("bytes"), value.get("path"))
            key = next((each for each in PICTURE_KEYS if value.get(each) is not None), "")
            value = value.get(key)
        elif isinstance(value, list) and len(value) == 1:
            value = value[0]
        else:
            break
    if isinstance(value, bytes):
        return {"bytes": value, "path": None}
    return _of_text(value.strip(), key in _ENCODED_KEYS) if isinstance(value, str) else {}


def _of_struct(content: Any, path: Any) -> Row:
    encoded = path if isinstance(path, str) and is_data_address(path) else content
    return {"encoded": encoded} if isinstance(encoded, str) else {"bytes": content, "path": path}


def _of_text(text: str, is_encoded: bool) -> Row:
    """A picture that a text encodes or names."""
    if is_data_address(text) or (text.startswith(_ENCODED_IMAGE) and len(text) >= _ENCODED_CHARACTERS_MIN):
        return {"encoded": text}
    if not text or (_SCHEME.match(text) and not text.lower().startswith("file:")):
        return {}
    return {"encoded": text} if is_encoded else {"file": text}


def is_data_address(text: str, begins: str = "") -> bool:
    """Whether a text is a data: address whose media type begins so."""
    if "data:" not in text[:_LEADING_CHARACTERS].lower():
        return False
    head = _DATA_HEAD.match(text)
    return head is not None and head[1].strip().lower().startswith(begins)


def stated_media_type(holder: Row) -> str | None:
    """The media type that a part says, in lower case."""
    told = (holder.get(key) for key in _MEDIA_TYPE_KEYS)
    return next((each.strip().lower() for each in told if isinstance(each, str)), None)


def picture_bytes(picture: Row) -> bytes | None:
    """The bytes that a picture of a row holds; None for a path and for what cannot be read."""
    content = picture.get("bytes")
    if isinstance(content, bytes):
        return content
    return _decoded(picture["encoded"]) if isinstance(picture.get("encoded"), str) else None


def _decoded(text: str) -> bytes:
    """The bytes of a data: address or of base64; those of the text itself where it is neither.

    Case, blanks, wrapped lines, lacking padding, the alphabet of addresses and %-escapes do not matter.
    """
    head = _DATA_HEAD.match(text)
    raw = unquote_to_bytes(text[head.end() :] if head else text)
    is_base64 = head is None or "base64" in (each.strip().lower() for each in head[1].split(";"))
    if not is_base64 and not raw.lstrip().startswith(tuple(each.encode() for each in _ENCODED_IMAGE)):
        return raw
    plain = b"".join(raw.split()).translate(bytes.maketrans(b"-_", b"+/")).rstrip(b"=")
    try:
        return base64.b64decode(plain + b"=" * (-len(plain) % 4), validate=True)
    except binascii.Error:
        return raw


def path_of(picture: Row) -> str | None:
    """The path that a picture of a row names, or the name of its file; users may have chosen it."""
    path = picture.get("file") or picture.get("path")
    return path if isinstance(path, str) else None


def below(place: Place, path: str) -> str | None:
    """The path relative to the folder of all files, read from that of the place's file; None for one out of it."""
    if path.lower().startswith("file:"):
        path = unquote(urlsplit(path).path)
    path = _SLASHES.sub("/", path)
    for folder in (place.folder, _real(place.folder)):
        if folder and path.startswith(f"{folder}/"):
            return _inside(path.removeprefix(f"{folder}/"))
    return _inside(posixpath.join(posixpath.dirname(place.source), path))


def _inside(path: str) -> str | None:
    normal = posixpath.normpath(path)
    outside = normal.startswith(("/", "../")) or normal in ("..", ".") or "\0" in normal
    return None if outside else normal


@lru_cache(maxsize=16)
def _real(folder: str) -> str:
    return os.path.realpath(folder) if folder else ""


def file_below(place: Place, path: str) -> Path | None:
    """The readable file of a path, below the folder of all files also when links are followed; None without one."""
    relative = below(place, path)
    if relative is None:
        return None
    file, folder = Path(place.folder, relative), _real(place.folder)
    try:
        is_inside = os.path.realpath(file).startswith(f"{folder}/")
        return file if is_inside and file.is_file() and os.access(file, os.R_OK) else None
    except (OSError, ValueError):
        return None
