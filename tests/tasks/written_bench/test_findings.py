"""Yield of written items: the published figures from the published flags, and agreement of raters."""

import csv

import polars as pl
import pytest

from schemas.benches.written import Fault, ItemCheck
from tasks.storage.tables import frame_of
from tasks.written_bench.findings import item_agreement, majorities, yields
from tasks.written_bench.item_files import load_families, read_items
from tests.places import DATA, needs_data

BESIDE = DATA / "visit-bench"
FLAGS = (  # of all 678 published instances: images, correct, problem in the caption, in GPT-4's answer, how many
    (2, False, None, 1), (2, False, Fault.REFERENCE, 30), (2, False, Fault.CAPTION, 6), (2, True, None, 63),
    (1, False, None, 6), (1, False, Fault.REFERENCE, 22), (1, False, Fault.CAPTION, 21), (1, True, None, 529),
)  # fmt: skip


def _checks(*found, rater="published"):
    rows = [
        ItemCheck(item_id=f"{n:04d}", reference_id="0" * 32, rater=rater, correct=correct, fault=fault, harmful=False)
        for n, (correct, fault) in enumerate(found)
    ]
    return frame_of(ItemCheck, rows)


def test_the_published_flags_give_the_published_table():
    found = [(correct, fault) for _, correct, fault, count in FLAGS for _ in range(count)]
    images = [images for images, _, _, count in FLAGS for _ in range(count)]
    checked = majorities(_checks(*found)).with_columns(images=pl.Series(images), family=pl.lit("x"))
    every, one, several, family = yields(checked)
    assert (every.items, every.correct, every.part) == (678, 592, "all")
    printed = [round(part.correct_percent, 1) for part in (every, one, several)]
    assert printed == [87.3, 91.5, 63.0]
    assert [round(part.caption_percent, 1) for part in (every, one, several)] == [4.0, 3.6, 6.0]
    assert [round(part.reference_percent, 1) for part in (every, one, several)] == [7.7, 3.8, 30.0]
    assert (every.unstated, one.unstated, several.unstated) == (7, 6, 1)
    assert every.correct + every.caption + every.reference + every.unstated == family.items == 678


def test_half_is_no_majority_and_no_fault_wins_a_draw():
    split = pl.concat([_checks((True, None), rater="a"), _checks((False, Fault.CAPTION), rater="b")])
    assert majorities(split).row(0) == ("0000", False, False, "caption")
    both = pl.concat([_checks((False, Fault.REFERENCE), rater="a"), _checks((False, Fault.CAPTION), rater="b")])
    assert majorities(both)["fault"].to_list() == ["unstated"]


def test_agreement_of_raters_is_krippendorffs_alpha():
    # two raters on ten items, Krippendorff 2011 (Computing Krippendorff's Alpha-Reliability), section A: alpha 0.095
    first, second = "0100000010", "1110010000"
    ratings = [
        _checks(*((each == "1", None) for each in said), rater=name) for name, said in (("1", first), ("2", second))
    ]
    found = item_agreement(pl.concat(ratings))
    assert (found.raters, found.items, found.agreed_percent) == (2, 10, 60.0)
    assert found.alpha == pytest.approx(0.095, abs=5e-4)


@needs_data
def test_published_sheets_are_read_whole():
    rows = {name: read_items(BESIDE / name, load_families()) for name in ("single-images-even.csv", "multi-images.csv")}
    counted = {
        name: [
            sum(item.found.correct for item in items),
            *(sum(item.found.fault is f for item in items) for f in Fault),
        ]
        for name, items in rows.items()
    }
    assert counted == {"single-images-even.csv": [257, 11, 12], "multi-images.csv": [37, 5, 8]}
    assert {item.problem for items in rows.values() for item in items} == {""}
    assert all(len(item.captions) == len(item.images) and all(item.captions) for i in rows.values() for item in i)
    with (BESIDE / "flag-counts.csv").open() as stream:
        assert sum(int(row["instances"]) for row in csv.DictReader(stream)) == sum(count for *_, count in FLAGS)
