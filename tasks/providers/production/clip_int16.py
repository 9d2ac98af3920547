"""OpenCLIP on a CPU in 16 bits: the matrix products of the blocks of both towers, not what is between them.

Nothing is calibrated and no layer is spared: rounding to 12 and 13 bits moves a vector by less than bfloat16 does on a
GPU. Eight bits do not do: on trained weights they lose one neighbour in 25, whichever layers are spared
(docs/pictures.md).
"""

from typing import Any

import torch
from open_clip.transformer import ResidualAttentionBlock
from torch import nn

from tasks.providers.production.clip_towers import Attention, encoders_of
from tasks.providers.production.int16_products import products, weights_of


class Rounded(nn.Module):
    """A linear layer whose product is of int16 by int16."""

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        self.weights = weights_of(layer.weight.detach().float(), layer.bias)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """float32 (..., width in) -> (..., width out)."""
        made = products(rows.reshape(-1, rows.shape[-1]).contiguous(), self.weights)
        return made.view(*rows.shape[:-1], -1)


def in_int16(model: Any) -> None:
    """Rounds the blocks of a model on a CPU, in evaluation mode, whose `encoders_of` were made."""
    for parent, name in _layers(model):
        setattr(parent, name, Rounded(getattr(parent, name)))


def bears_int16(model: Any) -> bool:
    """Whether any layer of a model would be rounded. The model is changed: give one without weights."""
    encoders_of(model)
    return bool(_layers(model))


def _layers(model: Any) -> list[tuple[Any, str]]:
    """Parents and names of the layers of the blocks that are CLIP's own."""
    blocks = [block for block in model.modules() if isinstance(block, ResidualAttentionBlock)]
    parents = [part for block in blocks if isinstance(block.attn, Attention) for part in (block.attn, block.mlp)]
    return [(parent, name) for parent in parents for name, layer in parent.named_children() if _even(layer)]


def _even(layer: Any) -> bool:
    return type(layer) is nn.Linear and layer.in_features % 2 == 0
