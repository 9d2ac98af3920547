"""The card's section about items that people wrote, and the explorer's, from the files of the release alone."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from schemas.written import Split
from tasks.providers.embedded.phrases import root_phrases
from tasks.release.dataset_card import render_card
from tasks.release.registered import CardSection, RowsOf, ShownSection, path_in_release, read_table
from tasks.release.shards import shards
from tasks.runtime.untrusted import markdown_text
from tasks.storage.parquet import read_parquet_groups
from tasks.storage.queries.benches.item_figures import FamilyFigures, ItemFacts, asked_for, family_figures, pictured

_LISTED = 3
"""Phrases and objects in a cell."""


def written_section(release: Path, prompts: int) -> str:
    """The card's section, with an empty line at its end; empty without written items."""
    rows = read_table(release, "written")
    if rows is None:
        return ""
    asked, of_bench = dict(_instructions(release)), dict[str, list[ItemFacts]]()
    for row in rows.sort("bench", "question_id").iter_rows(named=True):
        of_bench.setdefault(row["bench"], []).append(_facts(row, asked.get(row["question_id"], "")))
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
    for shard in shards(release, "bench"):
        for group in read_parquet_groups(shard, ["question_id", "turns"]):
            for name, turns in group.iter_rows():
                yield name, "\n\n".join(turn["content"] for turn in turns if turn["role"] == "user")


def _facts(row: dict[str, Any], instruction: str) -> ItemFacts:
    return ItemFacts(
        row["family"], instruction, len(row["licences"]), row["split"] == Split.VALIDATION.value, row["captions"] or [],
        row["reference"], row["objects"],
    )  # fmt: skip


def _cells(items: list[ItemFacts]) -> Iterator[list[str]]:
    """One row of the table for all items and one for each family."""
    phrases, objects = asked_for(items, root_phrases), pictured(items)
    for each in family_figures(items):
        asked = [(f"{p.verb} {p.object}".strip(), p.items) for p in phrases if p.family == each.family and p.verb]
        shown = [(seen.object, seen.items) for seen in objects if seen.family == each.family and seen.object]
        yield [*_numbers(each), _listed(asked), _listed(shown)]


def _numbers(each: FamilyFigures) -> list[str]:
    counts = (each.items, each.images, each.validation, each.captioned, each.referenced)
    means = (each.instruction_words, each.caption_words, each.reference_words)
    shown = ("–" if mean is None else f"{mean:.1f}" for mean in means)
    return [markdown_text(each.family), *(f"{count:,}" for count in counts), *shown]


def _listed(found: Sequence[tuple[str, int]]) -> str:
    return ", ".join(f"{markdown_text(name)} {count:,}" for name, count in found[:_LISTED]) or "–"


WRITTEN_SECTION = CardSection("## Written items", "written items", path_in_release("written"), written_section)


def shown_item(rows_of: RowsOf) -> Iterator[ShownSection]:
    """A section with family, split and licences of the item; of hidden items no captions and no reference."""
    for row in rows_of("written"):
        facts = {
            "Benchmark": row["bench"], "Family": row["family"], "Split": row["split"],
            "Licences": ", ".join(filter(None, row["licences"])), "Authors": ", ".join(filter(None, row["authors"])),
            "Taken from": row["origin"], "Objects": ", ".join(row["objects"]),
        }  # fmt: skip
        told = row["split"] == Split.VALIDATION.value
        captions = enumerate(row["captions"] or [] if told else [], 1)
        texts = [(f"Caption of image {n}", f"by {row['captions_by']}", text) for n, text in captions]
        if told and row["reference"]:
            texts.append(("Reference", f"by {row['reference_by']}", row["reference"]))
        yield ShownSection("Written item", [pair for pair in facts.items() if pair[1]], texts)
