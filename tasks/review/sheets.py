"""Sheets (CSV) of the items of queues: written for people to fill in, and read back as verdicts.

Each line is one item. People write into `verdict` one of `choices`, or several where several may hold, and into
`reviewer` who they are. Filled-in sheets of earlier versions are read, too: their columns had other names.
"""

import csv
import io
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import chain, count
from pathlib import Path
from typing import NamedTuple

from schemas.benches.bench import CaseReference
from schemas.errors import BadInput, known_values, why_unreadable
from schemas.items.review import Review, ShownText, Waiting
from tasks.review_queue import NONE, Listed, ReviewQueue, SheetLine, review_of, verdict_of
from tasks.runtime.untrusted import CELL_CHARACTERS_MAX, csv_delimiter, csv_text, one_line
from tasks.storage.content_id import ID_DIGITS
from tasks.storage.queries.signals import StoredImages
from tasks.storage.tables import Store

BEFORE = ("queue", "item", "content_id", "reasons", "asked", "images")
AFTER = ("choices", "verdict", "reviewer")
_EARLIER = {
    "item": ("item_id", "document_id", "conversation_id"),
    "content_id": ("reference_id",),
    "verdict": ("label",),
    "reviewer": ("rater",),
}
"""Column -> its names in sheets of earlier versions."""


def write_sheet(store: Store, queues: Sequence[ReviewQueue], folder: Path, unmasked: bool = False) -> tuple[int, int]:
    """Write `sheet.csv` and the images it names into a folder; returns how many lines and images these are.

    `unmasked`: personal data that is asked about stands in its text, and images are written that may show a person.
    Raises BadInput when the folder has a sheet already, or an image is lost.
    """
    file = folder / "sheet.csv"
    if file.exists():
        raise BadInput(f"{str(file)!r} exists, and may be filled in; give another folder as --out")
    lines, image_ids = _lines(store, queues, unmasked)
    names = _write_images(store, image_ids, folder / "images")
    for line in lines:
        line["images"] = " ".join(names[image_id] for image_id in line["images"].split())
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(_csv(lines), encoding="utf-8")
    return len(lines), len(names)


def sheet_csv(store: Store, queues: Sequence[ReviewQueue], unmasked: bool = False) -> str:
    """The sheet alone; its column `images` has their ids."""
    return _csv(_lines(store, queues, unmasked)[0])


def _lines(store: Store, queues: Sequence[ReviewQueue], unmasked: bool) -> tuple[list[dict[str, str]], set[str]]:
    """The lines of a sheet, whose `images` are ids, and these ids; nothing of what is quarantined."""
    lines, image_ids = list[dict[str, str]](), set[str]()
    quarantined = set(store.read("quarantine", ["key"])["key"])
    for queue in queues:
        items = [item for item in queue.selected(store) if item.conversation_id not in quarantined]
        listed = queue.listed(store, items)
        for item in items:
            beside = listed.get(item.item_id, Listed())
            images = [*beside.image_ids, *(item.image_ids if unmasked else ())]
            image_ids |= {*images}
            texts = _columns((*beside.texts, *item.texts), unmasked)
            names = [choice.verdict for choice in queue.choices]
            choices = " ".join([*names, f"or {NONE}"]) if queue.many else " | ".join(names)
            about = (queue.name, queue.sheet_name(item), item.content_id, " ".join(item.reasons), item.question)
            before = zip(BEFORE, (*about, " ".join(images)), strict=True)
            cells = {**dict(before), **texts, **dict(zip(AFTER, (choices, "", ""), strict=True))}
            lines.append({name: csv_text(text, CELL_CHARACTERS_MAX) for name, text in cells.items()})
    return lines, image_ids


def _columns(texts: Iterable[ShownText], unmasked: bool) -> dict[str, str]:
    """Column -> text, in their order. Of equal headings the second gets a number, such as `answer_2`."""
    columns = dict[str, str]()
    for text in texts:
        heading = text.heading.lower().replace(" ", "_")
        names = chain([heading], (f"{heading}_{number}" for number in count(2)))
        column = next(name for name in names if name not in {*BEFORE, *columns, *AFTER})
        columns[column] = _text(text, unmasked)
    return columns


def _text(text: ShownText, unmasked: bool) -> str:
    """The whole text; what is asked about stands between ⟦ ⟧, by its type alone unless it is to be unmasked."""
    return "".join(
        f"⟦{stretch.text if unmasked else stretch.hidden}⟧" if stretch.hidden else stretch.text
        for stretch in text.stretches
    )


def _csv(lines: Sequence[Mapping[str, str]]) -> str:
    # The columns that only some queues write, in the order of their first line.
    between = dict.fromkeys(name for line in lines for name in line if name not in (*BEFORE, *AFTER))
    sink = io.StringIO()
    writer = csv.DictWriter(sink, [*BEFORE, *between, *AFTER], restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return sink.getvalue()


def _write_images(store: Store, image_ids: Collection[str], folder: Path) -> Mapping[str, str]:
    """Image id -> its file's name."""
    if not image_ids:
        return {}
    stored, names = StoredImages(store, "images", "redacted_images"), dict[str, str]()
    if lost := sorted(set(image_ids) - stored.part_of.keys()):
        raise BadInput(f"image {lost[0]!r} of an item is lost; put the store's copy back, or decide again")
    folder.mkdir(parents=True, exist_ok=True)
    for image_id in stored.ordered(image_ids):
        image = stored[image_id]
        names[image_id] = f"{image_id}.{'png' if image.format == 'png' else 'jpg'}"
        (folder / names[image_id]).write_bytes(image.bytes)
    return names


class Filled(NamedTuple):
    """Verdicts of filled-in sheets."""

    reviews: Sequence[Review]
    """The verdicts, not yet stored."""
    open: int
    """Lines without a verdict."""
    elsewhere: Sequence[str]
    """Lines (file and number) whose item is not in the store, or not any more."""
    references: Sequence[CaseReference] = ()
    """References of failures that people wrote, not yet stored."""


def read_sheets(
    store: Store, queues: Sequence[ReviewQueue], files: Sequence[Path], reviewer: str, now: datetime
) -> Filled:
    """The verdicts of filled-in sheets; `reviewer` gave those that name nobody.

    `queues`: at least one; lines that name none are of the first. A verdict is about the content and the reasons that
    its line has. Raises BadInput for a line that cannot be used, and when no item is in the store.
    """
    lines = [line for file in files for line in _read(store, file, queues, reviewer)]
    names = {queue.name: {line.cells["item"] for line in lines if line.queue is queue} for queue in queues}
    items = {queue.name: _by_name(queue, store, names[queue.name]) for queue in queues}
    reviews, elsewhere, seen = list[Review](), list[str](), dict[tuple[str, ...], str]()
    filled_in = [line for line in lines if line.cells["verdict"]]
    for line in filled_in:
        item, verdict = items[line.queue.name].get(line.cells["item"]), _verdict(line)
        if item is None:
            elsewhere.append(line.where)
            continue
        # the item with the content and the reasons of its line
        cells = line.cells
        content = cells.get("content_id", item.content_id)
        if len(content) != len(item.content_id or "0" * ID_DIGITS):
            raise BadInput(f"{line.where}: content_id was changed; leave that column as it was written")
        # Reasons are sorted (`Waiting.reasons`), so whatever the order in the cell, pages know the verdict as theirs.
        reasons = tuple(sorted(cells["reasons"].split())) if "reasons" in cells else item.reasons
        reviewed_item = item._replace(content_id=content, reasons=reasons)
        key = (line.queue.name, reviewed_item.item_id, line.reviewer, *reviewed_item.reasons)
        if key in seen:
            raise BadInput(f"{line.where}: {one_line(line.reviewer, 40)!r} has this item in {seen[key]}; keep one")
        seen[key] = line.where
        reviews.append(review_of(line.queue, reviewed_item, verdict, line.queue.rater(store, line.reviewer), now))
    # what people wrote beside their verdicts, queue by queue
    references = [
        reference
        for queue in queues
        for reference in queue.written(
            store, [SheetLine(line.where, line.cells) for line in lines if line.queue is queue], now
        )
    ]
    if elsewhere and not reviews and not references:
        raise BadInput(f"{elsewhere[0]}: this item is not in store {store.root!r}, nor is any other of the sheet")
    return Filled(reviews, len(lines) - len(filled_in), elsewhere, references)


def read_rows(file: Path, needed: Sequence[str]) -> list[tuple[str, dict[str, str]]]:
    """(file and line, cells without spaces around them) of a CSV file. Raises BadInput for one that is none."""
    try:
        text = io.StringIO(file.read_text(encoding="utf-8-sig"), newline="")
        reader = csv.DictReader(text, delimiter=csv_delimiter(file))
        rows = [(reader.line_num, row) for row in reader]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise BadInput(f"sheet {str(file)!r} cannot be read ({why_unreadable(error)})") from None
    columns = reader.fieldnames or ()
    if lacking := [name for name in needed if not {name, *_EARLIER.get(name, ())} & {*columns}]:
        raise BadInput(f"sheet {str(file)!r}, line 1: lacks the column {', '.join(lacking)}; see `curate review out`")
    located_rows = []
    for number, row in rows:
        where = f"sheet {str(file)!r}, line {number}"
        if None in row or None in row.values():
            raise BadInput(f"{where}: has not as many cells as line 1")
        located_rows.append((where, {name: text.strip() for name, text in row.items()}))
    return located_rows


class _Line(NamedTuple):
    where: str
    """File and number."""
    cells: dict[str, str]
    """Column -> text, with today's names of columns and a verdict, which is empty where nobody gave one."""
    queue: ReviewQueue
    reviewer: str
    """Empty where nobody is named and nobody needs to be."""


def _read(store: Store, file: Path, queues: Sequence[ReviewQueue], reviewer: str) -> Iterator[_Line]:
    queues_by_name = {queue.name: queue for queue in queues}
    rows = [(where, _with_names_of_today(cells)) for where, cells in read_rows(file, ("item",))]
    sheet = [cells for _, cells in rows]
    for where, cells in rows:
        name = cells.get("queue", queues[0].name)
        if name not in queues_by_name:
            raise BadInput(f"{where}: queue {known_values(one_line(name, 40), queues_by_name)}")
        queue = queues_by_name[name]
        if "verdict" not in cells:
            # the cells that a line of an earlier version's sheet stands for
            try:
                earlier_cells = queue.earlier(store, cells, sheet)
            except BadInput as error:
                raise BadInput(f"{where}: {error}") from None
            if not earlier_cells:
                raise BadInput(f"{where}: the sheet lacks the column verdict; see `curate review out`")
            cells = {**cells, **earlier_cells}  # a copy: `sheet` stays as people wrote it
        who = one_line(cells.get("reviewer", "")) or reviewer or (file.stem if queue.named_by_file else "")
        if queue.needs_rater and cells["verdict"] and not who:
            raise BadInput(f"{where}: no reviewer; write who filled the line in, or give --reviewer: any name will do")
        yield _Line(where, cells, queue, who)


def _with_names_of_today(cells: Mapping[str, str]) -> dict[str, str]:
    """The cells, also under today's names of their columns."""
    named = dict(cells)
    for name, others in _EARLIER.items():
        earlier_names = [other for other in others if other in cells]
        if name not in cells and earlier_names:
            named[name] = cells[earlier_names[0]]
    return named


def _by_name(queue: ReviewQueue, store: Store, names: Collection[str]) -> dict[str, Waiting]:
    """Name on a sheet, as a cell has it -> item."""
    if not names:
        return {}
    cell_names = {*names, *(name.removeprefix("'") for name in names)}  # a cell that looked like a formula
    named = {queue.sheet_name(item): item for item in queue.waiting(store, cell_names)}
    return {csv_text(name, CELL_CHARACTERS_MAX): item for name, item in named.items()} | named


def _verdict(line: _Line) -> str:
    """The verdict of a cell, in any case; words that are apart where several may hold."""
    queue = line.queue
    names = {choice.verdict.lower(): choice.verdict for choice in queue.choices}
    flat = " ".join(line.cells["verdict"].lower().replace(",", " ").split())
    words = [] if queue.many and flat == NONE else flat.split() if queue.many else [flat]
    try:
        return verdict_of(queue, [names.get(word, word) for word in words])
    except BadInput as error:
        raise BadInput(f"{line.where}: {error}") from None
