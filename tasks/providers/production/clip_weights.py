"""Finding and loading an OpenCLIP checkpoint. Finding is quick, and says at once when there is nothing to load."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import open_clip
import torch
from open_clip.constants import HF_SAFE_WEIGHTS_NAME, HF_WEIGHTS_NAME

from schemas.errors import BadInput, MissingProvider, known_values
from tasks.providers.production.hub_file import hub_file
from tasks.providers.production.weight_files import fingerprint

MODEL, PRETRAINED = "CURATE_CLIP_MODEL", "CURATE_CLIP_PRETRAINED"
LOCAL_DIR = "local-dir:"
Transform = Callable[[Any], torch.Tensor]
_WEIGHTS = (".safetensors", ".bin", ".pth")


@dataclass(frozen=True)
class Checkpoint:
    """Where a model's weights are and how they are loaded."""

    version: str
    """Library, model and weights; the same weights have the same version wherever they lie."""
    model: str
    """Name of an open_clip configuration, or `local-dir:` with a folder."""
    file: Callable[[], Path | None]
    """The weight file, downloaded if need be; None when the folder holds it."""
    settings: dict[str, Any]
    """How these weights want their pictures prepared; empty where the configuration says it."""

    def load(self, device: torch.device) -> tuple[Any, Transform, Callable[[list[str]], Any], dict[str, Any]]:
        """Model in evaluation mode, picture preprocessing, tokenizer, and what the preprocessing is to do."""
        file = self.file()
        model, prepare = open_clip.create_model_from_pretrained(
            self.model, pretrained=None if file is None else str(file), device=device, **self.settings
        )
        wanted = open_clip.get_model_preprocess_cfg(model)
        return model.eval(), prepare, open_clip.get_tokenizer(self.model), wanted

    def without_weights(self) -> Any:
        """The model with no more than the shapes of its weights, in about a second."""
        with torch.device("meta"):
            return open_clip.create_model(self.model, load_weights=False, pretrained_text=False, device="meta")


def find_checkpoint(model: str, pretrained: str) -> Checkpoint:
    """The checkpoint that the two names mean. Raises BadInput for unknown names, MissingProvider for absent weights."""
    folder = next((name for name in (model, pretrained) if name.startswith(LOCAL_DIR)), None)
    if folder is not None:
        return _in_folder(folder)
    if model not in open_clip.list_models():
        raise BadInput(f"{MODEL}: unknown model {known_values(model, open_clip.list_models())}")
    name = f"open_clip-{open_clip.__version__}-{model}"
    tag = open_clip.get_pretrained_cfg(model, pretrained)
    if tag:
        return Checkpoint(f"{name}-{pretrained}", model, _on_hub(tag["hf_hub"]), _settings(tag))
    file = Path(pretrained)
    if file.is_file():
        return Checkpoint(f"{name}-{fingerprint([file])}", model, lambda: file, {})
    tags = open_clip.list_pretrained_tags_by_model(model)
    raise BadInput(f"{PRETRAINED}: neither a file nor a tag of {model}. Known tags: {', '.join(tags) or 'none'}")


def _in_folder(name: str) -> Checkpoint:
    folder = Path(name.removeprefix(LOCAL_DIR))
    config = folder / "open_clip_config.json"
    weights = sorted(file for file in folder.glob("*") if file.suffix in _WEIGHTS)
    if not config.is_file() or not weights:
        raise MissingProvider(f"{PRETRAINED}: the {LOCAL_DIR} folder must hold {config.name} and a weight file")
    version = f"open_clip-{open_clip.__version__}-local-{fingerprint([config, *weights])}"
    return Checkpoint(version, name, lambda: None, {})


def _settings(tag: dict[str, Any]) -> dict[str, Any]:
    """What open_clip itself takes from a tag, and the activation, where it only warns that the tag wants another."""
    pictures = {f"image_{key}": tag[key] for key in ("mean", "std", "interpolation", "resize_mode")}
    return pictures | {"force_quick_gelu": tag.get("quick_gelu", False)}


def _on_hub(address: str) -> Callable[[], Path]:
    """The file of an `org/name/file` address; without a file name, open_clip's usual ones."""
    repository, _, file = address.rpartition("/")
    names = [file.replace(".bin", ".safetensors"), file] if file else [HF_SAFE_WEIGHTS_NAME, HF_WEIGHTS_NAME]
    return hub_file(repository, names)
