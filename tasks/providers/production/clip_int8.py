"""OpenCLIP on a CPU in whole numbers: most matrix products of its picture tower, not what is between them.

Each output channel of a layer's weights has a step of its own, and so has each row that comes in, so that a vector does
not depend on what shares its batch. Before that, every input channel is divided by what makes it as hard to round as
the weights it meets (SmoothQuant, Xiao et al. 2022, alpha 0.5): trained transformers have channels that are tens of
times as large as the others. How large is seen in a few drawn pictures; real ones have the same channels.

Rounded are the layers that read what a norm has just evened out, 7 of 12 parts of the work. The others lose four times
as many neighbours a part, and texts more than pictures (docs/pictures.md), which are short enough without.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from schemas.errors import BadInput
from tasks.compiled import compiled

INT8 = "int8-rows"
"""What the version says of it: another way of rounding is another version."""
LEVELS = 127
"""Largest whole number of either sign."""
ALPHA = 0.5
"""Share of the difficulty that goes to the weights."""
AFTER_A_NORM = ("query", "keys_values", "c_fc")
"""Names of those layers."""
_LEAST = 1e-5

Floats = npt.NDArray[np.float32]


def _rounded(rows: Floats, factors: Floats, whole: npt.NDArray[np.int8], steps: Floats) -> None:
    """Writes rows x factors (n, width) as whole numbers of `steps` (n,)."""
    for row in range(rows.shape[0]):
        top = np.float32(0)
        for column in range(rows.shape[1]):
            top = max(top, abs(rows[row, column] * factors[column]))
        step = max(top, np.float32(1e-30)) / np.float32(LEVELS)
        steps[row] = step
        for column in range(rows.shape[1]):
            whole[row, column] = np.int8(np.rint(rows[row, column] * factors[column] / step))


def _scaled(sums: npt.NDArray[np.int32], steps: Floats, weight_steps: Floats, bias: Floats, made: Floats) -> None:
    """Writes sums (n, width) x steps of row and of channel + bias."""
    for row in range(sums.shape[0]):
        step = steps[row]
        for column in range(sums.shape[1]):
            made[row, column] = np.float32(sums[row, column]) * (step * weight_steps[column]) + bias[column]


class WholeNumbers(nn.Module):
    """A linear layer whose product is of int8 by int8."""

    def __init__(self, layer: nn.Linear, largest: torch.Tensor) -> None:
        """`largest` is how large each input channel gets, float32 (width,)."""
        super().__init__()
        weight, channels = layer.weight.detach().float(), layer.weight.detach().abs().amax(dim=0).clamp_min(_LEAST)
        smooth = largest.clamp_min(_LEAST) ** ALPHA / channels ** (1 - ALPHA)
        steps = (weight * smooth).abs().amax(dim=1, keepdim=True).clamp_min(1e-30) / LEVELS
        self.whole = (weight * smooth / steps).round().to(torch.int8).t()
        self.factors, self.steps = (1 / smooth).numpy(), steps[:, 0].numpy()
        bias = torch.zeros(len(weight)) if layer.bias is None else layer.bias.detach().float()
        self.bias = bias.numpy()

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """float32 (..., width in) -> (..., width out)."""
        flat = rows.reshape(-1, rows.shape[-1]).contiguous()
        whole, steps = torch.empty(flat.shape, dtype=torch.int8), np.empty(len(flat), np.float32)
        _ROUNDED(flat.numpy(), self.factors, whole.numpy(), steps)
        made = torch.empty(len(flat), len(self.bias))
        _SCALED(torch._int_mm(whole, self.whole).numpy(), steps, self.steps, self.bias, made.numpy())
        return made.view(*rows.shape[:-1], -1)


def in_int8(visual: Any, size: int | tuple[int, int]) -> None:
    """Puts the layers of a picture tower that read a norm, in evaluation mode on a CPU, in whole numbers."""
    places = [(parent, name) for parent in visual.modules() for name in AFTER_A_NORM if hasattr(parent, name)]
    layers = [getattr(parent, name) for parent, name in places]
    if not layers:
        raise BadInput("CURATE_CLIP_PRECISION: int8 knows none of this architecture's layers; choose fp32")
    largest: dict[nn.Module, torch.Tensor] = {}

    def note(layer: nn.Module, given: tuple[torch.Tensor], _: object) -> None:
        largest[layer] = given[0].reshape(-1, given[0].shape[-1]).abs().amax(dim=0)

    hooks = [layer.register_forward_hook(note) for layer in layers]
    with torch.inference_mode():
        visual(drawn_pictures(size))
    for hook in hooks:
        hook.remove()
    for (parent, name), layer in zip(places, layers, strict=True):
        setattr(parent, name, WholeNumbers(layer, largest[layer]))


def drawn_pictures(size: int | tuple[int, int]) -> torch.Tensor:
    """float32 (8, 3, height, width): blots of several sizes, as strong as a normalised photograph; always the same."""
    chance = torch.Generator().manual_seed(0)
    made = torch.zeros(8, 3, *((size, size) if isinstance(size, int) else size))
    for blots, strength in {2: 1.0, 7: 0.7, 28: 0.5, 112: 0.3}.items():
        drawn = torch.randn(8, 3, blots, blots, generator=chance)
        made += strength * nn.functional.interpolate(drawn, made.shape[2:], mode="bicubic")
    return made


_ROUNDED = compiled(_rounded, fastmath={"nnan", "ninf", "nsz", "contract", "reassoc"})
_SCALED = compiled(_scaled, fastmath={"nnan", "ninf", "nsz", "contract", "reassoc"})
