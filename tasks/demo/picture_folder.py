"""The server's picture folder: pictures are named and encoded as the server of each era did."""

import hashlib
import io
from pathlib import Path

import PIL.Image

from tasks.demo.timeline import Era

_PNG_EFFORT = 3
_JPEG_QUALITY = 88


def logged_name(image: PIL.Image.Image) -> str:
    """The name the server gives a picture: MD5 of its RGBA pixels, without its size."""
    return hashlib.md5(image.convert("RGBA").tobytes(), usedforsecurity=False).hexdigest()


class PictureFolder:
    """`serve_images` of the log folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True)

    def save(self, image: PIL.Image.Image, era: Era, exif: PIL.Image.Exif | None = None) -> str:
        """Store an upload and return its logged name. `exif` is what a careless server leaves in a JPEG."""
        name = logged_name(image)
        sink = io.BytesIO()
        if era is Era.PNG:
            image.convert("RGBA").save(sink, "PNG", compress_level=_PNG_EFFORT)
        else:
            image.convert("RGB").save(sink, "JPEG", quality=_JPEG_QUALITY, exif=exif or b"")
        self.store(f"{name}.{'png' if era is Era.PNG else 'jpg'}", sink.getvalue())
        return name

    def store(self, file: str, content: bytes) -> None:
        """Put bytes into the folder under a name, whatever they are."""
        (self.folder / file).write_bytes(content)
