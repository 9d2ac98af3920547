"""Weight files: which bytes they hold, so that a version names the weights and not the place they lie in."""

import hashlib
from collections.abc import Iterable
from pathlib import Path


def fingerprint(files: Iterable[Path]) -> str:
    """First 8 hex digits of the SHA-256 over the files' own SHA-256 digests, in the order given."""
    whole = hashlib.sha256()
    for file in files:
        with file.open("rb") as stream:
            whole.update(hashlib.file_digest(stream, "sha256").digest())
    return whole.hexdigest()[:8]
