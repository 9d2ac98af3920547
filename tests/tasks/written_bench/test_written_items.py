"""Written items: names and signs, captions that count, their figures, and the yield and agreement of raters."""

import csv
import io
import json
from itertools import permutations

import PIL.Image
import polars as pl
import pytest
from skimage import data

from flows.products import validation_texts
from schemas.benches.bench import BenchItem
from schemas.benches.written import Fault, ItemCheck, Split, WrittenBy
from tasks.images.decode import open_image
from tasks.providers.embedded.embeddings import EfficientNet, ImageNetClasses
from tasks.providers.embedded.texts import root_phrases
from tasks.storage.tables import Store, frame_of
from tasks.written_bench.collect import store_members, write_item_rows
from tasks.written_bench.figures import asked_for, facts_of_store, objects_of_images, pictured
from tasks.written_bench.findings import item_agreement, majorities, yields
from tasks.written_bench.item_files import SHIPPED_FAMILIES, load_families, name_hashes, named_in_row, read_items
from tasks.written_bench.written_items import hidden_texts, items_for_judging, split_of
from tasks.written_bench.written_report import written_parts
from tests.builders import conversation, decision, drawn_image, facts_frame, image_bytes, store_with
from tests.places import DATA, needs_data
from tests.visit_bench import visit_bench
from tests.written import caption, reference, written_item

PAIR = conversation("pair", "What changed?", image_ids=["0" * 32, "1" * 32])
ALONE = conversation("alone", "What is this?", image_ids=["2" * 32])
GONE = conversation("gone", "What was this?", image_ids=["3" * 32])
MODEL = {"written_by": WrittenBy.MODEL, "provider": "m", "version": "m-1"}


def _store(folder, **tables):
    decisions = [decision(PAIR), decision(ALONE), decision(GONE, "face")]
    items = [written_item(each) for each in (PAIR, ALONE, GONE)]
    return store_with(
        folder, conversations=[PAIR, ALONE, GONE], decisions=decisions, bench_items=items,
        bench=[BenchItem(conversation_id="alone", document_id=ALONE.document_id, topic=0)], **tables,
    )  # fmt: skip


@pytest.mark.parametrize("ids", [["a", "a", "a 2"], ["a 2", "a", "a"], ["a", "a", "a 2", "a 3", "a"], ["", "", "", ""]])
def test_rows_of_one_id_take_the_key_of_no_other_row(tmp_path, ids):
    rows = [
        {"id": key, "instruction_category": "counting", "instruction": "How many?", "image": "a.png"} for key in ids
    ]
    path = tmp_path / "items.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    items = read_items(path, load_families(SHIPPED_FAMILIES))
    keys = [item.key for item in items]
    assert len(set(keys)) == len(ids), keys
    earliest = [bool(key) and key not in ids[:place] for place, key in enumerate(ids)]
    assert [item.key == key for item, key in zip(items, ids, strict=True)] == earliest


def test_only_kept_items_with_current_captions_and_references_are_given(tmp_path):
    captions = [
        caption(PAIR, "before", 0), caption(PAIR, "after", 1), caption(PAIR, "a draft", 1, later=9, **MODEL),
        caption(ALONE, "a draft", later=1, **MODEL), caption(ALONE, "another draft", later=2, **MODEL),
        caption(GONE, "of another form", document_id="f" * 32),
    ]  # fmt: skip
    references = [
        reference(PAIR, "it moved", ["before", "after"]), reference(ALONE, "stale", ["a draft"], later=3, **MODEL),
    ]  # fmt: skip
    store = _store(tmp_path, captions=captions, references=references)
    alone, pair = items_for_judging(store, "b")
    assert (pair.captions, pair.reference, pair.instruction) == (["before", "after"], "it moved", "What changed?")
    assert pair.image_ids == ("0" * 32, "1" * 32) and pair.document_id == PAIR.document_id
    assert (alone.captions, alone.reference) == (["another draft"], None)


def test_of_two_texts_of_one_time_the_same_counts_in_whatever_order_they_are_stored(tmp_path):
    texts = [caption(ALONE, text, later=1, **MODEL) for text in ("a draft", "another draft", "one more")]
    for number, order in enumerate(permutations(texts)):
        items = items_for_judging(_store(tmp_path / str(number), captions=list(order)), "b")
        assert [item.captions for item in items] == [["one more"], []]


def test_an_item_without_a_caption_for_every_image_has_none(tmp_path):
    store = _store(tmp_path, captions=[caption(PAIR, "after", 1)])
    assert [(item.item_id, item.captions) for item in items_for_judging(store, "b")] == [("alone", []), ("pair", [])]
    assert items_for_judging(store, "another") == []


def test_a_reference_that_was_written_without_captions_is_screened(tmp_path):
    store = store_with(
        tmp_path, conversations=[PAIR], decisions=[decision(PAIR)],
        bench_items=[written_item(PAIR, split=Split.VALIDATION)], references=[reference(PAIR, "it moved", [])],
    )  # fmt: skip
    assert validation_texts(store) == ["it moved"]


def test_the_sampled_benchmark_has_items_too(tmp_path):
    store = _store(tmp_path, captions=[caption(ALONE, "a cup")])
    store.replace("bench_items", store.empty("bench_items"))
    (item,) = items_for_judging(store, "sampled")
    assert (item.item_id, item.captions, item.family, item.split) == ("alone", ["a cup"], "", split_of("alone"))
    shares = [split_of(f"item{number}") is Split.VALIDATION for number in range(2000)]
    assert 0.17 < sum(shares) / 2000 < 0.23


def test_what_is_hidden_in_one_benchmark_is_hidden_in_all(tmp_path):
    again = PAIR.model_copy(update={"conversation_id": "again"})
    items = [written_item(PAIR), written_item(again, bench="c", split=Split.VALIDATION)]
    items.append(written_item(ALONE, bench="c", split=Split.VALIDATION))
    texts = [caption(each, "a text", place) for each in (PAIR, again, ALONE) for place in range(len(each.image_ids))]
    kept = [PAIR, again, ALONE]
    store = store_with(
        tmp_path, conversations=kept, decisions=[decision(each) for each in kept], bench_items=items, captions=texts
    )
    splits = {item.item_id: item.split for item in items_for_judging(store, "c")}
    assert splits == {"alone": Split.VALIDATION, "again": Split.HIDDEN}
    assert set(hidden_texts(store)["item_id"]) == {"pair", "again"}


def _items(folder, rows):
    (folder / "1.png").write_bytes(image_bytes(1))
    asked = [{"family": "counting", "instruction": f"How many in {n}?", "images": "1.png"} | row for n, row in rows]
    lines = (json.dumps(row).replace("\\u2028", "\u2028") for row in asked)
    (folder / "items.jsonl").write_text("\n".join(lines), encoding="utf-8")
    return read_items(folder / "items.jsonl", load_families(SHIPPED_FAMILIES))


def test_names_that_no_file_can_have_reject_their_row_and_other_signs_are_read(tmp_path):
    odd = ("x" * 300 + ".png", "\0.png", "\ud800.png")
    rows = [{"images": name} for name in odd]
    rows += [{"instruction": "How many\u2028in all?"}, {"instruction": "half \ud800", "captions": ["\udc00"]}]
    items = _items(tmp_path, enumerate(rows))
    write_item_rows(items, "b", tmp_path, tmp_path / "rows.parquet")
    assert [item.problem for item in items] == ["an image name that no file can have"] * 3 + [""] * 2
    assert [item.instruction for item in items[3:]] == ["How many\u2028in all?", "half \ufffd"]


def test_an_image_is_found_under_another_spelling_of_its_name_and_never_outside(tmp_path):
    items = _items(tmp_path, enumerate({"images": name} for name in ("1.png", "1.PNG", ".\\1.png", "..\\1.png")))
    write_item_rows(items, "b", tmp_path, tmp_path / "rows.parquet")
    assert items[0].pictures == items[1].pictures == items[2].pictures
    assert [item.problem for item in items] == [""] * 3 + ["an image path that leads out of the folder"]


def test_generic_captions_are_read_beside_those_for_the_instruction(tmp_path):
    rows = [
        {"captions": ["two cups"], "generic_captions": ["a table"]},
        {"generic_captions": json.dumps(["a wall", None, None])},
        {"generic_captions": ["one", "two"]},
    ]
    items = _items(tmp_path, enumerate(rows))
    assert [(item.captions, item.generic) for item in items[:2]] == [(["two cups"], ["a table"]), ([], ["a wall"])]
    assert items[2].problem == "captions unlike images in number"


def test_the_split_of_an_item_is_the_same_under_another_name(tmp_path):
    store, splits = Store.open(str(tmp_path / "store")), []
    for bench, image in (("a", "1.png"), ("b", "copy.png")):
        (tmp_path / "copy.png").write_bytes(image_bytes(1))
        items = _items(tmp_path, [(n, {"images": image, "id": f"{bench}{n}", "origin": str(n)}) for n in range(40)])
        write_item_rows(items, bench, tmp_path, tmp_path / "rows.parquet")
        store_members(store, items, bench, 0.5)
        rows = store.read("bench_items").filter(bench=bench)
        splits.append(dict(rows.select("origin", "split").iter_rows()))
    assert splits[0] == splits[1] and 10 < list(splits[0].values()).count("hidden") < 30


def _read(path, rows, families=None):
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return read_items(path, families or load_families(SHIPPED_FAMILIES))


def test_a_cell_counts_whichever_line_is_the_first_to_have_its_column(tmp_path):
    bare = {"family": "counting", "instruction": "How many?", "image": "a.png"}
    full = {"id": 0, "captions": [""], "image_dense_captions": ["two cups"], "reference": "Two.", "licence": "CC0"}
    for rows in ([bare, bare | full], [bare | full, bare]):
        items = sorted(_read(tmp_path / "items.jsonl", rows), key=lambda item: item.reference)
        assert [(item.reference, item.captions, item.licences) for item in items] == [
            ("", [], [""]),
            ("Two.", ["two cups"], ["CC0"]),
        ]
        assert named_in_row(bare | full)[0] == items[1].key == "0"


def test_images_in_the_file_need_no_name_while_an_empty_name_is_no_file(tmp_path):
    rows = [
        {"family": "counting", "instruction": "How many?", "images": [{"bytes": image_bytes(n), "path": path}]}
        for n, path in ((1, None), (2, None), (1, ""), (1, "a.png"))
    ]
    pl.DataFrame(rows).write_parquet(tmp_path / "items.parquet")
    items = read_items(tmp_path / "items.parquet", load_families(SHIPPED_FAMILIES))
    write_item_rows(items, "b", tmp_path, tmp_path / "rows.parquet")
    assert [item.problem for item in items] == [""] * 4
    assert items[0].images == items[2].images != items[1].images and items[3].images == ["a.png"]
    assert items[0].pictures == items[2].pictures == items[3].pictures != items[1].pictures
    lacking = [{"images": ["1.png", name]} for name in (None, float("nan"), "", " ", {"bytes": "no bytes"})]
    assert {item.problem for item in _items(tmp_path, enumerate(lacking))} == {"no image"}


def test_names_of_images_differ_by_more_than_what_an_address_has_behind_its_path():
    names = ["cat#1.png", "cat#2.png", "cat?.png", "cat.png"]
    assert len({*name_hashes(names)}) == len(names)
    same = ["cat.png", "a/cat.png", "a\\cat.png", "https://example.org/cat.png?raw=1", "https://example.org/cat.png#x"]
    assert len({*name_hashes(same)}) == 1


def test_a_row_that_cannot_be_used_takes_no_id_from_one_that_can(tmp_path):
    sound = {"id": "x", "family": "counting", "instruction": "How many?", "image": "a.png"}
    for broken in ({"image": ""}, {"instruction": " "}, {"family": "nothing"}):
        for rows in ([sound | broken, sound], [sound, sound | broken]):
            items = sorted(_read(tmp_path / "items.jsonl", rows), key=lambda item: bool(item.problem))
            assert [item.key for item in items] == ["x", "x 2"]
            assert items[0].problem == "" and items[1].problem.startswith(("no ", "its family"))


def test_families_are_told_apart_in_every_script(tmp_path):
    names = ["写真", "写実", "की", "का", "café", "cafe", "🎨", "🎬", "who to call?"]
    families = load_families(SHIPPED_FAMILIES)
    families = families.model_copy(
        update={"families": [families.families[0].model_copy(update={"name": name}) for name in names]}
    )
    assert [families.named(name).name for name in names] == names
    for spelling, name in (("CAFE\u0301", "café"), ("Who_to_call", "who to call?"), (" 写真 ", "写真")):
        assert families.named(spelling).name == name
    assert families.named("") is families.named("?!") is families.named("絵") is None


@pytest.mark.parametrize("cell", [None, "", "unknown", float("nan")])
def test_an_unstated_flag_is_no_finding(tmp_path, cell):
    row = {"family": "counting", "instruction": "How many?", "image": "a.png"}
    (item,) = _read(tmp_path / "items.jsonl", [row | {"human_ratings_gpt4_correct": cell}])
    assert item.found is None


@pytest.mark.parametrize(("cell", "correct"), [(1.0, True), ("TRUE", True), (1, True), (0.0, False), (False, False)])
def test_a_flag_is_read_as_a_truth_or_as_a_number(tmp_path, cell, correct):
    row = {"family": "counting", "instruction": "How many?", "image": "a.png"}
    flags = {"human_ratings_gpt4_correct": cell, "human_ratings_problem_in_caption": 1.0}
    (item,) = _read(tmp_path / "items.jsonl", [row | flags])
    assert (item.found.correct, item.found.fault) == (correct, None if correct else Fault.CAPTION)


def test_brackets_without_end_in_a_cell_are_text(tmp_path):
    (item,) = _items(tmp_path, [(0, {"captions": "[" * 5000})])
    assert item.captions == ["[" * 5000] and not item.problem


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


def test_the_root_verb_of_the_first_sentence_with_its_direct_object():
    texts = {
        "Describe the scene in the picture. Then count the cups.": ("describe", "scene"),
        "Can you suggest a recipe with these ingredients?": ("suggest", "recipe"),
        "Given the chart, explain the trend of sales.": ("explain", "trend"),
        "Write it.": ("write", ""),
        "How many people are there?": ("be", ""),
        "": ("", ""),
        "!!!": ("", ""),
    }
    assert root_phrases(list(texts)) == list(texts.values())
    assert root_phrases(["word " * 100_000])[0][0] in ("", "word")


def test_phrases_and_objects_are_counted_for_all_and_for_each_family_and_are_in_the_report(tmp_path):
    store = visit_bench(tmp_path, {})
    asked = {(row.family, row.verb): row.items for row in asked_for(facts_of_store(store, "b"), root_phrases)}
    assert asked == {("all", "be"): 4, ("counting", "be"): 2, ("humor", "be"): 2}
    of_both, second = store.read("conversations").filter(conversation_id="i0")["image_ids"][0]
    seen = {of_both: {"names": ["cat", "cup"]}, second: {"names": ["cup", "dog"]}}
    store.replace("signals/objects", facts_frame("objects", seen))
    rows = [(row.family, row.object, row.items) for row in pictured(facts_of_store(store, "b"))]
    assert rows[:4] == [("all", "cat", 4), ("all", "cup", 4), ("all", "dog", 1), ("counting", "cat", 2)]

    assert "efficientnet" in ImageNetClasses.version
    own = facts_frame("objects", seen).with_columns(version=pl.lit(f"1+{ImageNetClasses.version}"))
    store.replace("signals/objects", own)
    assert [part.key for part in written_parts(store)] == ["written_families", "written_asked_for"]
    store.replace("signals/objects", own.with_columns(version=pl.lit("1+google-vision")))
    families, phrases, objects = written_parts(store)
    assert families.table.filter(family="all").select("bench", "items", "images", "captioned").rows() == [
        ("b", 4, 5, 4)
    ]
    assert phrases.table.select("family", "verb", "items").rows()[0] == ("all", "be", 4)
    assert objects.table["object"].to_list()[:3] == ["cat", "cup", "dog"] and ">dog<" in objects.figure.svg
    store.replace("bench_items", store.empty("bench_items"))
    assert written_parts(store) == []


def test_a_classifier_names_what_it_is_sure_of_and_nothing_in_a_drawing(tmp_path):
    pixels = io.BytesIO()
    PIL.Image.fromarray(data.chelsea()).save(pixels, "PNG")
    photograph, finder = open_image(pixels.getvalue()), ImageNetClasses()
    assert finder.find_objects([photograph, drawn_image(3)]) == [["Egyptian cat"], []]
    assert EfficientNet.version in finder.version
    assert objects_of_images(visit_bench(tmp_path, {})) == {}
