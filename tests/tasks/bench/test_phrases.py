"""What instructions of a written benchmark ask for, and what is in its images."""

from tasks.bench.written.phrases import asked_for, pictured, root_phrases
from tests.builders import facts_frame
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


def test_phrases_and_kinds_are_counted_for_all_and_for_each_family(tmp_path):
    store = visit_bench(tmp_path, {})
    asked = {(row["family"], row["verb"]): row["items"] for row in asked_for(store, "b").to_dicts()}
    assert asked == {("all", "be"): 4, ("counting", "be"): 2, ("humor", "be"): 2}
    documents = dict(store.read("conversations", ["conversation_id", "document_id"]).iter_rows())
    known = {documents["i0"]: {"image_domain": "Nature", "image_subdomain": "Animals"}}
    store.replace("signals/taxonomy", facts_frame("taxonomy", known))
    rows = [(row["family"], row["kind"], row["images"]) for row in pictured(store, "b").to_dicts()]
    assert rows[:2] == [("all", "unknown", 3), ("all", "Nature: Animals", 2)], "i0 has two images"
