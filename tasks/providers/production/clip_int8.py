"""OpenCLIP on a CPU with 8-bit weights: the matrix products of its transformers run in whole numbers.

Weights are rounded once, for every output channel; activations as they come, for every batch (torch's dynamic
quantization). What else the model does stays in 32-bit floats.
"""

import warnings
from typing import Any

import torch
from torch import nn


class Attention(nn.Module):
    """`nn.MultiheadAttention` of a query with itself, made of two plain linear layers so that these can be rounded."""

    def __init__(self, source: nn.MultiheadAttention) -> None:
        super().__init__()
        width = source.embed_dim
        self.heads, self.batch_first = source.num_heads, source.batch_first
        self.all_three, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.all_three.weight, self.all_three.bias = source.in_proj_weight, source.in_proj_bias
        self.out.weight, self.out.bias = source.out_proj.weight, source.out_proj.bias

    def forward(
        self, query: torch.Tensor, *_: Any, attn_mask: torch.Tensor | None = None, **ignored: Any
    ) -> tuple[torch.Tensor, None]:
        """float32 (n, length, width), or (length, n, width), as the original; without attention weights."""
        rows = query if self.batch_first else query.transpose(0, 1)
        n, length, width = rows.shape
        heads = self.all_three(rows).view(n, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        seen = nn.functional.scaled_dot_product_attention(heads[0], heads[1], heads[2], attn_mask)
        made = self.out(seen.transpose(1, 2).reshape(n, length, width))
        return (made if self.batch_first else made.transpose(0, 1)), None


def in_int8(model: nn.Module) -> nn.Module:
    """The model, in evaluation mode on a CPU, with every linear layer of its transformers in 8 bits."""
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if type(child) is nn.MultiheadAttention and child.in_proj_weight is not None and not child.dropout:
                setattr(module, name, Attention(child))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch announces a successor that is another package
        quantize: Any = torch.ao.quantization.quantize_dynamic
        rounded: nn.Module = quantize(model, {nn.Linear}, torch.qint8)
    for module in rounded.modules():
        if hasattr(module, "get_cast_dtype"):  # it would look at a weight that is 8 bits now
            setattr(module, "get_cast_dtype", _float32)  # noqa: B010
    return rounded


def _float32() -> torch.dtype:
    return torch.float32
