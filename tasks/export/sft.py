"""Exports training data: draws conversations of the best models and writes them with their images."""

import json
import shutil
from collections import Counter
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import yaml
from datasets import Features

from schemas.errors import BadInput
from schemas.publication import FileFormat, SftSelection, SftStyle
from tasks.export.card import write_sft_card
from tasks.export.examples import EXAMPLES, Example, as_trainers_read
from tasks.release.contents import IMAGE_NAME
from tasks.release.declared import check_shards
from tasks.release.fetched import read_manifest
from tasks.release.shards import feature_schema, shards
from tasks.runtime.progress import progress
from tasks.storage.parquet import compact, encode_parquet, read_parquet_groups

_COLUMNS = ["conversation_id", "model", "topic", "conversation"]


def top_models(release: Path, chat: pl.DataFrame, count: int) -> list[str]:
    """The `count` best rated models that have conversations in `chat`, best first. Raises BadInput without any."""
    board = release / "leaderboard" / "overall.parquet"
    rated = (
        pl.concat(read_parquet_groups(board))
        if board.is_file()
        else pl.DataFrame(schema={"model": pl.String, "rating": pl.Float64, "slice": pl.String})
    )
    overall = rated.filter(pl.col("slice") == "overall")  # the file has a row a model for each exclusion as well
    known = overall.filter(pl.col("model").is_in(chat["model"].unique().implode()))
    if known.is_empty():
        raise BadInput(f"{str(release)!r}: no model of the overall leaderboard has a conversation in chat")
    return known.sort("rating", "model", descending=[True, False])["model"].head(count).to_list()


def select(release: Path, selection: SftSelection) -> list[str]:
    """conversation_ids to export, in order. Conversations that do not end with an answer are left out."""
    last = pl.col("conversation").list.last().struct
    answered = (last.field("role") == "assistant") & (last.field("content").str.strip_chars() != "")
    groups = (group for shard in shards(release, "chat") for group in read_parquet_groups(shard, _COLUMNS))
    named = [*_COLUMNS[:-1], answered.alias("answered")]
    chat = pl.concat(compact(group.select(named)) for group in groups)  # without the texts, to save memory
    models = top_models(release, chat, selection.models)
    rows = chat.filter(pl.col("answered") & pl.col("model").is_in(models)).drop("answered")
    drawn = sorted(  # at random, but a conversation's place depends only on the seed and the conversation
        rows.iter_rows(), key=lambda row: blake2b(f"{selection.seed} {row[0]}".encode(), digest_size=16).digest()
    )
    chosen: list[str] = []
    of_model: Counter[str] = Counter()
    of_topic: Counter[str | None] = Counter()
    for conversation_id, model, topic in drawn:
        if len(chosen) == selection.conversations:
            break
        taken = ((of_model[model], selection.per_model), (of_topic[topic], selection.per_topic))
        if any(most is not None and count >= most for count, most in taken):
            continue
        chosen.append(conversation_id)
        of_model[model] += 1
        of_topic[topic] += 1
    return chosen


_SCHEMAS = yaml.safe_load(Path(__file__).with_name("sft.yaml").read_text(encoding="utf-8"))
FEATURES = {style: Features.from_dict(_SCHEMAS[style]) for style in SftStyle}
"""Style -> the columns of its Parquet file."""
IMAGES = "images"
DATASET_INFO = "dataset_info.json"


def dataset_info(form: FileFormat) -> dict[str, Any]:
    """What LLaMA-Factory wants to know of a folder: its data set `train`."""
    columns = {"messages": "conversations", "images": "images"}
    return {"train": {"file_name": f"train.{form}", "formatting": "sharegpt", "columns": columns}}


def export_sft(release: Path, out: Path, selection: SftSelection, style: SftStyle, form: FileFormat) -> dict[str, int]:
    """Write `out`/train.jsonl, .json or .parquet, `out`/images and a card. Returns counts of examples and images.

    The folder is renamed into place when complete. Raises BadInput when it exists, or nothing is selected.
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
            found[chosen[row["conversation_id"]]] = EXAMPLES[style](row, _keep_images(row["images"], staging))
            advance()
    _write([found[place] for place in sorted(found)], style, staging / f"train.{form}")
    if style is SftStyle.SHAREGPT:
        (staging / DATASET_INFO).write_text(json.dumps(dataset_info(form), indent=2) + "\n", encoding="utf-8")
    images = sum(1 for _ in (staging / IMAGES).iterdir())
    models = Counter(example["model"] for example in found.values())
    write_sft_card(release, staging, manifest.version, selection, style, form, models, images)
    staging.rename(out)
    return {"examples": len(found), "images": images}


def _rows(release: Path, chosen: dict[str, int]) -> Iterator[dict[str, Any]]:
    columns = ["conversation_id", "model", "language", "topic", "conversation", "images"]
    for shard in shards(release, "chat"):
        for group in read_parquet_groups(shard, columns):
            yield from group.filter(pl.col("conversation_id").is_in(list(chosen))).iter_rows(named=True)


def _keep_images(images: list[dict[str, Any]], folder: Path) -> list[str]:
    """Write images that are not written yet; returns their paths relative to the export."""
    for image in images:
        if not IMAGE_NAME.fullmatch(image["path"]):  # names come from the release and become paths here
            raise BadInput(f"an image is named {image['path']!r}; `curate verify` says what is wrong with the release")
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
