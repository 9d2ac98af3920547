"""What instructions of a written benchmark ask for, and what is in its images."""

import io

import PIL.Image
import polars as pl
from skimage import data

from tasks.images.decode import open_image
from tasks.providers.embedded.image_embedding import EfficientNet, ImageNetClasses
from tasks.providers.embedded.phrases import root_phrases
from tasks.written_bench.figures import asked_for, facts_of_store, objects_of_images, pictured
from tasks.written_bench.written_report import written_parts
from tests.builders import drawn_image, facts_frame
from tests.visit_bench import visit_bench


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
    assert objects.table["object"].to_list()[:3] == ["cat", "cup", "dog"] and ">dog<" in objects.figure
    store.replace("bench_items", store.empty("bench_items"))
    assert written_parts(store) == []


def test_a_classifier_names_what_it_is_sure_of_and_nothing_in_a_drawing(tmp_path):
    pixels = io.BytesIO()
    PIL.Image.fromarray(data.chelsea()).save(pixels, "PNG")
    photograph, finder = open_image(pixels.getvalue()), ImageNetClasses()
    assert finder.find_objects([photograph, drawn_image(3)]) == [["Egyptian cat"], []]
    assert EfficientNet.version in finder.version
    assert objects_of_images(visit_bench(tmp_path, {})) == {}
