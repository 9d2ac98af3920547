"""Agreement of taggers against hand-worked and published numbers; a new tag is one prompt file and one line."""

import os
import shutil
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.runtime.shares import clopper_pearson
from tasks.signals.tag_evaluation import agreements, disagreements
from tasks.storage.queries.signals import signal_values
from tasks.storage.tables import Store
from tests.builders import facts_frame
from tests.places import ROOT

TABLE = {(True, True): 20, (True, False): 5, (False, True): 10, (False, False): 15}


def said(table, side):
    values = [pair[side] for pair, count in table.items() for _ in range(count)]
    return {f"d{n}": {"ocr": value} for n, value in enumerate(values)}


def judged(table, **more):
    return agreements(said(table, 0), said(table, 1), ["ocr"], **more)[0]


@pytest.fixture(scope="module")
def textbook():
    """Agreement of the textbook's table: 50 items, 0.7 agreed, 0.5 by chance."""
    return judged(TABLE)


def test_items_of_the_textbook_table_are_counted(textbook):
    assert (textbook.items, textbook.undecided, textbook.tagged, textbook.in_reference) == (50, 0, 25, 30)


SHARES = {"accuracy": 0.7, "precision": 0.8, "recall": 2 / 3, "kappa": 0.4, "f1": 2 * 0.8 * (2 / 3) / (0.8 + 2 / 3)}


@pytest.mark.parametrize("measure", SHARES)
def test_the_textbook_table_has_its_published_agreement(textbook, measure):
    assert getattr(textbook, measure).value == pytest.approx(SHARES[measure])


def test_the_interval_of_kappa_is_near_the_analytic_one():
    row = judged(TABLE, bootstraps=4000)
    error = np.sqrt(0.7 * 0.3 / (50 * 0.5**2))  # Cohen (1960), large samples
    assert row.kappa.ci95_low == pytest.approx(0.4 - 1.96 * error, abs=0.05)
    assert row.kappa.ci95_high == pytest.approx(0.4 + 1.96 * error, abs=0.05)


@pytest.mark.parametrize(
    ("hits", "n", "low", "high"), [(0, 10, 0.0, 0.3085), (8, 10, 0.4439, 0.9748), (10, 10, 0.6915, 1)]
)
def test_shares_have_the_intervals_of_clopper_and_pearson(hits, n, low, high):
    share = clopper_pearson(hits, n)
    assert (share.ci95_low, share.ci95_high) == pytest.approx((low, high), abs=1e-4)


WITH_NULLS = {"a": {"ocr": True}, "b": {"ocr": None}, "c": {"ocr": False}, "d": {"ocr": True}}
WITH_GAPS = {"a": {"ocr": True}, "b": {"ocr": True}, "c": {}, "e": {"ocr": True}}


def test_null_is_no_agreement():
    (row,) = agreements(WITH_NULLS, WITH_GAPS, ["ocr"])
    assert (row.items, row.undecided, row.accuracy.value) == (1, 2, 1.0)


def test_null_is_no_disagreement():
    assert list(disagreements(WITH_NULLS, WITH_GAPS, ["ocr"], {})) == []


def test_null_stands_for_a_measure_that_is_not_defined():
    (row,) = agreements({"a": {"ocr": False}}, {"a": {"ocr": False}}, ["ocr"])
    assert row.accuracy.value == 1.0
    assert (row.precision.value, row.recall.value, row.f1.value, row.kappa.value) == (None, None, None, None)


@pytest.fixture
def of_several_values():
    """Agreement about a label with three values."""
    ours = {"a": {"kind": "x"}, "b": {"kind": "y"}, "c": {"kind": "z"}, "d": {"kind": "x"}}
    (row,) = agreements(ours, ours | {"d": {"kind": "z"}}, ["kind"])
    return row


def test_a_label_with_several_values_has_accuracy_beside_kappa(of_several_values):
    assert of_several_values.accuracy.value == 0.75
    assert of_several_values.kappa.value == pytest.approx((0.75 - 5 / 16) / (1 - 5 / 16))


def test_a_label_with_several_values_has_no_precision(of_several_values):
    assert (of_several_values.precision.value, of_several_values.f1.value) == (None, None)


@pytest.fixture
def disagreement():
    """The one disagreement about a prompt of two lines with a colour in it."""
    (row,) = disagreements({"a": {"ocr": True}}, {"a": {"ocr": False}}, ["ocr"], {"a": "one\ntwo\x1b[31m"})
    return row


def test_a_disagreement_names_both_sides(disagreement):
    assert (disagreement.item, disagreement.tagger, disagreement.reference) == ("a", True, False)


def test_a_disagreement_shows_the_prompt_on_one_line(disagreement):
    assert disagreement.prompt == "one two [31m"


@given(st.tuples(*[st.integers(0, 9)] * 4).filter(any))
def test_swapping_the_sides_only_swaps_precision_with_recall(counts):
    table = dict(zip(TABLE, counts, strict=True))
    swapped = {(theirs, ours): count for (ours, theirs), count in table.items()}
    one, other = judged(table, bootstraps=2), judged(swapped, bootstraps=2)
    assert (one.precision, one.recall) == (other.recall, other.precision)
    assert (one.accuracy, one.f1.value, one.kappa.value) == (other.accuracy, other.f1.value, other.kappa.value)


@pytest.fixture
def older(tmp_path):
    """A store whose facts were measured before the tag `humor` was added."""
    store = Store.open(str(tmp_path / "store"))
    store.append("signals/categories", facts_frame("categories", {"a": {"ocr": True}}, "old"))
    (part,) = store.parts("signals/categories")
    older_rows = store.read_part("signals/categories", part).drop("humor").to_arrow()
    store.list_parts("signals/categories", [store.write_part("signals/categories", older_rows)])
    return store


@pytest.mark.parametrize("ids", [None, ["a"]], ids=["all", "one"])
@pytest.mark.parametrize(
    ("version", "tags", "row"), [("new", ["humor"], ("a", True)), ("old", ["ocr", "humor"], ("a", True, None))]
)
def test_facts_from_before_a_tag_was_added_stay_readable_beside_later_ones(older, version, tags, row, ids):
    older.append("signals/categories", facts_frame("categories", {"a": {"humor": True}}, "new"))
    assert signal_values(older, "categories", version, tags, ids).rows() == [row]


ASK_TOGETHER = """
import schemas.tags
from tasks.prompts import tags_prompt
print(schemas.tags.sees("selfie").name)
print(tags_prompt("categories", schemas.tags.TAGS).text)
"""


def test_a_line_and_a_file_are_enough_for_a_tag(tmp_path):
    """In a copy of what is changed, beside which stands all else."""
    shutil.copytree(ROOT / "schemas", tmp_path / "schemas")
    shutil.copytree(ROOT / "tasks" / "prompts", tmp_path / "tasks" / "prompts")
    for path in (ROOT / "tasks").iterdir():
        if path.name != "prompts":
            (tmp_path / "tasks" / path.name).symlink_to(path)
    tags = tmp_path / "schemas" / "tags.py"
    tags.write_text(
        tags.read_text().replace("    diagram: FromImages\n", "    selfie: FromImages\n    diagram: FromImages\n")
    )
    (tmp_path / "tasks" / "prompts" / "tags" / "selfie.md").write_text("* `selfie`: taken by the person shown.\n")
    command, path = [sys.executable, "-c", ASK_TOGETHER], {**os.environ, "PYTHONPATH": str(tmp_path)}
    told = subprocess.run(command, cwd=tmp_path, env=path, capture_output=True, text=True, check=True).stdout
    sees, _, together = told.partition("\n")
    assert sees == "IMAGES" and "* `selfie`: taken by the person shown." in together
    assert together.index("pictures alone") < together.index("`selfie`:")
