"""Verifies a release from its own files: checksums, columns, rows, images, identifiers, benchmark leaks, the card."""

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from html import unescape
from pathlib import Path

import polars as pl

from schemas.policy import Policy, policy_hash
from schemas.release import CONFIGS, KEYS, Manifest
from schemas.run import Funnel
from tasks.bench.contamination.alike import ALIKE_OVERLAP
from tasks.bench.contamination.prompt_index import PromptIndex, joined_words
from tasks.release.build import CARD, MANIFEST, seal, wrong_files
from tasks.release.checks.pages import odd_pages
from tasks.release.contents import (
    READ_ERRORS,
    ImageContents,
    ImageLists,
    beside_rows,
    forbidden_data,
    identifiers_in_files,
    sound_groups,
    unlike_declared,
    wrong_groups,
)
from tasks.release.core_parts import CORE_PARTS
from tasks.release.dataset_card import (
    COMPARED,
    TEMPLATE,
    UNKNOWN,
    Statistics,
    card_sections,
    configs_with_rows,
    data_files,
    dataset_name,
    funnel_line,
    split_card,
    unmeasured_line,
)
from tasks.release.fetched import read_manifest, store_of
from tasks.release.registered import OpenRelease, PartsOf, ReleasePart, table_of
from tasks.release.shards import LAYOUT, shard_files
from tasks.runtime.parallel import map_in_processes
from tasks.runtime.progress import Advance, progress
from tasks.runtime.untrusted import markdown_text
from tasks.storage.database import TemporaryDatabase
from tasks.storage.parquet import compact, read_parquet_groups
from tasks.storage.tables import Store

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
    problems = problems or list(unlike_declared(folder, manifest))
    if problems:
        return problems  # checking rows makes no sense when the files are not the sealed ones
    made_of = [*CORE_PARTS, *parts(opened)]
    shown, contents = {config: ImageLists(config) for config in CONFIGS}, ImageContents()
    statistics = {config: Statistics(config) for config in COMPARED}
    with progress("rows to verify", sum(manifest.counts[config] for config in CONFIGS)) as advance:
        for config in CONFIGS:
            counted = [statistics[config].add] if config in statistics else []
            problems += _config(folder, config, manifest, contents, [shown[config].add, *counted], advance)
    problems += [*_funnel(manifest), *_policy(manifest)]
    problems += identifiers_in_files(folder, manifest)
    if not problems:
        tables = sorted(name for name in manifest.files if name.endswith(".parquet"))
        problems = [f"{name}: {problem}" for name in tables for problem in beside_rows(folder / name)]
    if not problems:
        problems = [*bench_leaks(folder), *hidden_leaks(folder, opened.store), *_unchecked(manifest, made_of)]
        problems += odd_pages(folder)
        problems += [problem for part in made_of for problem in part.wrong(opened)]
    if not problems:
        cells = {config: found.cells() for config, found in statistics.items()}
        others = [config for config, found in shown.items() if found.hexdigest() != manifest.images.get(config)]
        problems = [
            f"{c}: its rows do not show the images that they showed when the release was sealed" for c in others
        ]
        problems += [*wrong_numbers(folder, manifest, cells), *wrong_sentences(folder, manifest)]
        problems += wrong_sections(folder, manifest.counts["bench"], made_of, manifest.layout)
    return problems


def _unchecked(manifest: Manifest, parts: Sequence[ReleasePart]) -> Iterator[str]:
    """A problem for each table that no part checks."""
    checked = {*CONFIGS, *(table for part in parts for table in part.tables)}
    for name in sorted(name for name in manifest.files if name.endswith(".parquet")):
        if table_of(name) not in checked:
            yield f"{name}: nothing checks it"


def _config(
    folder: Path,
    config: str,
    manifest: Manifest,
    contents: ImageContents,
    collect: Sequence[Callable[[pl.DataFrame], None]],
    advance: Advance,
) -> list[str]:
    """Problems of the rows of a configuration. Every row group is read once and given to all of `collect`."""
    problems: list[str] = []
    key, rows, ids, shards = KEYS[config], 0, TemporaryDatabase(), shard_files(folder, config)
    ids.run("CREATE TABLE ids (id VARCHAR)")
    work = partial(wrong_groups, config, forbidden_data(Policy.model_validate(manifest.policy)))
    many = manifest.counts[config] > ROWS_ALONE
    checked = map_in_processes(work, shards, min(4, os.cpu_count() or 1)) if many else map(work, shards)
    for shard, wrong_in in zip(shards, checked, strict=True):
        try:
            for group, wrong in zip(sound_groups(shard), wrong_in, strict=True):
                rows += group.height
                ids.append("ids", group.select(id=key))
                for add in collect:
                    add(group)
                advance(group.height)
                problems += [f"{config}/{shard.name}: {problem}" for problem in (*wrong, *contents.wrong(group))]
        except READ_ERRORS as error:
            return [*problems, f"{config}/{shard.name}: its pages cannot be read ({type(error).__name__})"]
    if rows != manifest.counts[config]:
        return [*problems, f"{config}: {rows} rows, the manifest says {manifest.counts[config]}"]
    twice = ids.read("SELECT id FROM ids GROUP BY id HAVING count(*) > 1 LIMIT 1")["id"]
    return [*problems, *(f"{config}: {key} {name!r} is there more than once" for name in twice)]


def _funnel(manifest: Manifest) -> Iterator[str]:
    gone = Funnel.model_validate(manifest.funnel)
    sums = (gone.dropped, sum(gone.dropped_by.values())), (gone.rejected, sum(gone.rejected_by.values()))
    if gone.lines != gone.kept + gone.dropped + gone.rejected or any(total != parts for total, parts in sums):
        yield f"{MANIFEST}: the outcomes of the log lines do not add up to {gone.lines}"


def _policy(manifest: Manifest) -> Iterator[str]:
    if (right := policy_hash(Policy.model_validate(manifest.policy))) != manifest.policy_hash:
        yield f"{MANIFEST}: its policy is not the one with the hash {manifest.policy_hash}, but that of {right}"


def bench_leaks(folder: Path) -> Iterator[str]:
    """Benchmark prompts and similar prompts in chat, or in battles that are not marked with `in_bench`."""
    asked = (group for shard in shard_files(folder, "bench") for group in _prompts(shard, "turns"))
    bench = pl.concat([pl.DataFrame(schema=_PROMPTS), *asked])
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
        asked = group.select(
            prompt=pl.col(turns).list.eval(_ASKED).list.join("\n\n"),
            image=pl.col("images").list.first().struct.field("path").str.head(32).fill_null(""),
            **{name: pl.col(column) for name, column in more.items()},
        )
        yield asked.with_columns(words=joined_words(asked["prompt"])).select(*_PROMPTS, *more)


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
        for shard in shard_files(folder, config):
            ids = pl.concat([pl.Series([], dtype=pl.String), *(g[key] for g in read_parquet_groups(shard, [key]))])
            for name in ids.filter(ids.is_in(secret["conversation_id"].implode())):
                yield f"{config}/{shard.name}: {name!r} is reserved for the hidden split"


_MAY_BE_UNKNOWN = (7, 8)
"""Cells that may be – in the card, because tokens need not have been measured: mean tokens of prompts and answers."""
_HEADING = re.compile(r"^## .+$", re.MULTILINE)
_FACT = re.compile(r"`[^`]*`|\d[\d.,]*\d|\d")


def wrong_numbers(folder: Path, manifest: Manifest, statistics: Mapping[str, tuple[str, ...]]) -> Iterator[str]:
    """Problems of the card's numbers: counts and outcomes against the manifest, statistics against the rows."""
    card = (folder / CARD).read_text(encoding="utf-8")
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in card.splitlines() if "|" in line]
    shown = {row[0]: row[1:] for row in reversed(cells)}  # when a first cell is repeated, its first row counts
    for config in configs_with_rows(manifest.counts):
        expected = f"{manifest.counts[config]:,}"
        if shown.get(f"`{config}`", [""])[0] != expected:
            yield f"{CARD}: rows of {config} are not the {expected} that the release has"
    for config, right in statistics.items():
        if not manifest.counts[config]:
            continue
        found = shown.get(dataset_name(config), [])
        unknown = [number for number, each in enumerate(found) if each == UNKNOWN and number in _MAY_BE_UNKNOWN]
        if found != [UNKNOWN if number in unknown else cell for number, cell in enumerate(right)]:
            yield f"{CARD}: statistics of {config} are not those of its rows, {' | '.join(right)}"
    gone = Funnel.model_validate(manifest.funnel)
    reasons = [(f"{outcome}: {reason}", f"{lines:,}") for outcome, reason, lines in gone.reasons()]
    table = [(row[0], row[1]) for row in cells if row[0].startswith(("dropped: ", "rejected: ")) and len(row) > 1]
    if funnel_line(gone) not in card or sorted(table) != sorted(reasons):
        yield f"{CARD}: where the log lines went is not what the manifest says"


def wrong_sentences(folder: Path, manifest: Manifest) -> Iterator[str]:
    """Problems of the card's sentences that differ from the manifest."""
    card = (folder / CARD).read_text(encoding="utf-8")
    flowing = " ".join(card.split())
    notice = "**Built with embedded stand-ins**"
    stand_ins = [f"{notice} ({', '.join(manifest.embedded_providers)})"] if manifest.embedded_providers else []
    figures = [f"> * {name}: {' '.join(found.split())}" for name, found in manifest.embedded_recall.items()]
    expected = {
        "the version": f" Version {manifest.version} of an arena dataset",
        "the first or last day": f"raw logs of {manifest.first_day} to {manifest.last_day} under",
        "the policy": f"the policy `{manifest.policy['name']}` ({manifest.policy_hash})",
        "what was withheld": f" {manifest.counts['withheld_for_bench']:,} kept conversations are not in `chat`",
    }
    if contact := markdown_text(str(manifest.policy.get("contact") or "")):
        expected["the address for removals"] = f"Write to {contact} with"
    if line := unmeasured_line(manifest):
        expected["what was not measured"] = f"**Not measured**, and null: {line}."
    yield from (
        f"{CARD}: {what} is not what the manifest says"
        for what, line in expected.items()
        if unescape(" ".join(line.split())) not in unescape(flowing)
    )
    if flowing.count(notice) != len(stand_ins) or not all(each in flowing for each in [*stand_ins, *figures]):
        yield f"{CARD}: which stand-ins it was built with is not what the manifest says"
    try:
        about, _ = split_card(card)
    except ValueError:
        about = {}
    if (about.get("configs"), about.get("license")) != (
        data_files(manifest.counts),
        manifest.policy.get("licence") or "other",
    ):
        yield f"{CARD}: its front matter does not name the configurations, their files and the licence of the release"


def wrong_sections(release: Path, prompts: int, parts: Sequence[ReleasePart], layout: int = LAYOUT) -> Iterator[str]:
    """A problem for each section of the card whose rows or facts are not those of the files, or that no part has.

    `prompts`: those of `bench`. `layout`: that of the release, which may be too old to have a section.
    """
    expected, card = card_sections(release, prompts, parts), (release / CARD).read_text(encoding="utf-8")
    sections = [part.section for part in parts if part.section]
    for section in sections:
        too_old = layout < section.since_layout and section.title not in card
        if not too_old and _facts(_section(expected, section.title)) != _facts(_section(card, section.title)):
            yield f"{CARD}: its section about {section.about} is not what {section.files} says"
    known = {*_HEADING.findall(TEMPLATE.read_text(encoding="utf-8")), *(section.title for section in sections)}
    for title in dict.fromkeys(_HEADING.findall(card)):
        if title.rstrip() not in known:
            yield f"{CARD}: {title!r} is a section that nothing in the release says"


def _section(card: str, title: str) -> str:
    """From the title to the next one; empty without the section, and all of it for a card with several."""
    _, found, rest = card.partition(title)
    return rest.partition("\n## ")[0] if title not in rest else found + rest


def _facts(section: str) -> list[str]:
    """The rows of the tables, and every number and piece of code of the sentences; wording and escapes may change."""
    lines = unescape(section).splitlines()
    rows = [line for line in lines if line.startswith("| ")]
    return [*rows, *_FACT.findall(" ".join(line for line in lines if not line.startswith("|")))]
