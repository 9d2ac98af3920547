"""The card of an export with a published dataset's columns: what the release's card says that holds for it, too."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tasks.export.released_card import front_matter, notice, read_card, sections
from tasks.release.layout import CARD

_KEPT = ("What was removed", "Known limits", "Licence", "Removal")
_ABOUT = """\
# Version {version}, with the columns of VisionArena's published datasets

Code that reads lmarena-ai/VisionArena-Chat, VisionArena-Battle or vision-arena-bench-v0.1 reads this:

* Each chat message and each benchmark turn stands in a list of one.
* `user_id` is a number and `judge` an `arena_user_…` name, both made of the release's keyed hashes.
* `conv_metadata` counts Markdown by kind and level.
* Pictures are called `.png`, however they are encoded.
* Rows without a picture are left out ({left_out}), because loaders take `images[0]`.
"""


def write_cards(release: Path, folder: Path, version: str, left_out: Mapping[str, int]) -> None:
    """README.md of the export, and of every configuration's folder, which is published as a repository of its own.

    Raises BadInput when the release has no card with front matter.
    """
    about, text = read_card(release)
    told = ", ".join(f"{config} {rows:,}" for config, rows in left_out.items())
    body = "\n".join([*notice(text), _ABOUT.format(version=version, left_out=told), *sections(text, _KEPT)])
    for config in ("", *left_out):
        (folder / config / CARD).write_text(_front_matter(about, config) + body, encoding="utf-8")


def _front_matter(about: Mapping[str, Any], config: str) -> str:
    own = [{"config_name": "default", "data_files": [{"split": "train", "path": "data/train-*.parquet"}]}]
    return front_matter({**about, "configs": own} if config else dict(about))
