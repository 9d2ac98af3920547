"""Weight files: found in the Hugging Face cache or fetched from its hub, and identified by a digest of their bytes."""

import hashlib
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

import huggingface_hub
from huggingface_hub.errors import EntryNotFoundError

from schemas.errors import MissingProvider

PROBE_SECONDS = 5.0
"""How long the hub may take to say that it has a file; a download without a network is retried for most of a minute."""


def fingerprint(files: Iterable[Path]) -> str:
    """First 8 hex digits of the SHA-256 over the files' own SHA-256 digests, in the order given."""
    whole = hashlib.sha256()
    for file in files:
        with file.open("rb") as stream:
            whole.update(hashlib.file_digest(stream, "sha256").digest())
    return whole.hexdigest()[:8]


def offline() -> bool:
    """Whether HF_HUB_OFFLINE says that only files on this machine may be used."""
    return os.environ.get("HF_HUB_OFFLINE", "").upper() in huggingface_hub.constants.ENV_VARS_TRUE_VALUES


def hub_file(repository: str, names: Sequence[str]) -> Path:
    """The first of the files that exists, from the cache or downloaded now. Raises MissingProvider."""
    for name in names:
        cached = huggingface_hub.try_to_load_from_cache(repository, name)
        if isinstance(cached, str):
            return Path(cached)
    try:
        if not offline() and (offered := _offered(repository, names)):
            return Path(huggingface_hub.hf_hub_download(repository, offered))
    except Exception:  # noqa: S110 - no network, a proxy's page, a gated repository: the message below helps in each case
        pass
    raise MissingProvider(
        f"the weights of {repository} are not in the Hugging Face cache and cannot be downloaded now; "
        f"on a machine with a network run: hf download {repository} {names[0]}"
    )


def _offered(repository: str, names: Sequence[str]) -> str | None:
    """The first of the files that the hub has."""
    for name in names:
        try:
            url = huggingface_hub.hf_hub_url(repository, name)
            huggingface_hub.get_hf_file_metadata(url, timeout=PROBE_SECONDS)
            return name
        except EntryNotFoundError:
            continue
    return None
