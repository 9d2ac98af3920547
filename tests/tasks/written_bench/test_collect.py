"""Files of items: names and signs that no table or folder can have, and the split of an item."""

import json

from tasks.storage.tables import Store
from tasks.written_bench.collect import store_members, write_item_rows
from tasks.written_bench.item_files import SHIPPED, load_families, read_items
from tests.builders import image_bytes


def _items(folder, rows):
    (folder / "1.png").write_bytes(image_bytes(1))
    asked = [{"family": "counting", "instruction": f"How many in {n}?", "images": "1.png"} | row for n, row in rows]
    lines = (json.dumps(row).replace("\\u2028", "\u2028") for row in asked)
    (folder / "items.jsonl").write_text("\n".join(lines), encoding="utf-8")
    return read_items(folder / "items.jsonl", load_families(SHIPPED))


def test_names_that_no_file_can_have_reject_their_row_and_other_signs_are_read(tmp_path):
    odd = ("x" * 300 + ".png", "\0.png", "\ud800.png")
    rows = [{"images": name} for name in odd]
    rows += [{"instruction": "How many\u2028in all?"}, {"instruction": "half \ud800", "captions": ["\udc00"]}]
    items = _items(tmp_path, enumerate(rows))
    write_item_rows(items, "b", tmp_path, tmp_path / "rows.parquet")
    assert [item.problem for item in items] == ["an image name that no file can have"] * 3 + [""] * 2
    assert [item.instruction for item in items[3:]] == ["How many\u2028in all?", "half \ufffd"]


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
