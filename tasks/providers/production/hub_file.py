"""A file on the Hugging Face hub, found quickly or not at all."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import huggingface_hub
from huggingface_hub.errors import EntryNotFoundError

from schemas.errors import MissingProvider

PROBE_SECONDS = 5.0
"""How long the hub may take to say that it has a file; a download without a network is retried for most of a minute."""


def hub_file(repository: str, names: Sequence[str]) -> Callable[[], Path]:
    """Gives the first of the files that there is: from the cache, or by a download that starts when it is called.

    Raises MissingProvider when none is cached and the hub does not offer one now.
    """
    for name in names:
        cached = huggingface_hub.try_to_load_from_cache(repository, name)
        if isinstance(cached, str):
            file = Path(cached)
            return lambda: file
    offered = None if offline() else _offered(repository, names)
    if offered is None:
        raise MissingProvider(
            f"the weights of {repository} are not in the Hugging Face cache, and the hub does not give them now; "
            f"on a machine with a network run: hf download {repository} {names[0]}"
        )
    return lambda: Path(huggingface_hub.hf_hub_download(repository, offered))


def offline() -> bool:
    """Whether the hub's own switch says that only what is on this machine may be used."""
    return os.environ.get("HF_HUB_OFFLINE", "").upper() in huggingface_hub.constants.ENV_VARS_TRUE_VALUES


def _offered(repository: str, names: Sequence[str]) -> str | None:
    """The first of the files that the hub has, asked once each."""
    for name in names:
        try:
            url = huggingface_hub.hf_hub_url(repository, name)
            huggingface_hub.get_hf_file_metadata(url, timeout=PROBE_SECONDS)
        except EntryNotFoundError:
            continue
        except Exception:  # offline mode, no network, a proxy's page, a gated repository: the way out is the same
            break
        return name
    return None
