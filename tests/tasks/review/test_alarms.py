"""Queues of findings ask about what was measured last, in the first conversation that has it."""

from datetime import timedelta
from random import Random

import polars as pl
import pytest

from schemas.items.review import QueueName, Review
from tasks.review.alarms import FacesQueue, ImageTextsQueue, PersonalDataQueue, alarm_labels, text_hash
from tasks.storage.content_id import text_id
from tasks.storage.reviews import add_reviews, personal_spans
from tasks.storage.tables import Store
from tests.builders import NOON, conversation, facts_frame, store_with

TEXTS = [f"Call {name} at 555 01{number:02}" for number, name in enumerate(("Ada", "Ben", "Cyd", "Dov", "Eve", "Fay"))]
IMAGES = [f"image{number}" for number in range(6)]
EVERYTHING = 1_000


def measured_twice(store: Store, signal: str, values: list[dict], random: Random) -> dict[str, dict]:
    """Store two versions of values, in two parts and at times drawn for each row; returns id -> the last value."""
    last = dict[str, tuple]()
    for version, given in enumerate(values):
        hours = {content_id: random.randrange(3) for content_id in given}
        rows = facts_frame(signal, given, str(version)).sort("content_id")
        times = [NOON + timedelta(hours=hours[content_id]) for content_id in rows["content_id"]]
        store.append(
            f"signals/{signal}", rows.with_columns(measured_at=pl.Series(times, dtype=rows["measured_at"].dtype))
        )
        for content_id, value in given.items():
            if content_id not in last or hours[content_id] >= last[content_id][0]:
                last[content_id] = (hours[content_id], value)
    return {content_id: value for content_id, (_, value) in last.items()}


@pytest.mark.parametrize("seed", range(12))
def test_a_finding_is_the_last_value_and_is_shown_in_the_first_conversation_that_has_it(tmp_path, seed):
    random = Random(seed)
    conversations = [
        conversation(
            f"c{number}",
            *random.sample(TEXTS, 2),
            image_ids=random.sample(IMAGES, random.randrange(3)),
            tstamp=NOON + timedelta(hours=random.randrange(3)),
        )
        for number in range(5)
    ]
    store = store_with(tmp_path, conversations=conversations)
    in_order = sorted(conversations, key=lambda each: (each.tstamp, each.conversation_id))

    def some(ids: list[str], value: dict) -> dict:
        return {content_id: value for content_id in ids if random.random() < 0.6}

    span = {"type": "person", "start": 5, "end": 8, "confidence": 0.5}
    text_ids = [text_id(text) for text in TEXTS]
    found = measured_twice(
        store,
        "text_pii",
        [some(text_ids, {"spans": [span], "types": ["person"]}) | some(text_ids, {"spans": []}) for _ in range(2)],
        random,
    )
    faces = measured_twice(
        store, "faces", [some(IMAGES, {"confidence_max": random.choice([0.0, 0.9])}) for _ in range(2)], random
    )
    read = measured_twice(
        store,
        "image_text",
        [{image: {"text": random.choice([*TEXTS[:3], ""])} for image in random.sample(IMAGES, 4)} for _ in range(2)],
        random,
    )

    personal = {content_id for content_id, value in found.items() if value["spans"]}
    assert set(personal_spans(store)["content_id"]) == personal

    expected = {
        turn.text_id: (each.conversation_id, (turn.content[:5], turn.content[5:8], turn.content[8:]))
        for each in reversed(in_order)
        for turn in each.turns
        if turn.text_id in personal
    }
    asked = PersonalDataQueue(EVERYTHING, 0).waiting(store)
    assert {
        each.content_id: (each.conversation_id, tuple(stretch.text for stretch in each.texts[0].stretches))
        for each in asked
    } == expected

    shown = {
        image: each.conversation_id
        for each in reversed(in_order)
        for image in each.image_ids
        if faces.get(image, {}).get("confidence_max")
    }
    assert {each.item_id: each.conversation_id for each in FacesQueue(EVERYTHING, 0).waiting(store)} == shown

    read_in = {
        text_id(read[image]["text"]): (each.conversation_id, (image,))
        for each in reversed(in_order)
        for image in sorted(each.image_ids, reverse=True)
        if read.get(image, {}).get("text")
    }
    of_images = ImageTextsQueue(EVERYTHING, 0).waiting(store)
    assert {each.content_id: (each.conversation_id, each.image_ids) for each in of_images} == {
        content_id: place for content_id, place in read_in.items() if content_id in personal
    }

    verdicts = {each.item_id: random.choice(["confirmed", "false_alarm"]) for each in asked}
    add_reviews(
        store,
        [
            Review(
                conversation_id=each.conversation_id, content_id=each.content_id, reasons=[], reviewer="Ada",
                verdict=verdicts[each.item_id], queue=QueueName.PERSONAL_DATA.value, item_id=each.item_id,
                reviewed_at=NOON,
            )
            for each in asked
        ],
    )  # fmt: skip
    hash_of = {text_id(text): text_hash(text) for text in TEXTS}
    answers = {"confirmed": "yes", "false_alarm": "no"}
    assert set(alarm_labels(store).iter_rows()) == {
        (hash_of[each.content_id], 5, 8, answers[verdicts[each.item_id]]) for each in asked
    }
