"""Verifies a release from its own files: checksums, columns, rows, images, identifiers, benchmark leaks, the card."""

import json
import os
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import polars as pl

from schemas.policy import Policy, policy_hash
from schemas.release import CONFIGS, ROW_KEYS, Manifest
from schemas.run import Funnel
from tasks.bench.contamination.alike import ALIKE_OVERLAP
from tasks.bench.contamination.prompt_index import PromptIndex, joined_words
from tasks.release.build import CARD, MANIFEST, seal, wrong_files
from tasks.release.checks.card import tokens_known, wrong_card
from tasks.release.checks.footers import wrong_footers
from tasks.release.checks.metadata import as_gathered, without_images, wrong_metadata
from tasks.release.checks.report import wrong_report
from tasks.release.contents import (
    READ_ERRORS,
    ImageContents,
    ImageLists,
    beside_rows,
    forbidden_in,
    identifiers_in_files,
    sound_groups,
    unlike_declared,
    wrong_groups,
)
from tasks.release.core_parts import CORE_PARTS
from tasks.release.dataset_card import COMPARED, Statistics
from tasks.release.fetched import read_manifest, store_of
from tasks.release.registered import OpenRelease, PartsOf, ReleasePart, table_of, wrong_stated
from tasks.release.shards import shard_files
from tasks.runtime.parallel import map_in_processes
from tasks.runtime.progress import Advance, progress
from tasks.storage.parquet import FRAME_BYTES, compact, read_parquet_groups
from tasks.storage.queries.conversation_features import COUNTED, Tallies
from tasks.storage.tables import Store

LANGUAGES_SINCE = 10
"""Manifests of an earlier layout do not count languages."""
ROWS_ALONE = 2_000
"""Rows of a configuration that processes check only where there are more; starting two takes as long as 500 rows."""


def verify_release(folder: Path, parts: PartsOf, store: Store | None = None) -> list[str]:
    """All problems found, one line each; empty when the release is whole.

    `parts` gives what products add to it. `store` is the store whose hidden split must not be in the release; by
    default the one that contains the folder.
    """
    manifest = read_manifest(folder)
    opened = OpenRelease(folder, manifest, store or store_of(str(folder)))
    sealed = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    problems = [] if sealed.get("seal") == seal(sealed) else [f"{MANIFEST}: changed since the release was sealed"]
    problems += [*hidden_leaks(folder, None), *wrong_files(folder, manifest)]
    problems = problems or list(unlike_declared(folder, manifest)) or list(wrong_footers(folder, manifest))
    if problems:
        return problems  # checking rows makes no sense when the files are not the sealed ones
    made_of = [*CORE_PARTS, *parts(opened)]
    rows = VerifiedRows()
    with progress("rows to verify", sum(manifest.counts[config] for config in CONFIGS)) as advance:
        for config in CONFIGS:
            problems += _config(folder, config, manifest, rows, advance)
    problems += [*_funnel(manifest), *_policy(manifest)]
    problems += identifiers_in_files(folder, manifest)
    if not problems:
        tables = sorted(name for name in manifest.files if name.endswith(".parquet"))
        problems = [f"{name}: {problem}" for name in tables for problem in beside_rows(folder / name)]
    if not problems:
        problems = [*bench_leaks(folder), *hidden_leaks(folder, opened.store), *_unchecked(manifest, made_of)]
        problems += [problem for part in made_of for problem in part.wrong(opened)]
        problems += wrong_stated(opened, made_of)
    if not problems:
        cells = {config: figures.cells() for config, figures in rows.statistics.items()}
        others = [
            config
            for config, image_list in rows.images.items()
            if image_list.hexdigest() != manifest.images.get(config)
        ]
        problems = [
            f"{c}: its rows do not show the images that they showed when the release was sealed" for c in others
        ]
        if manifest.layout >= LANGUAGES_SINCE and rows.tallies.languages() != manifest.languages:
            problems.append(f"{MANIFEST}: languages are not those of the rows")
        problems += wrong_card(opened, cells, made_of)
        problems += wrong_report(opened, rows.tallies, tokens_known((folder / CARD).read_text(encoding="utf-8")))
    return problems


class VerifiedRows:
    """Counts of the rows of a release while they are checked."""

    def __init__(self) -> None:
        self.images = {config: ImageLists(config) for config in CONFIGS}
        self.statistics = {config: Statistics(config) for config in COMPARED}
        self.tallies = Tallies()
        self.contents = ImageContents()

        self._waiting: dict[str, list[pl.DataFrame]] = {config: [] for config in COUNTED}

    def add(self, config: str, group: pl.DataFrame) -> Iterator[str]:
        """Count the rows of a row group, some groups at a time; gives problems of images, and of what texts have."""
        self.images[config].add(group)
        yield from self.contents.wrong(group)
        if config in COUNTED:
            self._waiting[config].append(compact(without_images(group)))
            if sum(rows.estimated_size() for rows in self._waiting[config]) > FRAME_BYTES:
                yield from self.count(config)

    def count(self, config: str) -> Iterator[str]:
        """Count the rows that wait; gives problems of what is said of their texts."""
        if not (waiting := self._waiting.pop(config, [])):
            return
        self._waiting[config] = []
        rows = as_gathered(config, pl.concat(waiting))
        self.statistics[config].add(rows)
        self.tallies.add(config, rows)
        yield from wrong_metadata(rows) if config == "battle" else ()


def _unchecked(manifest: Manifest, parts: Sequence[ReleasePart]) -> Iterator[str]:
    """A problem for each table that no part checks."""
    checked = {*CONFIGS, *(table for part in parts for table in part.tables)}
    for name in sorted(name for name in manifest.files if name.endswith(".parquet")):
        if table_of(name) not in checked:
            yield f"{name}: nothing checks it"


def _config(folder: Path, config: str, manifest: Manifest, verified: VerifiedRows, advance: Advance) -> list[str]:
    """Problems of the rows of a configuration. Every row group is read once, and counted in `verified`."""
    problems: list[str] = []
    key, rows, shards = ROW_KEYS[config], 0, shard_files(folder, config)
    ids_of_groups = [pl.Series(key, dtype=pl.String)]
    work = partial(wrong_groups, config, forbidden_in(Policy.model_validate(manifest.policy), config))
    many = manifest.counts[config] > ROWS_ALONE
    checked = map_in_processes(work, shards, min(4, os.cpu_count() or 1)) if many else map(work, shards)
    for shard, wrong_in in zip(shards, checked, strict=True):
        try:
            for group, wrong in zip(sound_groups(shard), wrong_in, strict=True):
                rows += group.height
                ids_of_groups.append(group[key])
                advance(group.height)
                problems += [f"{config}/{shard.name}: {problem}" for problem in (*wrong, *verified.add(config, group))]
        except READ_ERRORS as error:
            return [*problems, f"{config}/{shard.name}: its pages cannot be read ({type(error).__name__})"]
    problems += [f"{config}: {problem}" for problem in verified.count(config)]
    if rows != manifest.counts[config]:
        return [*problems, f"{config}: {rows} rows, the manifest says {manifest.counts[config]}"]
    ids = pl.concat(ids_of_groups)
    repeated = ids.filter(ids.is_duplicated()).head(1)
    return [*problems, *(f"{config}: {key} {name!r} is there more than once" for name in repeated)]


def _funnel(manifest: Manifest) -> Iterator[str]:
    gone = Funnel.model_validate(manifest.funnel)
    sums = (gone.dropped, sum(gone.dropped_by.values())), (gone.rejected, sum(gone.rejected_by.values()))
    if gone.lines != gone.kept + gone.dropped + gone.rejected or any(total != parts for total, parts in sums):
        yield f"{MANIFEST}: the outcomes of the log lines do not add up to {gone.lines}"


def _policy(manifest: Manifest) -> Iterator[str]:
    if (right := policy_hash(Policy.model_validate(manifest.policy), as_given=True)) != manifest.policy_hash:
        yield f"{MANIFEST}: its policy is not the one with the hash {manifest.policy_hash}, but that of {right}"


def bench_leaks(folder: Path) -> Iterator[str]:
    """Benchmark prompts and similar prompts in chat, or in battles that are not marked with `in_bench`."""
    prompts = (group for shard in shard_files(folder, "bench") for group in _prompts(shard, "turns"))
    bench = pl.concat([pl.DataFrame(schema=_PROMPTS), *prompts])
    index = PromptIndex(bench["prompt"], ALIKE_OVERLAP)
    for shard in shard_files(folder, "chat"):
        for rows in _prompts(shard, "conversation", key="conversation_id"):
            for key in _alike(rows, bench, index):
                yield f"chat/{shard.name}: a benchmark prompt is in chat, in conversation {key!r}"
    for shard in shard_files(folder, "battle"):
        for rows in _prompts(shard, "conversation_a", key="question_id", in_bench="in_bench"):
            for key in _alike(rows.filter(~pl.col("in_bench")), bench, index):
                yield f"battle/{shard.name}: a benchmark prompt is not marked, in battle {key!r}"


_PROMPTS = {"prompt": pl.String, "words": pl.String, "image": pl.String}


def _prompts(shard: Path, turns: str, **more: str) -> Iterator[pl.DataFrame]:
    """Prompt, its normalised words, first image, and the columns `more` of every row, one row group at a time."""
    for group in read_parquet_groups(shard, [turns, "images.list.element.path", *more.values()]):
        # A row is a released row: all messages of the user, and the content id of the first image, or nothing.
        prompts = group.select(
            prompt=pl.col(turns).list.eval(_ASKED).list.join("\n\n"),
            image=pl.col("images").list.first().struct.field("path").str.head(32).fill_null(""),
            **{name: pl.col(column) for name, column in more.items()},
        )
        yield prompts.with_columns(words=joined_words(prompts["prompt"])).select(*_PROMPTS, *more)


_ASKED = pl.element().struct.field("content").filter(pl.element().struct.field("role") == "user")


def _alike(rows: pl.DataFrame, bench: pl.DataFrame, index: PromptIndex) -> pl.Series:
    """Keys of rows with a benchmark prompt on the same image, or with one of at least 13 words on any image."""
    numbered = rows.with_row_index()
    on_image = numbered.join(bench, on=["words", "image"], how="semi")["index"]
    distinctive = index.find_distinctive(rows["prompt"])["row"]
    return numbered.filter(pl.col("index").is_in(pl.concat([on_image, distinctive]).implode()))["key"]


_RESERVED = """
    -- a row is one conversation as it was logged whose prompt is reserved for the hidden split
    SELECT conversation_id FROM conversations SEMI JOIN hidden USING (document_id)
"""


def hidden_leaks(folder: Path, store: Store | None) -> Iterator[str]:
    """Files named after a hidden split, and rows on prompts that a store reserves for its hidden split."""
    for path in sorted(folder.rglob("*")):
        if "hidden" in path.relative_to(folder).as_posix().lower():
            yield f"{path.relative_to(folder).as_posix()}: the hidden split is in no release"
    if store is None:
        return
    reserved = pl.concat(store.batches(_RESERVED))
    for config, key in ROW_KEYS.items():
        for shard in shard_files(folder, config):
            ids = pl.concat([pl.Series([], dtype=pl.String), *(g[key] for g in read_parquet_groups(shard, [key]))])
            for name in ids.filter(ids.is_in(reserved["conversation_id"].implode())):
                yield f"{config}/{shard.name}: {name!r} is reserved for the hidden split"
