"""Dataset cards of exports: sections of the release's card, and how the export was made."""

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from schemas.errors import BadInput
from schemas.export import FileFormat, SftSelection, SftStyle
from tasks.release.dataset_card import front_matter, size_category, split_card
from tasks.release.layout import CARD, MANIFEST_DIGITS, manifest_sha256
from tasks.runtime.untrusted import markdown_text


def read_card(release: Path) -> tuple[dict[str, Any], str]:
    """(front matter, text) of a release's card. Raises BadInput when there is no card with front matter."""
    try:
        return split_card((release / CARD).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise BadInput(f"{str(release)!r}: its {CARD} is no card; `curate verify` says what is wrong with it") from None


def notice(text: str) -> Iterator[str]:
    """The card's notice of embedded stand-ins, if it has one."""
    lines = [line for line in text.partition("\n## ")[0].splitlines() if line.startswith("> ")]
    yield from [*lines, ""] if lines else []


def sections(text: str, kept: tuple[str, ...]) -> Iterator[str]:
    """Sections of the card whose headings begin with one of `kept`."""
    return (f"## {section.strip()}\n" for section in text.split("\n## ")[1:] if section.startswith(kept))


_KEPT = ("Licence", "Removal")
_READ = {
    SftStyle.MESSAGES: """\
```python
import os

from datasets import Image, List, load_dataset

os.chdir(FOLDER)  # of the Hub: hf download ORG/NAME --repo-type dataset --local-dir FOLDER
train = load_dataset(".", split="train").cast_column("images", List(Image()))
```

`messages` is [{role, content [{type, text}]}], as TRL and chat templates take it; `images` are paths relative to this
folder, in order. They come before the first message, because a release does not say which turn showed them.
""",
    SftStyle.LLAVA: """\
`conversations` is [{from, value}] with one `<image>` mark for each image before the first text, as LLaVA's trainers
expect. `image` is a path relative to this folder, a list of paths for several images, and missing without images (in
Parquet it is always a list). An `<image>` that a user typed is written as `< image >`.
""",
}


def write_sft_card(
    release: Path,
    folder: Path,
    version: str,
    selection: SftSelection,
    style: SftStyle,
    form: FileFormat,
    models: Counter[str],
    images: int,
) -> None:
    """Write the folder's README.md, which `datasets` and the Hub read. `models` counts examples by model.

    Raises BadInput when the release has no card with front matter.
    """
    about, text = read_card(release)
    digits = manifest_sha256(release)[:MANIFEST_DIGITS]
    body = [
        *notice(text),
        "# Conversations of the best models, for fine-tuning\n",
        f"{models.total():,} conversations and {images:,} images of version {markdown_text(version)} of "
        f"{markdown_text(str(about.get('pretty_name', 'a release')))} (manifest `{digits}`), written by "
        f"`curate export sft` as {form} in the style `{style}`. `id` is the release's `conversation_id`. None is on a "
        "prompt of the benchmark.\n",
        "\n".join(_drawn(selection)) + "\n",
        "\n".join(_by_model(models)) + "\n",
        f"## How to read it\n\n{_READ[style]}",
        *sections(text, _KEPT),
        "This folder is a copy: a takedown does not reach it. Export again from a later version, or remove the\n"
        "conversation and its images here.\n",
    ]
    (folder / CARD).write_text(front_matter(_about(about, form, models.total())) + "\n".join(body), encoding="utf-8")


def _about(release: Mapping[str, Any], form: FileFormat, examples: int) -> dict[str, Any]:
    kept = {name: value for name, value in release.items() if name not in ("configs", "dataset_info")}
    files = [{"split": "train", "path": f"train.{form}"}]
    config = {"config_name": "default", "data_files": files, "default": True}
    return kept | {"size_categories": [size_category(examples)], "configs": [config]}


def _drawn(selection: SftSelection) -> Iterator[str]:
    yield f"* Answers of the {selection.models} best models of the overall leaderboard that have conversations."
    yield f"* At most {selection.conversations:,} conversations, drawn with seed {selection.seed}."
    for what, most in (("a model", selection.per_model), ("a topic", selection.per_topic)):
        if most is not None:
            yield f"* At most {most:,} of {what}."


def _by_model(models: Counter[str]) -> Iterator[str]:
    yield from ("| model | conversations |", "|---|--:|")
    for name, count in sorted(models.items(), key=lambda row: (-row[1], row[0])):
        yield f"| {markdown_text(name)} | {count:,} |"
