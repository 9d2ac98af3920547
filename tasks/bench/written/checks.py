"""Sheets on which people verify items: written with the images, filled in, and read back into `reviews`.

A finding holds for the reference that its rater saw. Raters who miss too many items with known answers are left out.
"""

import csv
import io
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path

from schemas.errors import BadInput, known_values, why_unreadable
from schemas.written import Fault, ItemCheck
from tasks.bench.written.findings import review_of_check
from tasks.bench.written.written_items import ItemForJudging, item_members, items_for_judging
from tasks.runtime.untrusted import csv_text, one_line
from tasks.storage.content_id import text_id
from tasks.storage.keyed_ids import Pseudonyms, store_key
from tasks.storage.queries.images import StoredImages
from tasks.storage.reviews import add_reviews
from tasks.storage.tables import Store

SHOWN = ("item", "images", "instruction", "captions", "reference", "reference_id")
FILLED_IN = ("rater", "correct", "fault", "harmful")
CELL_CHARACTERS_MAX = 32_000
"""Spreadsheets cut cells off at 32,767 characters."""
_YES = {"yes": True, "y": True, "true": True, "1": True, "no": False, "n": False, "false": False, "0": False}
_ID_DIGITS = 32


def write_sheet(store: Store, bench: str, folder: Path) -> int:
    """Write `sheet.csv` and the images it names into a folder; returns the items on it: kept ones with a reference.

    Raises BadInput when the folder has a sheet already, or an image is lost.
    """
    file = folder / "sheet.csv"
    if file.exists():
        raise BadInput(f"{str(file)!r} exists, and may be filled in; give another folder as --out")
    items = [item for item in items_for_judging(store, bench) if item.reference is not None]
    names = _write_images(store, items, folder / "images")
    sink = io.StringIO()
    writer = csv.DictWriter(sink, (*SHOWN, *FILLED_IN), lineterminator="\n")
    writer.writeheader()
    writer.writerows(_line(item, names) for item in items)
    file.write_text(sink.getvalue(), encoding="utf-8")
    return len(items)


def _write_images(store: Store, items: Sequence[ItemForJudging], folder: Path) -> Mapping[str, str]:
    """Image id -> its file name."""
    stored, names = StoredImages(store, "images", "redacted_images"), dict[str, str]()
    wanted = {image_id for item in items for image_id in item.image_ids}
    if lost := sorted(wanted - stored.part_of.keys()):
        raise BadInput(f"image {lost[0]!r} of an item is lost; put the store's copy back, or decide again")
    folder.mkdir(parents=True, exist_ok=True)
    for image_id in stored.ordered(wanted):
        image = stored[image_id]
        names[image_id] = f"{image_id}.{'png' if image.format == 'png' else 'jpg'}"
        (folder / names[image_id]).write_bytes(image.bytes)
    return names


def _line(item: ItemForJudging, names: Mapping[str, str]) -> dict[str, str]:
    numbered = len(item.captions) > 1
    captions = [f"{n}. {text}" if numbered else text for n, text in enumerate(item.captions, 1)]
    texts = (item.instruction, "\n".join(captions), item.reference or "")
    cells = (csv_text(text, CELL_CHARACTERS_MAX) for text in texts)
    shown = (item.item_id, " ".join(names[each] for each in item.image_ids), *cells, text_id(item.reference or ""))
    return dict(zip(SHOWN, shown, strict=True)) | dict.fromkeys(FILLED_IN, "")


def take_findings(
    store: Store, bench: str, file: Path, known: Mapping[str, bool], qualified_min: float, now: datetime
) -> str:
    """Add the findings of a filled-in sheet; a rater's later finding on an item replaces the earlier one.

    Returns a line of counts. `known`: item -> whether it is correct; raters with a smaller share of these right than
    `qualified_min`, or none of them, are left out. Raises BadInput, with nothing added, for a line that cannot be used.
    """
    items = set(item_members(store, bench)["item_id"])
    rows = _read(file, items)
    people = Pseudonyms(store_key(store))
    left_out = _unqualified(rows, known, qualified_min) if known else set()
    checks = [_check(row, str(people.user_id(row["rater"]))) for row in rows if row["rater"] not in left_out]
    add_reviews(store, [review_of_check(check, now) for check in checks])
    raters = len({row["rater"] for row in rows} - left_out)
    unqualified = f", {len(left_out)} raters left out" if known else ""
    checked = len({check.item_id for check in checks})
    return f"{len(checks):,} findings of {raters} raters on {checked:,} items{unqualified}"


def read_qualification(file: Path) -> dict[str, bool]:
    """Item -> whether it is correct. Raises BadInput for a file without such rows."""
    found = {}
    for number, row in _lines(file, ("item", "correct")):
        found[row["item"]] = _truth(row, "correct", f"{file.name!r}, line {number}")
    if not found:
        raise BadInput(f"{file.name!r} holds no item; give items and whether they are correct")
    return found


def _unqualified(rows: Sequence[Mapping[str, str]], known: Mapping[str, bool], least: float) -> set[str]:
    right: dict[str, list[bool]] = {row["rater"]: [] for row in rows}
    for row in rows:
        if row["item"] in known:
            right[row["rater"]].append(_YES[row["correct"]] == known[row["item"]])
    return {rater for rater, tasks in right.items() if not tasks or sum(tasks) / len(tasks) < least}


def _check(row: Mapping[str, str], rater: str) -> ItemCheck:
    return ItemCheck(
        item_id=row["item"],
        reference_id=row["reference_id"],
        rater=rater,
        correct=_YES[row["correct"]],
        fault=Fault(row["fault"]) if row["fault"] else None,
        harmful=_YES.get(row["harmful"], False),
    )


def _read(file: Path, items: set[str]) -> list[dict[str, str]]:
    """The filled-in lines of a sheet, checked; lines without `correct` are left out."""
    rows, seen = [], dict[tuple[str, str], int]()
    for number, row in _lines(file, ("item", "reference_id", *FILLED_IN)):
        where = f"sheet {file.name!r}, line {number}"
        if not row["correct"]:
            continue
        correct = _truth(row, "correct", where)
        if row["harmful"]:
            _truth(row, "harmful", where)
        if row["item"] not in items:
            raise BadInput(f"{where}: item {one_line(row['item'], 40)!r} is not in this benchmark; give its own sheet")
        if len(row["reference_id"]) != _ID_DIGITS:
            raise BadInput(f"{where}: reference_id was changed; leave that column as `--out` wrote it")
        if not row["rater"]:
            raise BadInput(f"{where}: no rater; write who filled the line in, any name will do")
        if row["fault"] and (correct or row["fault"] not in list(Fault)):
            known = known_values(one_line(row["fault"], 40), list(Fault))
            raise BadInput(f"{where}: fault {known}" if not correct else f"{where}: a correct item has no fault")
        earlier = seen.setdefault((row["rater"], row["item"]), number)
        if earlier != number:
            raise BadInput(
                f"{where}: rater {one_line(row['rater'], 40)!r} has this item on line {earlier} already; keep one"
            )
        rows.append(row)
    if not rows:
        raise BadInput(f"sheet {file.name!r} holds no finding; fill its columns {', '.join(FILLED_IN)} in")
    return rows


def _lines(file: Path, needed: Sequence[str]) -> list[tuple[int, dict[str, str]]]:
    """(line, cells without spaces around them) of a CSV file."""
    try:
        reader = csv.DictReader(io.StringIO(file.read_text(encoding="utf-8-sig"), newline=""))
        rows = [(reader.line_num, row) for row in reader]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise BadInput(f"{file.name!r} cannot be read ({why_unreadable(error)})") from None
    if lacking := [name for name in needed if name not in (reader.fieldnames or ())]:
        raise BadInput(f"{file.name!r} lacks the column {', '.join(lacking)}; give a sheet of `curate bench findings`")
    return [(number, {name: _cell(row, name) for name in needed}) for number, row in rows]


def _cell(row: Mapping[str, str | None], name: str) -> str:
    text = (row[name] or "").strip()
    return text if name in ("item", "rater", "reference_id") else text.lower()


def _truth(row: Mapping[str, str], name: str, where: str) -> bool:
    if row[name] not in _YES:
        raise BadInput(f"{where}: {name} {one_line(row[name], 40)!r}; give yes or no")
    return _YES[row[name]]
