"""The section of an item made on demand on its page in the explorer of a store."""

from collections.abc import Iterator

from tasks.generated_bench.wordings import named_letters
from tasks.release.registered import ShownSection
from tasks.storage.tables import Store

_MADE_ITEMS = """
    -- a row is one benchmark made on demand of which the conversation is an item
    SELECT * FROM generated_items WHERE item_id = $item_id
"""
_DESCRIPTIONS = """
    -- a row is one description of an image
    SELECT description FROM generated_descriptions WHERE description_id = $description_id
"""
_ALIGNMENTS = """
    -- a row is one attempt at the image, and how well it shows what it was to show
    SELECT score, answers FROM alignments
    WHERE description_id = $description_id AND image_id = $image_id
    ORDER BY attempt
"""
_FACTS = {
    "Benchmark": "bench",
    "Aspect": "aspect",
    "General aspect": "general",
    "Level": "level",
    "Asks for": "kind",
}


def section_of_item(store: Store, item_id: str) -> Iterator[ShownSection]:
    """The section, for each benchmark of which the conversation is an item."""
    for row in store.ask(_MADE_ITEMS, item_id=item_id).iter_rows(named=True):
        description_id, image_id = row["description_id"], row["image_id"]
        described = store.ask(_DESCRIPTIONS, description_id=description_id)
        aligned = store.ask(_ALIGNMENTS, description_id=description_id, image_id=image_id).to_dicts()
        failed = [answer["element"] for answer in aligned[-1]["answers"] if not answer["right"]] if aligned else []
        facts = [(name, row[column]) for name, column in _FACTS.items()]
        facts += [("Alignment", f"{aligned[-1]['score']:.2f}")] if aligned else []
        texts = [("Description", "what the image was to show", text) for text in described["description"]]
        texts += [("Not seen in the image", "", ", ".join(dict.fromkeys(failed)))] if failed else []
        texts.append(("Question", f"key {row['key']}", named_letters(row["question"], row["options"])))
        yield ShownSection("Item made on demand", facts, texts)
