"""Image models that diffusers runs on this machine, from a folder of weights.

CURATE_DIFFUSERS_WEIGHTS: a folder as `DiffusionPipeline.save_pretrained` writes it, with safetensors; nothing is
downloaded and no code of the folder runs. CURATE_DIFFUSERS_STEPS: steps of each image, by default the pipeline's own.
"""

import hashlib
import inspect
import io
import os
import threading
from pathlib import Path
from typing import Any

import diffusers
import torch
import transformers

from schemas.errors import BadInput, MissingProvider
from tasks.providers.capabilities import Failed
from tasks.providers.production.drawn_images import REFUSED
from tasks.providers.production.weights import fingerprint

WEIGHTS, STEPS = "CURATE_DIFFUSERS_WEIGHTS", "CURATE_DIFFUSERS_STEPS"
_INDEX = "model_index.json"
_READ = (".json", ".txt", ".model", ".safetensors")
"""Files of a pipeline's folder that decide what it draws."""


class DiffusersPictures:
    """Draws one image at a time, on the GPU when there is one. The seed of an image decides its noise."""

    calls_at_once = 1

    def __init__(self) -> None:
        folder, self._steps = _folder(), _steps()
        self._pipeline = _loaded(folder)
        files = sorted(file for file in folder.rglob("*") if file.suffix in _READ)
        steps = "" if self._steps is None else f"-{self._steps}steps"
        self.version = f"diffusers-{diffusers.__version__}-{type(self._pipeline).__name__}-{fingerprint(files)}{steps}"
        self._one_at_a_time = threading.Lock()

    def draw(self, told: str, seed: str) -> bytes | Failed:
        """A PNG image; Failed("refused") when the pipeline's own safety checker hides it."""
        noise = torch.Generator("cpu").manual_seed(int(hashlib.sha256(seed.encode()).hexdigest()[:15], 16))
        steps: dict[str, Any] = {} if self._steps is None else {"num_inference_steps": self._steps}
        try:
            with self._one_at_a_time, torch.inference_mode():
                drawn = self._pipeline(prompt=told, generator=noise, **steps)
        except torch.OutOfMemoryError:
            return Failed("out_of_memory")
        except Exception as error:  # pipelines fail in their own ways; the type is safe to report, the text is not
            return Failed(type(error).__name__)
        if any(getattr(drawn, "nsfw_content_detected", None) or ()):
            return Failed(REFUSED)
        stream = io.BytesIO()
        drawn.images[0].save(stream, "PNG")
        return stream.getvalue()


def _folder() -> Path:
    folder = Path(os.environ.get(WEIGHTS) or "")
    if not os.environ.get(WEIGHTS) or not (folder / _INDEX).is_file():
        raise MissingProvider(
            f"pictures: set {WEIGHTS} to a folder with a pipeline of diffusers ({_INDEX}, safetensors), as "
            "`hf download REPOSITORY --local-dir FOLDER` or save_pretrained writes it"
        )
    return folder


def _steps() -> int | None:
    """Steps of an image from the environment. Raises BadInput for anything but a whole number from 1 to 1000."""
    given = os.environ.get(STEPS, "")
    if given and not (given.isascii() and given.isdigit() and 1 <= int(given) <= 1000):
        raise BadInput(f"{STEPS}={given!r}: a whole number from 1 to 1000 is expected")
    return int(given) if given else None


def _loaded(folder: Path) -> Any:
    """The pipeline on its device. Raises MissingProvider when the folder holds none that draws from a text."""
    on_gpu = torch.cuda.is_available()
    for logging in (diffusers.utils.logging, transformers.utils.logging):
        logging.set_verbosity_error()
        logging.disable_progress_bar()
    load: Any = diffusers.DiffusionPipeline.from_pretrained
    try:
        pipeline = load(
            str(folder),
            local_files_only=True,
            use_safetensors=True,
            low_cpu_mem_usage=False,
            torch_dtype=torch.bfloat16 if on_gpu else None,
        )
    except Exception as error:
        raise MissingProvider(
            f"pictures: diffusers cannot load the folder in {WEIGHTS} ({type(error).__name__}); it needs safetensors, "
            "and parts that this version of diffusers knows"
        ) from None
    if "prompt" not in inspect.signature(pipeline.__call__).parameters:
        raise MissingProvider(
            f"pictures: the pipeline in {WEIGHTS} draws no image from a text; take a text-to-image one"
        )
    pipeline.set_progress_bar_config(disable=True)
    return pipeline.to("cuda" if on_gpu else "cpu")
