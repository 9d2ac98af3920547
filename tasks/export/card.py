"""Dataset cards of exports: sections of the release's card, and how the export was made."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from schemas.errors import BadInput
from schemas.publication import FileFormat, PreferenceSelection, PreferenceStyle, SftSelection, SftStyle
from tasks.release.build import CARD, MANIFEST_DIGITS, manifest_sha256
from tasks.release.dataset_card import data_files, front_matter, render_card, size_category, split_card
from tasks.runtime.untrusted import markdown_text
from tasks.storage.queries.conversation_features import UNKNOWN, english_name

_HERE = Path(__file__).parent


def _read_card(release: Path, *kept: str) -> tuple[dict[str, Any], dict[str, str]]:
    """Front matter of a release's card; its notice of stand-ins, and its sections whose headings begin with `kept`."""
    try:
        about, text = split_card((release / CARD).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise BadInput(f"{str(release)!r}: its {CARD} is no card; `curate verify` says what is wrong with it") from None
    head, *sections = text.split("\n## ")
    notice = "".join(f"{line}\n" for line in head.splitlines() if line.startswith("> "))
    kept_sections = [f"## {section.strip()}\n" for section in sections if section.startswith(kept)]
    return about, {"notice": notice and f"{notice}\n", "sections": "\n".join(kept_sections)}


def write_sft_card(
    release: Path, folder: Path, version: str, selection: SftSelection, style: SftStyle, form: FileFormat,
    models: Counter[str], images: int, is_of_texts: bool,
) -> None:  # fmt: skip
    """Write the folder's README.md; `models` counts examples by model, `is_of_texts`: contents are texts, not parts.

    Raises BadInput when the release has no card.
    """
    about, parts = _read_card(release, "Licence", "Removal")
    english = english_name(selection.language)
    name, digits = about.get("pretty_name", "a release"), manifest_sha256(release)[:MANIFEST_DIGITS]
    files = [{"split": "train", "path": f"train.{form}"}]
    front = {key: value for key, value in about.items() if key not in ("configs", "dataset_info")}
    front["size_categories"] = [size_category(models.total())]
    front["configs"] = [{"config_name": "default", "data_files": files, "default": True}]
    card = render_card(
        _HERE / "sft_card.md", **parts, front_matter=front_matter(front), version=markdown_text(version),
        name=markdown_text(str(name)), manifest=digits, selection=selection,
        language=markdown_text((selection.language or "") if english == UNKNOWN else english), style=style, form=form,
        models=models,
        by_model=[(markdown_text(m), n) for m, n in sorted(models.items(), key=lambda row: (-row[1], row[0]))],
        images=images, is_of_texts=is_of_texts,
    )  # fmt: skip
    (folder / CARD).write_text(card, encoding="utf-8")


def write_preferences_card(
    release: Path, folder: Path, version: str, selection: PreferenceSelection, style: PreferenceStyle,
    done: Any, has_images: bool,
) -> None:  # fmt: skip
    """Write the folder's README.md; `done` is what the export holds. Raises BadInput when the release has no card."""
    about, parts = _read_card(release, "Licence", "Removal")
    name, digits = about.get("pretty_name", "a release"), manifest_sha256(release)[:MANIFEST_DIGITS]
    suffix = "jsonl" if style is PreferenceStyle.OPENAI else "parquet"
    files = [{"split": split, "path": f"{split}.{suffix}"} for split in done.rows]
    front = {key: value for key, value in about.items() if key not in ("configs", "dataset_info")}
    front["size_categories"] = [size_category(sum(done.rows.values()))]
    front["configs"] = [{"config_name": "default", "data_files": files, "default": True}]
    card = render_card(
        _HERE / "preferences_card.md", **parts, front_matter=front_matter(front), version=markdown_text(version),
        name=markdown_text(str(name)), manifest=digits, selection=selection, style=style, done=done,
        has_images=has_images,
    )  # fmt: skip
    (folder / CARD).write_text(card, encoding="utf-8")


def write_compat_cards(
    release: Path, folder: Path, version: str, rows: Mapping[str, int], left_out: Mapping[str, int]
) -> None:
    """Write README.md of the export and of each configuration, of which the rows and those left out are given.

    Raises BadInput when the release has no card.
    """
    about, parts = _read_card(release, "What was removed", "Known limits", "Licence", "Removal")
    parts |= {
        "version": markdown_text(version),
        "left_out": ", ".join(f"{config} {rows:,}" for config, rows in left_out.items()),
    }
    default_config = [{"config_name": "default", "data_files": [{"split": "train", "path": "data/train-*.parquet"}]}]
    for config in ("", *rows):
        configs = data_files(rows) if not config else default_config if rows[config] else []
        front = front_matter(about | {"configs": configs})
        card = render_card(_HERE / "vision_arena_card.md", **parts, front_matter=front)
        (folder / config / CARD).write_text(card, encoding="utf-8")
