"""`written/items.parquet`: one row for each released prompt that people wrote, or that has captions.

Captions and references are there only of the validation split, and only if the text finder measured every one of them
and found nothing that the policy drops. Those of the embedded stand-in are never released.
"""

from collections.abc import Collection, Iterator
from pathlib import Path

import polars as pl

from schemas.judging import STAND_IN
from schemas.policy import Action, Over, Policy
from schemas.release import ReleasedItem
from schemas.row import arrow_schema
from schemas.written import PEOPLE, SAMPLED, Split
from tasks.bench.written.figures import in_images, objects_of_images
from tasks.bench.written.written_items import ItemForJudging, items_for_judging, providers_of
from tasks.providers.embedded.pii.patterns import PATTERNS, find_patterns
from tasks.providers.embedded.pii.text_pii import without_overlaps
from tasks.release.declared import READ_ERRORS, sound_groups
from tasks.release.identifiers import identifiers_in
from tasks.release.leaks import hidden_distinctive
from tasks.release.shards import shards
from tasks.storage.content_id import text_id
from tasks.storage.parquet import conform, parquet_writer, read_parquet_groups
from tasks.storage.queries.signals import Versions, signal_values
from tasks.storage.tables import Store, frame_of

ITEMS = "written/items.parquet"
"""Path in a release."""


def write_items_file(store: Store, staging: Path, versions: Versions, forbidden: Collection[str]) -> int:
    """Write the file, if the release has such a prompt; returns its rows. `forbidden`: types of personal data."""
    released = set(released_prompts(staging))
    rows = [row for row in _rows(store, versions, forbidden) if row.question_id in released]
    if not rows:
        return 0
    rows.sort(key=lambda row: row.question_id)
    target, schema = staging / ITEMS, arrow_schema(ReleasedItem)
    target.parent.mkdir(parents=True, exist_ok=True)
    with parquet_writer(target, schema) as file:
        file.write(conform(frame_of(ReleasedItem, rows), schema))
    return len(rows)


def forbidden_data(policy: Policy) -> frozenset[str]:
    """Types of personal data in messages that a policy drops or redacts."""
    found: set[str] = set()
    for rule in policy.rules:
        stops = rule.action in (Action.DROP, Action.REDACT)
        if stops and (rule.signal, rule.over) == ("text_pii.types", Over.MESSAGES):
            found |= set(rule.contains_any or (pattern.type for pattern in PATTERNS))
    return frozenset(found)


def released_prompts(folder: Path) -> Iterator[str]:
    """Ids of the prompts of `bench` in a folder of a release."""
    for shard in shards(folder, "bench"):
        for group in read_parquet_groups(shard, ["question_id"]):
            yield from group["question_id"]


def _rows(store: Store, versions: Versions, forbidden: Collection[str]) -> Iterator[ReleasedItem]:
    members = {row["item_id"]: row for row in store.read("bench_items").iter_rows(named=True)}
    clean = _clean_texts(store, versions, forbidden) - {text_id(text) for text in hidden_distinctive(store)}
    seen = objects_of_images(store, released=True)
    for bench in (SAMPLED, *sorted({row["bench"] for row in members.values()})):
        items = items_for_judging(store, bench)
        authors = {table: providers_of(store, table, items) for table in ("captions", "references")}
        for item in items:
            if bench != SAMPLED or (item.captions and item.item_id not in members):
                row = _row(item, bench, members.get(item.item_id, {}), authors, clean)
                yield row.model_copy(update={"objects": in_images(seen, item.image_ids)})


def _row(
    item: ItemForJudging,
    bench: str,
    member: dict[str, list[str] | str],
    authors: dict[str, dict[str, dict[int, str]]],
    clean: set[str],
) -> ReleasedItem:
    by, of = (set(found.get(item.item_id, {}).values()) for found in authors.values())
    texts = [text_id(text) for text in (*item.captions, item.reference or "") if text]
    shown = item.split is Split.VALIDATION and STAND_IN not in by | of and clean.issuperset(texts)
    captions, reference = (item.captions or None, item.reference) if shown else (None, None)
    nothing = [""] * len(item.image_ids)
    return ReleasedItem(
        question_id=item.item_id, bench=bench, family=item.family, split=item.split,
        licences=list(member.get("licences", nothing)), authors=list(member.get("authors", nothing)),
        origin=str(member.get("origin", "")), captions=captions, captions_by=_named(by) if captions else None,
        reference=reference, reference_by=_named(of) if reference else None, objects=[],
    )  # fmt: skip


def _named(providers: set[str]) -> str:
    """The models, if some texts of the item are a model's; else `people`."""
    return ", ".join(sorted(providers - {PEOPLE})) or PEOPLE


def _clean_texts(store: Store, versions: Versions, forbidden: Collection[str]) -> set[str]:
    """Ids of texts that were measured, without personal data of a forbidden type and without what a moderator flags."""
    personal = signal_values(store, "text_pii", versions["text_pii"], ["types"])
    free = personal.filter(pl.col("types").list.set_intersection(list(forbidden)).list.len() == 0)["content_id"]
    harmful = signal_values(store, "moderation", versions["moderation"], ["flagged_categories"])
    unflagged = harmful.filter(pl.col("flagged_categories").list.len() == 0)["content_id"]
    return set(free) & set(unflagged)


def wrong_items(folder: Path, forbidden: frozenset[str]) -> Iterator[str]:
    """Problems of the file: unknown prompts, hidden captions or references, identifiers and personal data."""
    if not (folder / ITEMS).is_file():
        return
    try:
        rows = pl.concat(sound_groups(folder / ITEMS))
    except READ_ERRORS as error:
        yield f"{ITEMS}: its pages cannot be read ({type(error).__name__})"
        return
    known = pl.Series(list(released_prompts(folder)), dtype=pl.String)
    for name in rows.filter(~pl.col("question_id").is_in(known.implode()))["question_id"]:
        yield f"{ITEMS}: {name!r} is no prompt of the benchmark"
    if rows["question_id"].is_duplicated().any():
        yield f"{ITEMS}: a prompt is there more than once"
    told = pl.col("captions").is_not_null() | pl.col("reference").is_not_null()
    by = pl.concat_str("captions_by", "reference_by", separator=", ", ignore_nulls=True)
    for name in rows.filter(by.str.split(", ").list.contains(STAND_IN))["question_id"]:
        yield f"{ITEMS}: {name!r} has captions or a reference of the stand-in"
    for name in rows.filter(told & (pl.col("split") != Split.VALIDATION.value))["question_id"]:
        yield f"{ITEMS}: {name!r} is not of the validation split and has captions or a reference"
    lists = [rows[name].explode() for name in ("licences", "authors", "captions", "objects")]
    texts = pl.concat([*lists, rows["origin"], rows["reference"]]).drop_nulls().unique(maintain_order=True)
    for found in identifiers_in(texts).values():
        yield f"{ITEMS}: a text holds an identifier: {', '.join(sorted(found))}"
    for text in pl.concat([rows["captions"].explode(), rows["reference"]]).drop_nulls():
        if kinds := {span.type for span in without_overlaps(find_patterns(text))} & forbidden:
            yield f"{ITEMS}: a caption or reference holds personal data: {', '.join(sorted(kinds))}"


def changed_items(old: Path, new: Path) -> Iterator[str]:
    """One sentence when items of both releases differ; nothing when a release has none."""
    if not ((old / ITEMS).is_file() and (new / ITEMS).is_file()):
        return
    before, after = (pl.concat(read_parquet_groups(folder / ITEMS)) for folder in (old, new))
    both = after.join(before, on="question_id", how="semi")
    same = both.join(before, on=before.columns, how="semi", nulls_equal=True).height
    if both.height > same:
        yield f"written items: {both.height - same:,} of both releases differ in captions, reference or description"
