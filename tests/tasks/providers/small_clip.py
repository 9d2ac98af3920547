"""A small OpenCLIP architecture: the real weights are a download."""

import json
from pathlib import Path

import open_clip
import torch

MODEL = "curation-test-small"
CONFIG = {
    "embed_dim": 64,
    "vision_cfg": {"image_size": 224, "layers": 2, "width": 64, "head_width": 32, "patch_size": 32},
    "text_cfg": {"context_length": 77, "vocab_size": 49408, "width": 64, "heads": 2, "layers": 2},
}


def drawn_checkpoint(folder: Path, name: str = MODEL, config: dict = CONFIG) -> Path:
    """Weights as such a model begins with; the architecture is known by its name from then on."""
    (folder / f"{name}.json").write_text(json.dumps(config))
    open_clip.add_model_config(folder)
    torch.manual_seed(0)
    torch.save(open_clip.create_model(name).state_dict(), folder / f"{name}.pt")
    return folder / f"{name}.pt"
