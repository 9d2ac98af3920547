"""Benchmarks that people write, from the command line: collected, checked by raters, written, released, verified."""

import csv
import json

import polars as pl
import pytest

from schemas.benches.written import Split
from tasks.storage.tables import Store
from tasks.written_bench.written_items import items_for_judging
from tests.builders import image_bytes

pytestmark = pytest.mark.usefixtures("prefect_server")
LONG = (
    "It shows {} smooth patches of colour side by side, brighter towards one corner and darker towards the other one."
)
ANSWER = (
    "There are {} patches of colour, which one can tell apart by how bright they are towards the corners of it all."
)


def _items(folder):
    """Six sound items, one of them with two images, and four rows that cannot be used."""
    for seed in range(7):
        (folder / f"{seed}.png").write_bytes(image_bytes(seed, (96, 64)))
    rows = [
        {"id": f"i{n}", "family": "Counting", "instruction": f"How many patches of colour are in picture {n}?",
         "images": f"{n}.png", "licence": "CC BY 4.0", "author": "A. Painter",
         "captions": LONG.format(n), "reference": ANSWER.format(n)}
        for n in range(5)
    ]  # fmt: skip
    pair = {"id": "pair", "family": "spot_the_diff", "instruction": "What differs between the two?"}
    rows.append(pair | {"images": json.dumps(["5.png", "6.png"]), "captions": json.dumps([LONG.format(8), ""])})
    bad = {"family": "color", "instruction": "Which colour is this?", "images": "1.png"}
    rows += [
        bad | {"id": "b1", "family": "no such family"}, bad | {"id": "b2", "images": "../secret.png"},
        bad | {"id": "b3", "captions": json.dumps(["one", "two"])}, bad | {"id": "i0"},
    ]  # fmt: skip
    return _csv(folder / "items.csv", rows)


def _csv(file, rows):
    with file.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    return file


def _rows(file):
    return list(csv.DictReader(file.read_text(encoding="utf-8").splitlines()))


def test_items_are_collected_checked_written_and_released(curate, refused, tmp_path, monkeypatch):
    store_folder, bench = tmp_path / "store", ("--store", tmp_path / "store", "--bench", "patches")
    items = _items(tmp_path)
    code, out, err = curate("bench", "collect", items, *bench, "--validation-share", "0.5")
    assert code == 0, err
    assert "in 10 = kept 6 + dropped 0 + rejected 4" in out, out
    store = Store(str(store_folder))
    assert set(store.read("rejects")["evidence"]) == {
        "its family is not in the families file", "captions unlike images in number",
        "an image path that leads out of the folder", "an id that an earlier item has",
    }  # fmt: skip
    found = {item.instruction: item for item in items_for_judging(store, "patches")}
    assert store.height("signals/objects") == 7, "one row for each image of a kept item"
    pair = found["What differs between the two?"]
    assert (len(pair.image_ids), pair.captions, pair.reference) == (2, [], None)

    other = tmp_path / "writer.yaml"
    other.write_text("models: [{name: w, vendor: openai, model: m-1}]")
    assert "hidden prompts go only to models with base_url and `own: true`" in refused(
        "bench", "write", *bench, "--hidden", "--writer", other
    )
    code, out, err = curate("bench", "write", *bench)
    assert code == 0 and "stand-in" in err, err
    pair = next(item for item in items_for_judging(store, "patches") if item.item_id == pair.item_id)
    assert pair.captions[0] == LONG.format(8) and pair.reference == " ".join(pair.captions)

    assert curate("review", "out", "items", *bench, "--out", tmp_path / "sheet")[0] == 0
    sheet = tmp_path / "sheet" / "sheet.csv"
    assert len(list((tmp_path / "sheet" / "images").iterdir())) == 7
    wrong = next(item.item_id for item in found.values() if "picture 0" in item.instruction)
    strict = lambda row: "reference" if row["item"] == wrong else "none"  # noqa: E731
    raters = {"ann": strict, "bea": strict, "cat": lambda row: "none", "dan": lambda row: "incorrect harmful"}
    rows = [row | {"reviewer": who, "verdict": say(row)} for who, say in raters.items() for row in _rows(sheet)]
    filled = _csv(tmp_path / "filled.csv", rows)
    known = _csv(tmp_path / "known.csv", [{"item": pair.item_id, "correct": "yes"}])
    code, out, err = curate("review", "in", "items", filled, *bench, "--qualification", known)
    assert code == 0 and out.startswith("18 verdicts of 3 reviewers on 6 items, 1 rater left out"), err
    code, out, _ = curate("review", "results", "items", *bench, "--json")
    tables = [json.loads(line) for line in out.splitlines()]
    overall = next(row for row in tables if row.get("part") == "all")
    assert (overall["items"], overall["correct"], overall["reference"], overall["harmful"]) == (6, 5, 1, 0)
    figures = next(row for row in tables if row["table"] == "families" and row["family"] == "spot_the_diff")
    assert (figures["items"], figures["images"], figures["captioned"], figures["referenced"]) == (1, 2, 1, 1)
    assert next(row for row in tables if row["table"] == "agreement")["agreed_percent"] == pytest.approx(88.889)
    assert "ann" not in (store_folder / "tables" / "reviews" / "parts.json").read_text()
    assert set(store.read("reviews")["reviewer"].str.len_chars()) == {24}

    code, _, err = curate("decide", "--store", store_folder, "--policy", "authored")
    assert code == 0, err
    decided = store.read("decisions").filter(item_id=wrong)
    assert decided["reasons"].to_list() == [["incorrect_item"]]

    code, _, err = curate("release", "--store", store_folder, "--release", "1.0.0")
    assert code == 0, err
    release = store_folder / "releases" / "1.0.0"
    assert curate("verify", release)[0] == 0
    released = pl.read_parquet(release / "written" / "items.parquet")
    shown = pl.read_parquet(release / "bench" / "data" / "*.parquet")
    assert set(released["question_id"]) == set(shown["question_id"]) and released.height == 5
    hidden = released.filter(split=Split.HIDDEN.value)
    assert hidden.height and hidden["captions"].null_count() == hidden["reference"].null_count() == hidden.height
    public = released.filter(split=Split.VALIDATION.value, family="counting")
    assert public.height and public["reference"].null_count() == 0
    assert set(public["captions_by"]) == {"people"} and public["authors"][0].to_list() == ["A. Painter"]
    assert not (release / "chat").exists()

    secret = next(item for item in items_for_judging(store, "patches") if item.split is Split.HIDDEN and item.reference)
    outside = tmp_path / "outside.jsonl"
    outside.write_text(json.dumps({"text": f"I heard that {secret.captions[0]}"}))
    code, out, _ = curate("bench", "check", outside, "--store", store_folder)
    assert code == 1 and "captions" in out


def test_bad_files_are_one_line_each(refused, tmp_path):
    items = _items(tmp_path)
    twice = tmp_path / "families.yaml"
    entry = {"origin": "new", "images": "one", "instruction": "x", "shows": ["x"], "response": "x"}
    twice.write_text(json.dumps({"version": "1", "families": [{"name": n} | entry for n in ("Color", "color")]}))
    lacking = _csv(tmp_path / "lacking.csv", [{"family": "color", "prompt": "x"}])
    bench = ("--store", tmp_path / "store", "--bench")
    for arguments, told in (
        ((items, *bench, "b", "--families", twice), "has the family 'color' twice"),
        ((lacking, *bench, "b"), "lacks instruction, images"),
        ((tmp_path / "none.csv", *bench, "b"), "cannot be read"),
        ((items, *bench, "sampled"), "bench 'sampled': give a name"),
        ((items, *bench, "b", "--images", tmp_path / "no"), "is not a folder"),
    ):
        assert told in refused("bench", "collect", *arguments)
    assert not (tmp_path / "store").exists()
