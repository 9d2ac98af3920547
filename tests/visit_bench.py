"""A store with a written benchmark, its captions and references, and models' answers to it."""

from pathlib import Path

from schemas.benches.judging import Answer
from schemas.benches.written import Split
from tasks.storage.tables import Store
from tests.builders import conversation, decision, drawn_image, image, store_with
from tests.written import caption, reference, written_item

HIDDEN = "hidden-item"


def visit_bench(folder: Path, answers: dict[str, str], items: int = 3) -> Store:
    """Items `i0`, … of the benchmark `b` in two families, `i0` with two images, and a hidden one.

    `answers`: model -> its text for every item; {} in it is the item's id.
    """
    shown = [drawn_image(seed) for seed in range(2)]
    names = [*(f"i{n}" for n in range(items)), HIDDEN]
    asked = [
        conversation(name, f"What is in {name}?", "", image_ids=[each.image_id for each in shown[: 1 + (name == "i0")]])
        for name in names
    ]
    written = [
        written_item(
            each,
            family=("counting", "humor")[n % 2],
            split=Split.HIDDEN if each.conversation_id == HIDDEN else Split.VALIDATION,
        )
        for n, each in enumerate(asked)
    ]
    captions = {each.conversation_id: [f"A cup, {n + 1}." for n in range(len(each.image_ids))] for each in asked}
    return store_with(
        folder,
        conversations=asked,
        decisions=[decision(each) for each in asked],
        images=[image(each) for each in shown],
        bench_items=written,
        captions=[caption(e, text, n) for e in asked for n, text in enumerate(captions[e.conversation_id])],
        references=[reference(e, f"The reference of {e.conversation_id}.", captions[e.conversation_id]) for e in asked],
        answers=[
            stored_answer(each, model, text.replace("{}", each.conversation_id))
            for model, text in answers.items()
            for each in asked
        ],
    )


def stored_answer(asked, model: str, text: str) -> Answer:
    """A row of `answers`."""
    return Answer(
        question_id=asked.conversation_id, model=model, state="complete", text=text, version="file+1", tokens=3,
        document_id=asked.document_id,
    )  # fmt: skip
