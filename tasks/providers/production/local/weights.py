"""Weight files, in the Hugging Face cache or downloaded from its hub, with a digest; and the devices that torch has."""

import hashlib
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

import huggingface_hub

from schemas.errors import MissingProvider
from tasks.runtime.parallel import card_demanded, on_card


def fingerprint(files: Iterable[Path]) -> str:
    """First 8 hex digits of the SHA-256 over the files' own SHA-256 digests, in the order given."""
    whole = hashlib.sha256()
    for file in files:
        with file.open("rb") as stream:
            whole.update(hashlib.file_digest(stream, "sha256").digest())
    return whole.hexdigest()[:8]


def offline() -> bool:
    """Whether HF_HUB_OFFLINE forbids downloads."""
    return os.environ.get("HF_HUB_OFFLINE", "").upper() in huggingface_hub.constants.ENV_VARS_TRUE_VALUES


def torch_devices() -> list[str]:
    """Names of all cards, or of the CPU. Raises BadInput or MissingProvider where `cuda` is set and torch has none."""
    import torch

    found = [f"cuda:{number}" for number in range(torch.cuda.device_count())] if on_card() else []
    if card_demanded() and not found:
        raise MissingProvider("--set device=cuda: this torch has no CUDA; install one that has, or give device=auto")
    return found or ["cpu"]


def hub_file(repository: str, names: Sequence[str]) -> Path:
    """The first of the files that exists, from the cache or downloaded now. Raises MissingProvider."""
    for name in names:
        cached = huggingface_hub.try_to_load_from_cache(repository, name)
        if isinstance(cached, str):
            return Path(cached)
    try:  # `file_exists` first, because a download without a network is retried for most of a minute
        if not offline() and (name := next((n for n in names if huggingface_hub.file_exists(repository, n)), "")):
            return Path(huggingface_hub.hf_hub_download(repository, name))
    except Exception:  # noqa: S110 - no network, a proxy's page, a gated repository: the message below helps in each case
        pass
    raise MissingProvider(
        f"the weights of {repository} are not in the Hugging Face cache and cannot be downloaded now; "
        f"on a machine with a network run: hf download {repository} {names[0]}"
    )
