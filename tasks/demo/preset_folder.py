"""The server's preset collection, which its "random example" button offers: JPEG files and an index."""

import json
from pathlib import Path

import PIL.Image

_JPEG_QUALITY = 90


class PresetFolder:
    """`presets` beside the logs."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._index: list[dict[str, str]] = []
        folder.mkdir(parents=True)

    def add(self, image: PIL.Image.Image, dataset: str) -> Path:
        """Store a picture and return its file."""
        path = f"{dataset.lower()}_{len(self._index)}.jpg"
        image.convert("RGB").save(self._folder / path, "JPEG", quality=_JPEG_QUALITY)
        self._index.append({"dataset": dataset, "question": "", "path": path})
        return self._folder / path

    def close(self) -> None:
        """Write the index."""
        (self._folder / "presets.json").write_text(json.dumps(self._index, indent=1))
