"""The certificate of a release: `verify` computes it again from the votes, and an earlier layout may lack it."""

import json

import polars as pl
import pytest

from flows.products import problems_of
from tasks.release.certificate.file import CERTIFICATE, PAGE, SINCE_LAYOUT, TITLE
from tasks.release.declared import declared_columns
from tests.small_store import manifest_of
from tests.tampered_release import add_file, reseal, write_manifest


def _told(release) -> dict:
    return json.loads((release / CERTIFICATE).read_bytes())


def test_the_certificate_counts_the_votes_of_the_release(release):
    told = _told(release)
    sides = {row["group"]: row["appearances"] for row in told["exposure"] if row["by"] == "model"}
    assert told["votes"] > 0 and sum(sides.values()) == 2 * told["votes"]
    assert {row["model"] for row in told["lives"]} == sides.keys()
    card = (release / "README.md").read_text("utf-8")
    assert f"{told['votes']:,} votes" in card
    checks = {row["check"]: row for row in told["checks"]}
    seen = max((month["seen_before"] or 0 for month in told["months"]), default=0)
    assert ("of the prompts were of earlier months" in card) == (seen > 0)
    assert checks["not_in_full"]["votes"] == checks["names_model"]["votes"] == 0 and checks["repeated"]["note"]


def test_the_certificate_counts_the_dropped_votes_of_the_store_by_reason(store, release):
    decided = store.read("decisions").filter(~pl.col("keep"), item_kind="battle")
    counted = dict(
        decided.select(pl.col("reasons").list.unique()).explode("reasons").group_by("reasons").len().iter_rows()
    )
    dropped = {row["reason"]: row["votes"] for row in _told(release)["dropped"]}
    assert dropped == counted != {}
    assert "leaves out of the release, by reason" in (release / "README.md").read_text("utf-8")


@pytest.mark.parametrize(
    ("name", "value"), [("votes", 99_999), ("exposure", []), ("months", []), ("largest_to_smallest", 1.01)]
)
def test_another_number_is_found(own_release, name, value):
    add_file(own_release, CERTIFICATE, json.dumps(_told(own_release) | {name: value}, indent=1).encode())
    assert f"{CERTIFICATE}: {name} is not what the votes of battle give" in problems_of(own_release)


def test_another_page_and_a_missing_certificate_are_found(own_release):
    page = (own_release / PAGE).read_text("utf-8")
    add_file(own_release, PAGE, page.replace("votes", "cheers", 1).encode())
    assert f"{PAGE}: not the page of certificate.json" in problems_of(own_release)
    (own_release / CERTIFICATE).unlink()
    reseal(own_release)
    assert f"{CERTIFICATE}: missing" in problems_of(own_release)


def test_an_earlier_layout_needs_no_certificate(own_release):
    for name in (CERTIFICATE, PAGE):
        (own_release / name).unlink()
    card = own_release / "README.md"
    before, _, rest = card.read_text("utf-8").partition(TITLE)
    card.write_text(before + "## " + rest.partition("\n## ")[2], "utf-8")
    columns = manifest_of(own_release)["columns"]
    older = {table: columns[table] for table in declared_columns(SINCE_LAYOUT - 1)}
    for table in columns.keys() - older.keys():
        for path in own_release.glob(f"{table}.*"):
            path.unlink()
    write_manifest(own_release, layout=SINCE_LAYOUT - 1, columns=older)
    reseal(own_release)
    assert not [problem for problem in problems_of(own_release) if "certificate" in problem]
