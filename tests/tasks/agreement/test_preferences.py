"""Preferences of people: a blinded sheet with sides by hash, a forced choice, battles that `curate rate` reads."""

import csv
import json

import polars as pl
import pytest

from tests.visit_bench import HIDDEN, visit_bench

TABLE_3 = {
    "LLaVA (13B)": (64, 244, 26.23),
    "LlamaAdapter-v2 (7B)": (71, 259, 27.41),
    "mPLUG-Owl (7B)": (32, 214, 14.95),
    "InstructBLIP (13B)": (24, 194, 12.37),
    "MiniGPT-4 (7B)": (44, 299, 14.72),
    "PandaGPT (13B)": (24, 229, 10.48),
}
"""VisIT-Bench, Table 3: model -> wins against the reference, ratings, printed percent."""


@pytest.fixture
def sheet(tmp_path, curate):
    """A store, and a function that runs `curate judge sheet --bench b`."""
    store = visit_bench(tmp_path / "store", {"x": "A cup of {}.", "y": "A plate."}, items=6)
    return lambda *options: curate("judge", "sheet", "--store", store.root, "--bench", "b", *options)


def _filled(folder, rater, label):
    rows = list(csv.DictReader((folder / "sheet.csv").read_text().splitlines()))
    file = folder / f"{rater}.csv"
    with file.open("w", newline="") as out:
        writer = csv.DictWriter(out, rows[0])
        writer.writeheader()
        writer.writerows(row | {"label": label(row)} for row in rows)
    return file, rows


def test_a_forced_choice_of_several_raters_becomes_battles_without_their_names(sheet, tmp_path, curate):
    out = tmp_path / "out"
    code, _, err = sheet("--out", out, "--tuples", "12", "--seed", "1")
    assert (code, "12 pairs of answers" in err) == (0, True), err
    likes_cups = lambda row: "left" if "cup" in row["left"] or "plate" in row["right"] else "right"  # noqa: E731
    files, rows = zip(*(_filled(out, f"rater{n}", likes_cups) for n in range(5)), strict=True)
    text = (out / "sheet.csv").read_text()
    assert len(rows[0]) == 12 and HIDDEN not in text and "reference," not in text
    assert {"left", "right"} == {likes_cups(row) for row in rows[0]}  # sides by hash
    battles = tmp_path / "battles.csv"
    code, _, err = sheet(*(part for file in files for part in ("--read", file)), "--battles", battles)
    assert code == 0 and "60 choices; pairs by number of choices: 12 with 5" in err
    found = pl.read_csv(battles)
    assert found["judge"].n_unique() == 5 and "rater" not in "".join(found["judge"])
    won = found.select(pl.when(pl.col("winner") == "model_a").then("model_a").otherwise("model_b")).to_series()
    assert won.filter((found["model_a"] != "reference") & (found["model_b"] != "reference")).unique().to_list() == ["x"]
    code, out_text, _ = curate("rate", battles, "--json")
    assert code == 0 and json.loads(out_text.splitlines()[0])["model"] == "x"


def test_a_tie_and_a_second_vote_of_a_rater_end_with_one_line(sheet, tmp_path):
    out = tmp_path / "out"
    sheet("--out", out, "--tuples", "3")
    tied, _ = _filled(out, "ann", lambda row: "tie")
    ran = sheet("--read", tied, "--battles", tmp_path / "b.csv")
    assert ran[:2] == (2, "") and "'tie' is no choice; give left or right" in ran[2]
    file, _ = _filled(out, "bob", lambda row: "left")
    ran = sheet("--read", file, "--read", file, "--battles", tmp_path / "b.csv")
    assert ran[:2] == (2, "") and "rater 'bob' votes on" in ran[2]
    assert not (tmp_path / "b.csv").exists()


def test_win_rates_against_the_reference_are_those_of_the_published_table(tmp_path, curate):
    rows = [
        ("reference", model, "model_b" if n < wins else "model_a")
        for model, (wins, ratings, _) in TABLE_3.items()
        for n in range(ratings)
    ]
    file = tmp_path / "votes.csv"
    file.write_text("\n".join(["model_a,model_b,winner", *map(",".join, rows)]))
    code, out, err = curate("rate", file, "--table", "win_rates", "--reference", "reference", "--json")
    assert code == 0, err
    found = {row["model"]: row for row in map(json.loads, out.splitlines())}
    shown = {
        m: (
            found[m]["wins_vs_reference"],
            found[m]["battles_vs_reference"],
            round(100 * found[m]["win_rate_vs_reference"], 2),
        )
        for m in TABLE_3
    }
    assert shown == TABLE_3
