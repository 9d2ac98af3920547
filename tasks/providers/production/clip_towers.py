"""The towers of a CLIP model without what their vectors do not depend on; the vectors are the same to rounding.

A picture's vector is read from the first row of the last block, a text's from the row of its end token. So the last
block is computed for that row alone (of the others only keys and values), and of a batch of texts only as many rows as
the longest has: no row sees what stands behind it.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from open_clip.model import CLIP
from open_clip.transformer import ResidualAttentionBlock, VisionTransformer
from torch import nn

Encode = Callable[..., Any]


class Encoders(NamedTuple):
    """How a model makes vectors."""

    image: Encode
    """float32 (n, 3, side, side) -> (n, dimension)."""
    text: Encode
    """int64 (n, length) -> (n, dimension)."""
    cut: Callable[[torch.Tensor], torch.Tensor]
    """int64 (n, tokens) -> (n, length): what of some texts `text` has to see."""


class Attention(nn.Module):
    """`nn.MultiheadAttention` of rows with themselves, made of plain linear layers."""

    def __init__(self, source: nn.MultiheadAttention) -> None:
        super().__init__()
        self.heads, width = source.num_heads, source.embed_dim
        weights, biases = source.in_proj_weight, source.in_proj_bias
        self.query = _linear(weights[:width], biases[:width])
        self.keys_values = _linear(weights[width:], biases[width:])
        self.out = _linear(source.out_proj.weight, source.out_proj.bias)

    def forward(
        self, rows: torch.Tensor, *_: Any, attn_mask: torch.Tensor | None = None, **ignored: Any
    ) -> tuple[torch.Tensor, None]:
        """float32 (n, length, width), as the original; without attention weights."""
        return self.seen_from(rows, rows, attn_mask), None

    def seen_from(self, some: torch.Tensor, rows: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
        """float32 (n, m, width): what `some` (n, m, width) of the `rows` see of them all, but for what a mask hides."""
        n, _, width = rows.shape
        split = (n, -1, self.heads, width // self.heads)
        keys, values = (half.reshape(split).transpose(1, 2) for half in self.keys_values(rows).chunk(2, dim=-1))
        queries = self.query(some).view(split).transpose(1, 2)
        hidden = None if mask is None else mask.to(queries.dtype)
        seen = nn.functional.scaled_dot_product_attention(queries, keys, values, hidden)
        made: torch.Tensor = self.out(seen.transpose(1, 2).reshape(n, -1, width))
        return made


class FirstRow(nn.Module):
    """The last block of a tower of pictures."""

    def __init__(self, block: ResidualAttentionBlock) -> None:
        super().__init__()
        self.block = block

    def forward(self, rows: torch.Tensor, attn_mask: None = None) -> torch.Tensor:
        """float32 (n, length, width) -> (n, 1, width)."""
        return _read(self.block, rows, rows.new_zeros(len(rows), dtype=torch.long), None)


def encoders_of(model: Any) -> Encoders:
    """How a model makes vectors. An architecture that is not CLIP's own goes its own way."""
    image, text, cut = model.encode_image, model.encode_text, lambda tokens: tokens
    visual: Any = getattr(model, "visual", None)
    if _read_from_first(visual) and _in_plain_layers(visual.transformer):
        visual.transformer.resblocks[-1] = FirstRow(visual.transformer.resblocks[-1])
    if _read_from_end(model) and _in_plain_layers(model.transformer):
        text, cut = (lambda tokens: _encode_text(model, tokens)), _cut
    return Encoders(image, text, cut)


def _read_from_first(visual: Any) -> bool:
    plain = type(visual) is VisionTransformer and visual.attn_pool is None
    return plain and visual.pool_type == "tok" and not visual.output_tokens


def _read_from_end(model: Any) -> bool:
    causal = type(model) is CLIP and model.attn_mask is not None
    return causal and model.text_pool_type == "argmax" and isinstance(model.text_projection, nn.Parameter)


def _in_plain_layers(transformer: Any) -> bool:
    """Whether its blocks are CLIP's; their attention is then."""
    blocks = list(transformer.resblocks)
    if not transformer.batch_first or {type(block) for block in blocks} != {ResidualAttentionBlock}:
        return False
    for block in blocks:
        block.attn = Attention(block.attn)
    return True


def _encode_text(model: Any, tokens: torch.Tensor) -> torch.Tensor:
    """`CLIP.encode_text` for texts of any length, whose last token is their highest."""
    length, ends = tokens.shape[1], tokens.argmax(dim=-1)
    mask = model.attn_mask[:length, :length]
    rows = model.token_embedding(tokens) + model.positional_embedding[:length]
    *blocks, last = model.transformer.resblocks
    for block in blocks:
        rows = block(rows, attn_mask=mask)
    read: torch.Tensor = _read(last, rows, ends, mask[ends][:, None, None])[:, 0]
    made: torch.Tensor = model.ln_final(read) @ model.text_projection
    return made


def _cut(tokens: torch.Tensor) -> torch.Tensor:
    return tokens[:, : int(tokens.argmax(dim=-1).max()) + 1]


def _read(block: Any, rows: torch.Tensor, places: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
    """float32 (n, 1, width): `block` of one row of each item. `mask` is (n, 1, 1, length)."""
    items = torch.arange(len(rows), device=rows.device)
    normed, row = block.ln_1(rows), rows[items, places][:, None]
    row = row + block.ls_1(block.attn.seen_from(normed[items, places][:, None], normed, mask))
    made: torch.Tensor = row + block.ls_2(block.mlp(block.ln_2(row)))
    return made


def _linear(weight: torch.Tensor, bias: torch.Tensor) -> nn.Linear:
    layer = nn.Linear(weight.shape[1], weight.shape[0], device="meta")
    layer.weight, layer.bias = nn.Parameter(weight, False), nn.Parameter(bias, False)
    return layer
