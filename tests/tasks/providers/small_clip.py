"""A small OpenCLIP architecture with drawn weights: the real weights are a download."""

import json
from pathlib import Path

MODEL = "curation-test-small"
CONFIG = {
    "embed_dim": 24,
    "vision_cfg": {
        "image_size": 224,
        "layers": 1,
        "width": 64,
        "head_width": 32,
        "patch_size": 32,
        "patch_dropout": 0.5,  # vectors are noisy unless the model is in evaluation mode
    },
    "text_cfg": {"context_length": 77, "vocab_size": 49408, "width": 32, "heads": 2, "layers": 1},
}


def drawn_checkpoint(folder: Path, seed: int = 0) -> Path:
    """Weights as such a model begins with; open_clip knows the architecture by its name from then on."""
    import open_clip  # with torch, five CPU seconds of each process that collects tests
    import torch

    (folder / f"{MODEL}.json").write_text(json.dumps(CONFIG))
    open_clip.add_model_config(folder)
    torch.manual_seed(seed)
    torch.save(open_clip.create_model(MODEL).state_dict(), folder / f"{seed}.pt")
    return folder / f"{seed}.pt"
