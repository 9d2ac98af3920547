"""The tile of a picture that CLIP looks at: the short side shrunk to the model's, the middle cut out, normalised.

On a CPU it is Pillow's tile byte for byte. A GPU shrinks the whole picture itself, from pinned memory: antialiased
bicubic as well, whose levels differ from Pillow's by rounding.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from tasks.pixels.pictures import Filter, Picture

_FILTERS = {"bicubic": Filter.BICUBIC, "bilinear": Filter.BILINEAR}

SLENDER = 16
"""Sides of the tile: the CPU cuts a picture that would be longer, because a GPU shrinks all of it before it cuts."""
HUGE = 16
"""Times that a GPU shrinks: its filter's weights must fit the memory its cores share."""


@dataclass(frozen=True)
class Tiles:
    """How one model wants its pictures."""

    side: int
    """Pixels."""
    interpolation: str
    """bicubic or bilinear."""
    mean: tuple[float, ...]
    """Of each channel, 0 to 1."""
    deviation: tuple[float, ...]
    """Of each channel."""

    def batch(self, pictures: Sequence[Picture], device: torch.device) -> torch.Tensor:
        """float32 (n, 3, side, side) on the device."""
        shrink = self.on_cpu if device.type == "cpu" else self.on_device
        levels = torch.stack([shrink(picture, device) for picture in pictures])
        mean, deviation = (
            torch.tensor(each, device=device).view(3, 1, 1) * 255 for each in (self.mean, self.deviation)
        )
        return (levels.float() - mean) / deviation

    def on_cpu(self, picture: Picture, device: torch.device) -> torch.Tensor:
        """uint8 (3, side, side)."""
        size, left, top = self._place(picture.width, picture.height)
        shrunk = picture.resized(size, _FILTERS[self.interpolation])
        tile = shrunk[top : top + self.side, left : left + self.side]
        return torch.from_numpy(np.ascontiguousarray(tile.transpose(2, 0, 1))).to(device)

    def on_device(self, picture: Picture, device: torch.device) -> torch.Tensor:
        """float32 (3, side, side), whole levels 0 to 255, made on the device of the whole picture."""
        (width, height), left, top = self._place(picture.width, picture.height)
        if max(width, height) > SLENDER * self.side or min(picture.width, picture.height) > HUGE * self.side:
            return self.on_cpu(picture, device).float()
        pixels = torch.empty(picture.rgb.shape, dtype=torch.uint8, pin_memory=device.type == "cuda")
        pixels.numpy()[...] = picture.rgb
        levels = pixels.to(device, non_blocking=True).permute(2, 0, 1)[None].float()
        shrunk = torch.nn.functional.interpolate(levels, (height, width), mode=self.interpolation, antialias=True)
        return shrunk[0, :, top : top + self.side, left : left + self.side].clamp(0, 255).round()

    def _place(self, width: int, height: int) -> tuple[tuple[int, int], int, int]:
        """Size of the shrunk picture, and left and top of the tile in it, as torchvision rounds them."""
        short = min(width, height)
        size = (int(self.side * width / short), int(self.side * height / short))
        return size, round((size[0] - self.side) / 2.0), round((size[1] - self.side) / 2.0)


def tiles_of(wanted: dict[str, Any]) -> Tiles | None:
    """What open_clip says of a model (`get_model_preprocess_cfg`); None for what only its own transform can do."""
    size = wanted["size"]
    sides = {size} if isinstance(size, int) else set(size)
    if wanted["resize_mode"] != "shortest" or wanted["interpolation"] not in _FILTERS or len(sides) != 1:
        return None
    return Tiles(sides.pop(), wanted["interpolation"], tuple(wanted["mean"]), tuple(wanted["std"]))


def one_by_one(prepare: Callable[[Any], torch.Tensor]) -> Callable[[Sequence[Picture], torch.device], torch.Tensor]:
    """The same with open_clip's own transform, on the CPU."""
    return lambda pictures, device: torch.stack([prepare(picture.pil) for picture in pictures]).to(device)
