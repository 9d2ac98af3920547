"""Finds benchmark prompts in chat, unmarked battles on them, and anything of a hidden split."""

from collections.abc import Iterator
from pathlib import Path

import polars as pl

from schemas.release import KEYS
from tasks.bench.contamination.alike import ALIKE_OVERLAP
from tasks.bench.contamination.prompt_index import PromptIndex, normalised
from tasks.release.shards import shards
from tasks.storage.parquet import compact, read_parquet_groups
from tasks.storage.tables import Store


def bench_leaks(folder: Path) -> Iterator[str]:
    """Benchmark prompts and similar prompts in chat, or in battles that are not marked with `in_bench`."""
    asked = (group for shard in shards(folder, "bench") for group in _prompts(shard, "turns"))
    bench = pl.concat([pl.DataFrame(schema=_PROMPTS), *asked])
    index = PromptIndex(bench["prompt"], ALIKE_OVERLAP)
    for shard in shards(folder, "chat"):
        for rows in _prompts(shard, "conversation", key="conversation_id"):
            for key in _alike(rows, bench, index):
                yield f"chat/{shard.name}: a benchmark prompt is in chat, in conversation {key!r}"
    for shard in shards(folder, "battle"):
        for rows in _prompts(shard, "conversation_a", key="question_id", in_bench="in_bench"):
            for key in _alike(rows.filter(~pl.col("in_bench")), bench, index):
                yield f"battle/{shard.name}: a benchmark prompt is not marked, in battle {key!r}"


_PROMPTS = {"prompt": pl.String, "words": pl.String, "image": pl.String}


def _prompts(shard: Path, turns: str, **more: str) -> Iterator[pl.DataFrame]:
    """Prompt, its normalised words, first image, and the columns `more` of every row, one row group at a time."""
    for group in read_parquet_groups(shard, [turns, "images.list.element.path", *more.values()]):
        asked = group.select(
            prompt=pl.col(turns).list.eval(_ASKED).list.join("\n\n"),
            image=pl.col("images").list.first().struct.field("path").str.head(32).fill_null(""),
            **{name: pl.col(column) for name, column in more.items()},
        )
        yield asked.with_columns(words=normalised(asked["prompt"])).select(*_PROMPTS, *more)


_ASKED = pl.element().struct.field("content").filter(pl.element().struct.field("role") == "user")


def _alike(rows: pl.DataFrame, bench: pl.DataFrame, index: PromptIndex) -> pl.Series:
    """Keys of rows with a benchmark prompt on the same image, or with one of at least 13 words on any image."""
    numbered = rows.with_row_index()
    on_image = numbered.join(bench, on=["words", "image"], how="semi")["index"]
    distinctive = index.find_distinctive(rows["prompt"])["row"]
    return numbered.filter(pl.col("index").is_in(pl.concat([on_image, distinctive]).implode()))["key"]


def hidden_leaks(folder: Path, store: Store | None) -> Iterator[str]:
    """Files named after a hidden split, and rows on prompts that a store reserves for its hidden split."""
    for path in sorted(folder.rglob("*")):
        if "hidden" in path.relative_to(folder).as_posix().lower():
            yield f"{path.relative_to(folder).as_posix()}: the hidden split is in no release"
    if store is None:
        return
    reserved = store.read("hidden", ["document_id"])
    names = ["conversation_id", "document_id"]
    parts = (rows.join(reserved, on="document_id", how="semi") for rows in store.read_slices("conversations", names))
    secret = pl.concat([store.empty("conversations", names), *map(compact, parts)])
    for config, key in KEYS.items():
        for shard in shards(folder, config):
            ids = pl.concat([pl.Series([], dtype=pl.String), *(g[key] for g in read_parquet_groups(shard, [key]))])
            for name in ids.filter(ids.is_in(secret["conversation_id"].implode())):
                yield f"{config}/{shard.name}: {name!r} is reserved for the hidden split"
