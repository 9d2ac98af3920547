"""Image models that diffusers runs on this machine, from a folder of weights.

CURATE_DIFFUSERS_WEIGHTS: a folder as `DiffusionPipeline.save_pretrained` writes it, with safetensors; nothing is
downloaded and no code of the folder runs. CURATE_DIFFUSERS_CALL: a JSON object of the pipeline's own settings, such as
{"num_inference_steps": 4, "guidance_scale": 0}.
"""

import hashlib
import inspect
import io
import json
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import diffusers
import torch
import transformers

from schemas.errors import BadInput, MissingProvider, known_values
from tasks.providers.capabilities import Failed
from tasks.providers.production.calls import REFUSED_CALL
from tasks.providers.production.local.weights import fingerprint, torch_devices

DIFFUSERS_WEIGHTS, CALL = "CURATE_DIFFUSERS_WEIGHTS", "CURATE_DIFFUSERS_CALL"
_INDEX = "model_index.json"
_READ = (".json", ".txt", ".model", ".safetensors")
"""Files of a pipeline's folder that decide what it draws."""


class DiffusersPictures:
    """Draws one image at a time, on the GPU when there is one. The seed of an image decides its noise."""

    calls_at_once = 1

    def __init__(self) -> None:
        folder = Path(os.environ.get(DIFFUSERS_WEIGHTS) or "")
        if not os.environ.get(DIFFUSERS_WEIGHTS) or not (folder / _INDEX).is_file():
            raise MissingProvider(
                f"pictures: set {DIFFUSERS_WEIGHTS} to a folder with a pipeline of diffusers ({_INDEX}, safetensors), "
                "as `hf download REPOSITORY --local-dir FOLDER` or save_pretrained writes it"
            )
        self._settings = _settings()
        self._pipeline = _loaded(folder, self._settings)
        files = sorted(file for file in folder.rglob("*") if file.suffix in _READ)
        settings_text = "".join(f"+{name}={value}" for name, value in sorted(self._settings.items()))
        self.version = (
            f"diffusers-{diffusers.__version__}-{type(self._pipeline).__name__}-{fingerprint(files)}{settings_text}"
        )
        self._one_at_a_time = threading.Lock()

    def draw(self, told: str, seed: str) -> bytes | Failed:
        """A PNG image; Failed("refused") when the pipeline's own safety checker hides it."""
        noise = torch.Generator("cpu").manual_seed(int(hashlib.sha256(seed.encode()).hexdigest()[:15], 16))
        try:
            with self._one_at_a_time, torch.inference_mode():
                drawn = self._pipeline(prompt=told, generator=noise, **self._settings)
        except torch.OutOfMemoryError:
            return Failed("out_of_memory")
        except Exception as error:  # pipelines fail in their own ways; the type is safe to report, the text is not
            return Failed(type(error).__name__)
        if any(getattr(drawn, "nsfw_content_detected", None) or ()):
            return Failed(REFUSED_CALL)
        stream = io.BytesIO()
        drawn.images[0].save(stream, "PNG")
        return stream.getvalue()


def _settings() -> dict[str, Any]:
    """The pipeline's own settings, from the environment. Raises BadInput for anything but numbers and texts by name."""
    try:
        settings = json.loads(os.environ.get(CALL) or "{}")
    except ValueError:
        settings = None
    if not isinstance(settings, dict) or not all(isinstance(value, int | float | str) for value in settings.values()):
        raise BadInput(f'{CALL}: give a JSON object of numbers and texts, such as {{"num_inference_steps": 4}}')
    return settings


def _loaded(folder: Path, settings: Mapping[str, Any]) -> Any:
    """The pipeline on its device. Raises MissingProvider when the folder holds none that draws from a text.

    Raises BadInput for settings that it does not have.
    """
    device = torch_devices()[0]
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
            torch_dtype=None if device == "cpu" else torch.bfloat16,
        )
    except Exception as error:
        raise MissingProvider(
            f"pictures: diffusers cannot load the folder in {DIFFUSERS_WEIGHTS} ({type(error).__name__}); it needs "
            "safetensors, and parts that this version of diffusers knows"
        ) from None
    parameters = inspect.signature(pipeline.__call__).parameters
    if "prompt" not in parameters:
        raise MissingProvider(
            f"pictures: the pipeline in {DIFFUSERS_WEIGHTS} draws no image from a text; take a text-to-image one"
        )
    setting_names = sorted(
        parameters.keys() - {"prompt", "generator", "num_images_per_prompt", "return_dict", "output_type"}
    )
    for name in settings:
        if name not in setting_names:
            raise BadInput(f"{CALL}: {type(pipeline).__name__} has no setting {known_values(name, setting_names)}")
    pipeline.set_progress_bar_config(disable=True)
    return pipeline.to(device)
