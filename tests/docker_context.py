"""Files that Docker sends to a build, by the patterns of .dockerignore."""

import re
from collections.abc import Iterable
from pathlib import Path, PurePosixPath


def context_files(folder: Path, names: Iterable[str]) -> set[str]:
    """The names that are sent: the last pattern that matches a path or a folder above it decides.

    `names` are paths of files relative to `folder`, where .dockerignore lies; see
    https://docs.docker.com/build/concepts/context/#syntax.
    """
    lines = [line for line in (folder / ".dockerignore").read_text("utf-8").splitlines() if line and line[0] != "#"]
    patterns = [(line[0] == "!", _pattern(line.removeprefix("!"))) for line in lines]
    sent = set[str]()
    for name in names:
        file = PurePosixPath(name)
        places = [place.as_posix() for place in (file, *file.parents[:-1])]
        decisions = [back_in for back_in, pattern in patterns if any(map(pattern.fullmatch, places))]
        if not decisions or decisions[-1]:
            sent.add(name)
    return sent


def _pattern(text: str) -> re.Pattern[str]:
    pieces = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*"}
    return re.compile("".join(pieces.get(piece) or re.escape(piece) for piece in re.split(r"(\*\*/|\*\*|\*)", text)))
