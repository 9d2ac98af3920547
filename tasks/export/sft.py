"""A release -> a folder of training examples with the images they refer to, and which conversations are chosen."""

import hashlib
import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
from datasets import Features, List, Value

from schemas.errors import BadInput
from schemas.export import FileFormat, SftSelection, SftStyle
from tasks.export.card import write_sft_card
from tasks.release.contents import IMAGE_NAME
from tasks.release.declared import check_shards
from tasks.release.shards import feature_schema, shards
from tasks.release.verify import read_manifest
from tasks.runtime.progress import progress
from tasks.storage.parquet import compact, encode_parquet, read_parquet_groups

_COLUMNS = ["conversation_id", "model", "topic", "conversation"]


def top_models(release: Path, chat: pl.DataFrame, count: int) -> list[str]:
    """The best models of the overall leaderboard that have conversations, best first.

    Raises BadInput when the leaderboard rates none of them.
    """
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
    """conversation_ids in the order they are exported. Conversations without a last answer are left out."""
    last = pl.col("conversation").list.last().struct
    answered = (last.field("role") == "assistant") & (last.field("content").str.strip_chars() != "")
    groups = (group for shard in shards(release, "chat") for group in read_parquet_groups(shard, _COLUMNS))
    named = [*_COLUMNS[:-1], answered.alias("answered")]
    chat = pl.concat(compact(group.select(named)) for group in groups)  # texts stay on disk
    models = top_models(release, chat, selection.models)
    rows = chat.filter(pl.col("answered") & pl.col("model").is_in(models)).drop("answered")
    drawn = sorted(rows.iter_rows(), key=lambda row: _place(selection.seed, row[0]))
    chosen: list[str] = []
    of_model: Counter[str] = Counter()
    of_topic: Counter[str | None] = Counter()
    for conversation_id, model, topic in drawn:
        if len(chosen) == selection.conversations:
            break
        if _full(of_model[model], selection.per_model) or _full(of_topic[topic], selection.per_topic):
            continue
        chosen.append(conversation_id)
        of_model[model] += 1
        of_topic[topic] += 1
    return chosen


def _full(count: int, limit: int | None) -> bool:
    return limit is not None and count >= limit


def _place(seed: int, conversation_id: str) -> bytes:
    """A random number that stays with the conversation when others come or go."""
    return hashlib.blake2b(f"{seed} {conversation_id}".encode(), digest_size=16).digest()


_MARK = "<image>"
_DEFUSED = "< image >"
"""What a user's own `<image>` becomes, because trainers count the marks."""

Example = dict[str, Any]


def messages_example(row: Mapping[str, Any], images: Sequence[str]) -> Example:
    """`messages` whose first user message shows the pictures, and `images` with their paths."""
    messages = []
    for place, turn in enumerate(row["conversation"]):
        shown = [{"type": "image", "text": None} for _ in images] if place == 0 else []
        messages.append({"role": turn["role"], "content": [*shown, {"type": "text", "text": turn["content"]}]})
    return {"id": row["conversation_id"], "messages": messages, "images": list(images), **_about(row)}


def llava_example(row: Mapping[str, Any], images: Sequence[str]) -> Example:
    """`conversations` with one mark for each picture before the first text, and `image` with their paths."""
    turns = []
    for place, turn in enumerate(row["conversation"]):
        marks = f"{_MARK}\n" * len(images) if place == 0 else ""
        who = "human" if turn["role"] == "user" else "gpt"
        turns.append({"from": who, "value": marks + turn["content"].replace(_MARK, _DEFUSED)})
    return {"id": row["conversation_id"], "image": list(images), "conversations": turns, **_about(row)}


def as_trainers_read(example: Example) -> Example:
    """LLaVA's trainers take `image` for a path, LLaVA-NeXT's several for a list; without one there is no picture."""
    if "image" not in example:
        return example
    paths = example["image"]
    rest = {name: value for name, value in example.items() if name != "image"}
    return rest if not paths else {"id": rest.pop("id"), "image": paths[0] if len(paths) == 1 else paths, **rest}


def _about(row: Mapping[str, Any]) -> Example:
    return {"model": row["model"], "language": row["language"], "topic": row["topic"]}


_TEXT = Value("string")
_ABOUT = {"model": _TEXT, "language": _TEXT, "topic": _TEXT}
FEATURES: dict[SftStyle, Features] = {
    SftStyle.MESSAGES: Features(
        {"id": _TEXT, "messages": List({"role": _TEXT, "content": List({"type": _TEXT, "text": _TEXT})})}
        | {"images": List(_TEXT)}
        | _ABOUT
    ),
    SftStyle.LLAVA: Features(
        {"id": _TEXT, "image": List(_TEXT), "conversations": List({"from": _TEXT, "value": _TEXT})} | _ABOUT
    ),
}
"""Style -> the columns of its Parquet file."""
EXAMPLES: dict[SftStyle, Callable[[Mapping[str, Any], Sequence[str]], Example]] = {
    SftStyle.MESSAGES: messages_example,
    SftStyle.LLAVA: llava_example,
}


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
            found[chosen[row["conversation_id"]]] = EXAMPLES[style](row, _keep_images(row["images"], staging))
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


def _keep_images(images: list[dict[str, Any]], folder: Path) -> list[str]:
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
