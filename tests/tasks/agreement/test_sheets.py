"""Sheets for experts: evenly drawn, blinded, and read back as they were filled in."""

import csv
from collections import Counter

import pytest

from schemas.errors import BadInput
from tasks.agreement.experts import experts
from tasks.agreement.sheets import drawn_evenly, is_swapped, item_of, people_of, read_sheet, write_sheet
from tasks.evaluate.shown_battles import anonymous_battles
from tests.builders import gathered_rows
from tests.voted_store import MODELS, SECRETS, voted


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return voted(tmp_path_factory.mktemp("voted"))


@pytest.fixture(scope="module")
def battles(store):
    return anonymous_battles([gathered_rows(store).rows["battle"]])


def rows_of(file):
    return list(csv.DictReader(file.read_text(encoding="utf-8").splitlines()))


def filled(folder, name, label):
    """A copy of the sheet with `label(battle number)` in terms of the battle's own sides, as an expert would see it."""
    other = {"left": "right", "right": "left"}
    for_item = {item_of(f"b{n}"): label(n) for n in range(len(MODELS))}
    rows = rows_of(folder / "sheet.csv")
    with (folder / f"{name}.csv").open("w", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        for row in rows:
            told = for_item[row["item"]]
            writer.writerow(row | {"label": other.get(told.lower(), told) if is_swapped(row["item"]) else told})
    return folder / f"{name}.csv"


def test_every_pair_of_models_has_the_same_number_of_battles(battles):
    drawn = drawn_evenly(battles, 1)
    pairs = Counter(tuple(sorted(pair)) for pair in drawn.select("model_a", "model_b").iter_rows())
    assert pairs == {("ant", "bee"): 1, ("ant", "cat"): 1, ("bee", "cat"): 1}
    assert drawn_evenly(battles, 9).height == len(MODELS)
    assert set(drawn["question_id"]) <= set(drawn_evenly(battles, 2)["question_id"])


def test_a_sheet_shows_no_model_no_vote_and_no_battle_that_a_release_lacks(store, battles, tmp_path):
    out = tmp_path / "sheet"
    assert write_sheet(store, battles, out) == 2
    rows = rows_of(out / "sheet.csv")
    assert len(rows) == len(MODELS)
    for row in rows:
        n = int(row["prompt"].split()[1][0])
        sides = ["'=left", "Right"]
        assert [row[side].split()[0] for side in ("left", "right")] == (
            sides[::-1] if is_swapped(row["item"]) else sides
        )
        assert (row["label"], row["item"]) == ("", item_of(f"b{n}"))
        assert all((out / "images" / name).is_file() for name in row["images"].split())
    assert len({is_swapped(row["item"]) for row in rows}) == 2
    text = (out / "sheet.csv").read_text(encoding="utf-8")
    assert not any(word in text for word in ("ant", "bee", "model_", "tie", *SECRETS))
    with pytest.raises(BadInput, match="exists, and may be filled in"):
        write_sheet(store, battles, out)


def test_filled_sheets_give_crowd_and_expert_agreement_and_boards(store, battles, tmp_path):
    write_sheet(store, battles, tmp_path / "sheet")
    as_people = ("left", "right", "tie", "both bad", "left", "left")
    ann = filled(tmp_path / "sheet", "ann", lambda n: as_people[n])
    bob = filled(tmp_path / "sheet", "bob", lambda n: "Left" if n else "")
    ids = battles["question_id"].to_list()
    sheets = [read_sheet(file, file.stem, ids) for file in (ann, bob)]
    found = experts(people_of(battles), sheets, battles, rounds=20, seed=0)
    table = {(row.a, row.b): (row.items, row.accuracy) for row in found.pairs}
    assert table == {("people", "ann"): (6, 1.0), ("people", "bob"): (5, 0.4), ("ann", "bob"): (5, 0.4)}
    (together,) = found.raters
    assert (together.items, together.raters, together.agreeing, together.forms[-1].pairs) == (5, 2, 2, 3)
    assert found.boards.models == 3
    alone = experts(people_of(battles), sheets[:1], battles, rounds=20, seed=0)
    assert (alone.raters, alone.boards.spearman) == ([], pytest.approx(1))


def test_bad_sheets_are_one_line(store, battles, tmp_path):
    write_sheet(store, battles, tmp_path / "sheet")
    for name, lines, told in (
        (
            "typo",
            ("item,label", f"{item_of('b0')},lefft"),
            "line 2: unknown label 'lefft'. Known: NA, both bad, left",
        ),
        ("elsewhere", ("item,label", "0123,left"), "none of its 1 items is a kept battle of this store"),
        ("bare", ("item,vote", "a,left"), "lacks the columns item and label"),
        ("twice", ("item,label", *[f"{item_of('b0')},left"] * 2), "rater 'twice' labels item 'b0' twice"),
        ("empty", ("item,label", f"{item_of('b0')},"), "holds no label"),
    ):
        file = tmp_path / f"{name}.csv"
        file.write_text("\n".join(lines) + "\n", encoding="utf-8")
        with pytest.raises(BadInput, match=told):
            read_sheet(file, name, battles["question_id"].to_list())
    one = read_sheet(filled(tmp_path / "sheet", "ann", lambda n: "tie"), "ann", battles["question_id"].to_list())
    with pytest.raises(BadInput, match="two sheets are named 'ann'"):
        experts(people_of(battles), [one, one], battles, rounds=20, seed=0)
