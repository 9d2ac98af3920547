"""Images by a small Stable Diffusion with drawn weights on a CPU: our provider against a bare loop over diffusers.

Published weights are downloads of gigabytes and take longer an image, so our share of the time is less with them.
"""

import hashlib
import json
import os
import tempfile
from pathlib import Path
from typing import Any

import diffusers
import torch

from benchmarks.timing import compare
from tasks.providers.production.local.diffusers_pictures import DiffusersPictures
from tests.tasks.providers.small_diffusion import drawn_pipeline

IMAGES, STEPS, WIDTH, SIDE = 8, 5, 128, 32
PROMPTS = [f"{number} red cups left of a blue ball on a table" for number in range(IMAGES)]


def run() -> list[dict[str, Any]]:
    """One row."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        weights = drawn_pipeline(Path(folder), width=WIDTH, side=SIDE)
        os.environ |= {
            "CURATE_DIFFUSERS_WEIGHTS": str(weights),
            "CURATE_DIFFUSERS_CALL": json.dumps({"num_inference_steps": STEPS}),
        }
        ours = DiffusersPictures()
        plain: Any = diffusers.DiffusionPipeline.from_pretrained(weights, use_safetensors=True)
        plain.set_progress_bar_config(disable=True)
        return [compare(
            "pictures: diffusers, CPU fp32", IMAGES, lambda: [ours.draw(prompt, prompt) for prompt in PROMPTS],
            "a bare loop over diffusers that saves PNG", lambda: [bare(plain, prompt, folder) for prompt in PROMPTS],
        )]  # fmt: skip


def bare(pipeline: Any, prompt: str, folder: str) -> None:
    """One image, with noise from the same seed."""
    noise = torch.Generator("cpu").manual_seed(int(hashlib.sha256(prompt.encode()).hexdigest()[:15], 16))
    pipeline(prompt=prompt, generator=noise, num_inference_steps=STEPS).images[0].save(Path(folder) / "image.png")


if __name__ == "__main__":
    run()
