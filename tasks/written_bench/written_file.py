"""`written/items.parquet`: one row for each released prompt that people wrote, or that has captions.

Captions and references are there only of the validation split, and only if the text finder measured every one of them
and found nothing that the policy drops. Those of the embedded stand-in are never released.
"""

import re
import sys
from collections.abc import Collection, Iterator, Sequence
from html import unescape
from pathlib import Path

import polars as pl

from schemas.benches.judging import STAND_IN
from schemas.benches.written import PEOPLE, SAMPLED, Split
from schemas.policy import Policy
from schemas.release import ReleasedItem
from tasks.bench.contamination.prompt_index import PromptIndex
from tasks.providers.embedded.texts import root_phrases
from tasks.release.contents import forbidden_data, sound_items, wrong_identifiers, wrong_texts
from tasks.release.dataset_card import render_card
from tasks.release.registered import (
    CardSection,
    OpenRelease,
    ReleasePart,
    RowsOf,
    ShownSection,
    Stated,
    Unsealed,
    changed_items,
    path_in_release,
    read_released,
    write_table,
)
from tasks.release.shards import released_prompts, shard_files
from tasks.runtime.untrusted import markdown_text
from tasks.storage.content_id import text_id
from tasks.storage.parquet import read_parquet_groups, read_parquet_schema
from tasks.storage.queries.signals import Versions, signal_values
from tasks.storage.tables import Store, frame_of
from tasks.written_bench.figures import (
    ItemFacts,
    asked_for,
    family_figures,
    in_images,
    objects_of_images,
    pictured,
)
from tasks.written_bench.written_items import (
    ItemForJudging,
    hidden_texts,
    items_for_judging,
    providers_of,
    validation_texts,
)

WRITTEN_TABLE = "written"
ITEMS = path_in_release(WRITTEN_TABLE)


def write_item_table(unsealed: Unsealed) -> Stated:
    """Write the file, if the release has such a prompt."""
    released = set(released_prompts(unsealed.folder))
    rows = _rows(unsealed.store, unsealed.versions, forbidden_data(unsealed.policy))
    if chosen := sorted((row for row in rows if row.question_id in released), key=lambda row: row.question_id):
        write_table(unsealed.folder, WRITTEN_TABLE, frame_of(ReleasedItem, chosen))
    return Stated()


def _rows(store: Store, versions: Versions, forbidden: Collection[str]) -> Iterator[ReleasedItem]:
    members = {row["item_id"]: row for row in store.read("bench_items").iter_rows(named=True)}
    # ids of texts that were measured, without personal data of a forbidden type and without what a moderator flags
    personal = signal_values(store, "text_pii", versions["text_pii"], ["types"])
    free = personal.filter(pl.col("types").list.set_intersection(list(forbidden)).list.len() == 0)["content_id"]
    harmful = signal_values(store, "moderation", versions["moderation"], ["flagged_categories"])
    unflagged = harmful.filter(pl.col("flagged_categories").list.len() == 0)["content_id"]
    clean = (set(free) & set(unflagged)) - _holding_hidden(store)
    seen = objects_of_images(store, released=True)
    for bench in (SAMPLED, *sorted({row["bench"] for row in members.values()})):
        items = items_for_judging(store, bench)
        authors = {table: providers_of(store, table, items) for table in ("captions", "references")}
        for item in items:
            if bench != SAMPLED or (item.captions and item.item_id not in members):
                row = _row(item, bench, members.get(item.item_id, {}), authors, clean)
                yield row.model_copy(update={"objects": in_images(seen, item.image_ids)})


def _row(
    item: ItemForJudging, bench: str, member: dict[str, list[str] | str],
    authors: dict[str, dict[str, dict[int, str]]], clean: set[str],
) -> ReleasedItem:  # fmt: skip
    caption_authors, reference_authors = (set(by_item.get(item.item_id, {}).values()) for by_item in authors.values())
    texts = [text_id(text) for text in (*item.captions, item.reference or "") if text]
    is_shown = (
        item.split is Split.VALIDATION
        and STAND_IN not in caption_authors | reference_authors
        and clean.issuperset(texts)
    )
    captions, reference = (item.captions or None, item.reference) if is_shown else (None, None)
    nothing = [""] * len(item.image_ids)
    return ReleasedItem(
        question_id=item.item_id, bench=bench, family=item.family, split=item.split,
        licences=list(member.get("licences", nothing)), authors=list(member.get("authors", nothing)),
        origin=str(member.get("origin", "")), captions=captions,
        captions_by=_named(caption_authors) if captions else None, reference=reference,
        reference_by=_named(reference_authors) if reference else None, objects=[],
    )  # fmt: skip


def _named(providers: set[str]) -> str:
    """The models, if some texts of the item are a model's; else `people`."""
    return ", ".join(sorted(providers - {PEOPLE})) or PEOPLE


def wrong_items(release: OpenRelease) -> Iterator[str]:
    """Problems of the file: unknown prompts, hidden captions or references, identifiers and personal data."""
    rows, problems = sound_items(release.folder, WRITTEN_TABLE)
    yield from problems
    if rows is not None:
        has_texts = pl.col("captions").is_not_null() | pl.col("reference").is_not_null()
        by = pl.concat_str("captions_by", "reference_by", separator=", ", ignore_nulls=True)
        for name in rows.filter(by.str.split(", ").list.contains(STAND_IN))["question_id"]:
            yield f"{ITEMS}: {name!r} has captions or a reference of the stand-in"
        for name in rows.filter(has_texts & (pl.col("split") != Split.VALIDATION.value))["question_id"]:
            yield f"{ITEMS}: {name!r} is not of the validation split and has captions or a reference"
        lists = [rows[name].explode() for name in ("licences", "authors", "captions", "objects")]
        texts = pl.concat([*lists, rows["origin"], rows["reference"]]).drop_nulls().unique(maintain_order=True)
        yield from wrong_identifiers(ITEMS, texts)
        written = pl.concat([rows["captions"].explode(), rows["reference"]])
        forbidden = forbidden_data(Policy.model_validate(release.manifest.policy))
        yield from wrong_texts(ITEMS, written, forbidden, "a caption or reference")
    yield from hidden_captions(release.folder, release.store)


_WITH_TEXT = (".parquet", ".md", ".csv", ".html", ".json", ".jsonl", ".yaml")
_ALL = 1.0
"""Share of a text's runs of four words that must stand in a released text: the whole of it.

Less would find the words that a caption of the validation split and one of the hidden split about like images share.
"""
_ESCAPED = re.compile(r"\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|x([0-9a-fA-F]{2})|([nrtbf ])|([\"'/\\])|\n\s*)")
"""Character as JSON, scripts and YAML escape it: by its number (groups 1 to 3), a blank (4), itself (5), or nothing."""
_TIMES_ESCAPED = 2
"""Escapes that are undone: those of a JSON text inside a text of JSON, too."""


def _holding_hidden(store: Store) -> set[str]:
    """Ids of the texts of the validation split in which `hidden_captions` would find a hidden one."""
    hidden = hidden_texts(store)["text"]
    if hidden.is_empty():
        return set()
    texts = pl.Series(validation_texts(store), dtype=pl.String)
    rows = PromptIndex(hidden, _ALL).find_distinctive(texts)["row"].unique()
    return {text_id(text) for text in texts.gather(rows)}


def hidden_captions(folder: Path, store: Store | None) -> Iterator[str]:
    """Released texts with the whole of a caption or reference that never leaves the store.

    Such as a judge's reasons; those that quote all but a word pass, as do those of fewer than 13 words, which everybody
    may have written. Looked for in data, card, report and tables.
    """
    secret = hidden_texts(store)["text"] if store else pl.Series(dtype=pl.String)
    if secret.is_empty():
        return
    index = PromptIndex(secret, _ALL)
    for file in sorted(path for path in folder.rglob("*") if path.suffix in _WITH_TEXT):
        if any(index.find_distinctive(texts).height for texts in _texts(file)):
            yield f"{file.relative_to(folder).as_posix()}: holds a caption or reference of the hidden split"


def _texts(file: Path) -> Iterator[pl.Series]:
    """All texts of a file, one series for each row group; not what users asked, which is public.

    A file of another kind is one text, with what HTML has escaped written out, and the same with other escapes undone.
    """
    if file.suffix != ".parquet":
        forms = [unescape(file.read_text(encoding="utf-8", errors="replace"))]
        while len(forms) <= _TIMES_ESCAPED and (plain := _written_out(forms[-1])) != forms[-1]:
            forms.append(plain)
        yield from (pl.Series([text]) for text in forms)
        return
    names = [field.name for field in read_parquet_schema(file) if field.name != "images"]
    for group in read_parquet_groups(file, names):
        columns = [column for name in names for column in _strings(group[name])]
        yield pl.concat([pl.Series([], dtype=pl.String), *columns]).drop_nulls()


def _written_out(text: str) -> str:
    """The text with each escaped character in its place, once."""
    plain = _ESCAPED.sub(_character, text)
    return plain.encode("utf-16", "surrogatepass").decode("utf-16", "replace")  # halves of characters joined


def _character(escape: re.Match[str]) -> str:
    if number := escape[1] or escape[2] or escape[3]:
        return chr(min(int(number, 16), sys.maxunicode))
    return " " if escape[4] else escape[5] or ""


def _strings(column: pl.Series) -> Iterator[pl.Series]:
    if column.dtype == pl.String:
        yield column.alias("")
    elif isinstance(column.dtype, pl.List):
        yield from _strings(column.explode())
    elif isinstance(column.dtype, pl.Struct):
        if {"role", "content"} <= {*column.struct.fields}:
            # One element is one message that is not a user's: what users asked is public.
            column = column.struct.unnest().filter(pl.col("role") != "user").select("content").to_struct()
        for name in column.struct.fields:
            yield from _strings(column.struct.field(name))


_LISTED = 3
"""Phrases and objects in a cell."""


def written_section(release: Path, prompts: int) -> str:
    """The card's section, with an empty line at its end; empty without written items."""
    rows = read_released(release, "written")
    if rows is None:
        return ""
    instructions, of_bench = dict(_instructions(release)), dict[str, list[ItemFacts]]()
    for row in rows.sort("bench", "question_id").iter_rows(named=True):
        of_bench.setdefault(row["bench"], []).append(ItemFacts(
            row["family"], instructions.get(row["question_id"], ""), len(row["licences"]),
            row["split"] == Split.VALIDATION.value, row["captions"] or [], row["reference"], row["objects"],
        ))  # fmt: skip
    every = [item for items in of_bench.values() for item in items]
    return render_card(
        Path(__file__).with_suffix(".md"),
        items=len(every),
        validation=sum(item.validation for item in every),
        told=sum(bool(item.captions or item.reference) for item in every),
        seen=any(item.objects for item in every),
        benches={markdown_text(bench): list(_cells(items)) for bench, items in of_bench.items()},
    )


def _instructions(release: Path) -> Iterator[tuple[str, str]]:
    """Prompt of `bench` -> its user's messages, joined by blank lines."""
    for shard in shard_files(release, "bench"):
        for group in read_parquet_groups(shard, ["question_id", "turns"]):
            for name, turns in group.iter_rows():
                yield name, "\n\n".join(turn["content"] for turn in turns if turn["role"] == "user")


def _cells(items: list[ItemFacts]) -> Iterator[list[str]]:
    """One row of the table for all items and one for each family."""
    phrases, objects = asked_for(items, root_phrases), pictured(items)
    for figures in family_figures(items):
        phrase_counts = [
            (f"{p.verb} {p.object}".strip(), p.items) for p in phrases if p.family == figures.family and p.verb
        ]
        object_counts = [(seen.object, seen.items) for seen in objects if seen.family == figures.family and seen.object]
        counts = (figures.items, figures.images, figures.validation, figures.captioned, figures.referenced)
        means = (figures.instruction_words, figures.caption_words, figures.reference_words)
        numbers = [*(f"{count:,}" for count in counts), *("–" if mean is None else f"{mean:.1f}" for mean in means)]
        yield [markdown_text(figures.family), *numbers, _listed(phrase_counts), _listed(object_counts)]


def _listed(counts: Sequence[tuple[str, int]]) -> str:
    return ", ".join(f"{markdown_text(name)} {count:,}" for name, count in counts[:_LISTED]) or "–"


WRITTEN_SECTION = CardSection("## Written items", "written items", path_in_release("written"), written_section)


def shown_item(rows_of: RowsOf) -> Iterator[ShownSection]:
    """A section with family, split and licences of the item; of hidden items no captions and no reference."""
    for row in rows_of("written"):
        facts = {
            "Benchmark": row["bench"], "Family": row["family"], "Split": row["split"],
            "Licences": ", ".join(filter(None, row["licences"])), "Authors": ", ".join(filter(None, row["authors"])),
            "Taken from": row["origin"], "Objects": ", ".join(row["objects"]),
        }  # fmt: skip
        is_validation = row["split"] == Split.VALIDATION.value
        captions = enumerate(row["captions"] or [] if is_validation else [], 1)
        texts = [(f"Caption of image {n}", f"by {row['captions_by']}", text) for n, text in captions]
        if is_validation and row["reference"]:
            texts.append(("Reference", f"by {row['reference_by']}", row["reference"]))
        yield ShownSection("Written item", [pair for pair in facts.items() if pair[1]], texts)


WRITTEN_ITEMS = ReleasePart(
    (WRITTEN_TABLE,),
    write_item_table,
    wrong_items,
    changed=lambda old, new: changed_items(
        old, new, WRITTEN_TABLE, ("written items", "captions, reference or description")
    ),
    section=WRITTEN_SECTION,
    shown=shown_item,
)
