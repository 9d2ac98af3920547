"""Exports a release with the columns of a published dataset, for code that loads that dataset."""

import hashlib
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from datasets import Features, Image, List, Value

from schemas.errors import BadInput
from schemas.export import Compat
from schemas.release import CONFIGS, ReleasedCategories
from schemas.row import arrow_schema
from tasks.export.card import notice, read_card, sections
from tasks.export.destination import put_folder
from tasks.release.dataset_card import front_matter
from tasks.release.declared import check_shards
from tasks.release.fetched import fetched
from tasks.release.layout import CARD
from tasks.release.shards import feature_schema, shards
from tasks.release.verify import read_manifest
from tasks.signals.markdown import markdown
from tasks.storage.parquet import parquet_writer, read_parquet_groups
from tasks.storage.tables import Store

Row = Mapping[str, Any]
_SHORT_ID = "23456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_SHORT_ID_LENGTH = 22
_LEVELS = [f"h{level}" for level in range(1, 7)]
_MESSAGE = {"content": Value("string"), "role": Value("string")}
_CATEGORIES = {name: Value("bool") for name in arrow_schema(ReleasedCategories).names}


def _side_features(side: str) -> dict[str, Any]:
    number = Value("int64")
    return {
        f"bold_count_{side}": {"**": number, "__": number},
        f"context_{side}_tokens": number,
        f"header_count_{side}": dict.fromkeys(_LEVELS, number),
        f"list_count_{side}": {"ordered": number, "unordered": number},
        f"sum_assistant_{side}_tokens": number,
    }


FEATURES: dict[str, Features] = {
    "chat": Features(
        {
            "images": List(Image()), "conversation_id": Value("string"), "model": Value("string"),
            "num_turns": Value("int64"), "conversation": List(List(_MESSAGE)), "language": Value("string"),
            "user_id": Value("int64"), "tstamp": Value("float64"), "is_preset": Value("bool"),
            "preset_dataset": Value("string"), "categories": _CATEGORIES,
        }
    ),
    "battle": Features(
        {
            "judge": Value("string"), "winner": Value("string"), "num_turns": Value("int64"),
            "language": Value("string"), "categories": _CATEGORIES, "images": List(Image()),
            "question_id": Value("string"), "model_a": Value("string"), "model_b": Value("string"),
            "conversation_a": List(_MESSAGE), "conversation_b": List(_MESSAGE), "tstamp": Value("float64"),
            "conv_metadata": _side_features("a") | _side_features("b") | {"sum_user_tokens": Value("int64")},
        }
    ),
    "bench": Features({"question_id": Value("string"), "turns": List(List(_MESSAGE)), "images": List(Image())}),
}  # fmt: skip
"""Configuration -> the published columns."""


def chat_row(row: Row) -> dict[str, Any]:
    """A row of VisionArena-Chat."""
    return _kept("chat", row) | {"conversation": _wrapped(row["conversation"]), "user_id": user_number(row["user_id"])}


def battle_row(row: Row) -> dict[str, Any]:
    """A row of VisionArena-Battle."""
    known = row["conv_metadata"]
    sides = [_side(side, row[f"conversation_{side}"], known) for side in ("a", "b")]
    metadata = sides[0] | sides[1] | {"sum_user_tokens": known["context_tokens"]}
    return _kept("battle", row) | {"judge": judge_name(row["judge"]), "conv_metadata": metadata}


def bench_row(row: Row) -> dict[str, Any]:
    """A row of VisionArena-Bench."""
    return _kept("bench", row) | {"turns": _wrapped(row["turns"])}


ROWS: dict[str, Callable[[Row], dict[str, Any]]] = {"chat": chat_row, "battle": battle_row, "bench": bench_row}


def user_number(user_id: str | None) -> int | None:
    """The first 52 bits of the keyed hash, so a user has the same number in every version.

    When a user is null, pandas reads the column as floats, which are exact up to 53 bits.
    """
    return None if user_id is None else int(user_id[:13], 16)


def judge_name(judge: str | None) -> str | None:
    """`arena_user_` and 22 characters derived from the keyed hash, as shortuuid writes ids."""
    if judge is None:
        return None
    number, letters = int.from_bytes(hashlib.blake2b(judge.encode(), digest_size=16).digest(), "big"), ""
    for _ in range(_SHORT_ID_LENGTH):
        number, place = divmod(number, len(_SHORT_ID))
        letters = _SHORT_ID[place] + letters
    return f"arena_user_{letters}"


def _kept(config: str, row: Row) -> dict[str, Any]:
    named = [{"bytes": image["bytes"], "path": f"{Path(image['path']).stem}.png"} for image in row["images"]]
    return {name: row[name] for name in FEATURES[config] if name in row} | {"images": named}


def _wrapped(messages: Sequence[Row]) -> list[list[Row]]:
    return [[message] for message in messages]


def _side(side: str, messages: Sequence[Row], known: Row) -> dict[str, Any]:
    counts = [markdown(message["content"]) for message in messages if message["role"] == "assistant"]
    totals = {name: sum(getattr(each, name) for each in counts) for name in type(markdown("")).model_fields}
    return {
        f"bold_count_{side}": {"**": totals["bold_stars"], "__": totals["bold_underscores"]},
        f"context_{side}_tokens": known["context_tokens"],
        f"header_count_{side}": {level: totals[level] for level in _LEVELS},
        f"list_count_{side}": {"ordered": totals["ordered"], "unordered": totals["unordered"]},
        f"sum_assistant_{side}_tokens": known[side]["assistant_tokens"],
    }


_KEPT = ("What was removed", "Known limits", "Licence", "Removal")
_ABOUT = """\
# Version {version}, with the columns of VisionArena's published datasets

Code that reads lmarena-ai/VisionArena-Chat, VisionArena-Battle or vision-arena-bench-v0.1 reads this:

* Each chat message and each benchmark turn is in a list of one.
* `user_id` is a number and `judge` an `arena_user_…` name, both derived from the release's keyed hashes.
* `conv_metadata` counts Markdown by kind and level.
* Image names end in `.png`, whatever the encoding.
* Rows without an image are left out ({left_out}), because loaders take `images[0]`.
"""


def write_cards(release: Path, folder: Path, version: str, left_out: Mapping[str, int]) -> None:
    """Write README.md of the export, and of every configuration's folder, which can be a repository of its own.

    Raises BadInput when the release has no card with front matter.
    """
    about, text = read_card(release)
    told = ", ".join(f"{config} {rows:,}" for config, rows in left_out.items())
    body = "\n".join([*notice(text), _ABOUT.format(version=version, left_out=told), *sections(text, _KEPT)])
    for config in ("", *left_out):
        (folder / config / CARD).write_text(_front_matter(about, config) + body, encoding="utf-8")


def _front_matter(about: Mapping[str, Any], config: str) -> str:
    own = [{"config_name": "default", "data_files": [{"split": "train", "path": "data/train-*.parquet"}]}]
    return front_matter({**about, "configs": own} if config else about)


def export_vision_arena(release: Path, out: Path) -> dict[str, int]:
    """Write `out`/{chat,battle,bench}/data with the release's shards and row groups. Returns rows by configuration.

    Rows without an image are left out, because loaders of the published datasets take `images[0]`. The folder is
    renamed into place when complete. Raises BadInput when it exists or the release cannot be read.
    """
    manifest = read_manifest(release)
    check_shards(release)
    if out.exists():
        raise BadInput(f"{str(out)!r} exists already; give a folder that does not")
    staging = out.with_name(f".{out.name}.unfinished")
    shutil.rmtree(staging, ignore_errors=True)
    rows = {config: _config(release, staging, config) for config in CONFIGS}
    left_out = {config: manifest.counts[config] - count for config, count in rows.items()}
    write_cards(release, staging, manifest.version, left_out)
    staging.rename(out)
    return rows


def _config(release: Path, folder: Path, config: str) -> int:
    schema, rows = feature_schema(FEATURES[config]), 0
    (folder / config / "data").mkdir(parents=True)
    for shard in shards(release, config):
        with parquet_writer(folder / config / "data" / shard.name, schema) as file:
            for group in read_parquet_groups(shard):
                shown = [ROWS[config](row) for row in group.iter_rows(named=True) if row["images"]]
                file.write(pa.Table.from_pylist(shown, schema))
                rows += len(shown)
    return rows


EXPORTS: Mapping[Compat, Callable[[Path, Path], dict[str, int]]] = {Compat.VISIONARENA: export_vision_arena}
"""Published dataset -> function that exports a release with its columns."""


def export_beside(store: Store, release: str, compat: Compat) -> str:
    """Export a release of a store, such as releases/1.0.0, into the same store.

    Returns the folder, such as exports/1.0.0-visionarena. An existing one is not written again: releases never change.
    """
    target = compat.folder(release.rpartition("/")[2])
    if store.fs.exists(store.at(f"{target}/README.md")):
        return target
    with fetched(f"{store.root.rstrip('/')}/{release}") as folder, tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / "export"
        EXPORTS[compat](folder, out)
        put_folder(out, store.fs, store.at(target))
    return target
