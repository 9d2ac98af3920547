"""A release -> a folder that fine-tuning reads: examples, and the pictures they refer to."""

import json
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa

from schemas.errors import BadInput
from schemas.export import FileFormat, SftSelection, SftStyle
from tasks.export.examples import EXAMPLES, FEATURES, Example, as_trainers_read
from tasks.export.select import select
from tasks.export.sft_card import write_sft_card
from tasks.parquet import encode_parquet, read_parquet_groups
from tasks.release.contents import IMAGE_NAME
from tasks.release.declared import check_shards
from tasks.release.shards import feature_schema, shards
from tasks.release.verify import read_manifest
from tasks.running.progress import progress

IMAGES = "images"


def export_sft(release: Path, out: Path, selection: SftSelection, style: SftStyle, form: FileFormat) -> dict[str, int]:
    """Write `out`/train.jsonl or .parquet, `out`/images and a card. Returns counts of examples and pictures.

    The folder appears whole or not at all. Raises BadInput when it exists, or the release has nothing to select.
    """
    manifest = read_manifest(release)
    check_shards(release)
    if out.exists():
        raise BadInput(f"{str(out)!r} exists already; give a folder that does not")
    chosen = {conversation_id: place for place, conversation_id in enumerate(select(release, selection))}
    if not chosen:
        raise BadInput(f"{str(release)!r}: no conversation of its best models ends with an answer")
    staging = out.with_name(f".{out.name}.unfinished")
    shutil.rmtree(staging, ignore_errors=True)
    (staging / IMAGES).mkdir(parents=True)
    found: dict[int, Example] = {}
    with progress("examples", len(chosen)) as advance:
        for row in _rows(release, chosen):
            found[chosen[row["conversation_id"]]] = EXAMPLES[style](row, _keep_pictures(row["images"], staging))
            advance()
    _write([found[place] for place in sorted(found)], style, staging / f"train.{form}")
    pictures = sum(1 for _ in (staging / IMAGES).iterdir())
    models = Counter(example["model"] for example in found.values())
    write_sft_card(release, staging, manifest.version, selection, style, form, models, pictures)
    staging.rename(out)
    return {"examples": len(found), "pictures": pictures}


def _rows(release: Path, chosen: dict[str, int]) -> Iterator[dict[str, Any]]:
    columns = ["conversation_id", "model", "language", "topic", "conversation", "images"]
    for shard in shards(release, "chat"):
        for group in read_parquet_groups(shard, columns):
            yield from group.filter(pl.col("conversation_id").is_in(list(chosen))).iter_rows(named=True)


def _keep_pictures(images: list[dict[str, Any]], folder: Path) -> list[str]:
    """Paths relative to the export; a picture's name is its content id, so each is written once."""
    for image in images:
        if not IMAGE_NAME.fullmatch(image["path"]):  # of a release that others made; it would become a path
            raise BadInput(
                f"a picture is called {image['path']!r}; `curate verify` says what is wrong with the release"
            )
        target = folder / IMAGES / image["path"]
        if not target.exists():
            target.write_bytes(image["bytes"])
    return [f"{IMAGES}/{image['path']}" for image in images]


def _write(examples: list[Example], style: SftStyle, target: Path) -> None:
    if target.suffix == ".parquet":
        target.write_bytes(encode_parquet(pa.Table.from_pylist(examples, feature_schema(FEATURES[style]))))
        return
    lines = (json.dumps(as_trainers_read(each), ensure_ascii=False) for each in examples)
    opening, between, closing = ("[\n", ",\n", "\n]\n") if target.suffix == ".json" else ("", "\n", "\n")
    with target.open("w", encoding="utf-8") as stream:
        for number, line in enumerate(lines):
            stream.write((between if number else opening) + line)
        stream.write(closing)
