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
from tests.builders import NOON, battle, conversation, facts_frame, sides, store_with

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


def finding(start: int, end: int, kind: str) -> dict:
    """A finding in a text."""
    return {"type": kind, "start": start, "end": end, "confidence": 0.5}


def found_in(spans_of: dict[str, list[dict]]) -> pl.DataFrame:
    """Rows of `text_pii`: text -> its findings."""
    values = {
        text_id(text): {"spans": spans, "types": sorted({span["type"] for span in spans})}
        for text, spans in spans_of.items()
    }
    return facts_frame("text_pii", values)


@pytest.mark.parametrize("queue", [PersonalDataQueue, ImageTextsQueue])
@pytest.mark.parametrize("seed", range(10))
def test_nothing_that_was_found_is_shown_beside_the_marked_stretch_wherever_findings_overlap(tmp_path, queue, seed):
    random = Random(seed)
    text = "".join(chr(0x4E00 + place) for place in range(40))  # each letter stands once, and says its place
    kinds = ("person", "email", "phone")
    spans = []
    for _ in range(random.randrange(2, 6)):
        start = random.randrange(30)
        spans.append(finding(start, start + random.randrange(1, 11), random.choice(kinds)))
    spans = list({(span["start"], span["end"], span["type"]): span for span in spans}.values())
    shown = conversation("c", text, "Yes.", image_ids=["1" * 32])
    store = store_with(tmp_path, conversations=[shown])
    store.append("signals/image_text", facts_frame("image_text", {"1" * 32: {"text": text}}))
    store.append("signals/text_pii", found_in({text: spans}))
    covered = {letter for span in spans for letter in text[span["start"] : span["end"]]}
    waiting = queue(EVERYTHING, 0).waiting(store)
    assert len(waiting) == len(spans)
    for item in waiting:
        start, end = map(int, item.item_id.split(":")[1].split("-"))
        stretches = item.texts[0].stretches
        assert [stretch.text for stretch in stretches if stretch.hidden] == [text[start:end]]
        clear = {letter for stretch in stretches if not stretch.hidden for letter in stretch.text}
        assert clear & {*text} == {*text} - covered


def test_of_an_address_that_begins_with_the_asked_name_nothing_else_is_shown(tmp_path):
    text = "jean.petit@x.fr wrote"
    store = store_with(tmp_path, conversations=[conversation("c", text, "Yes.")])
    store.append("signals/text_pii", found_in({text: [finding(0, 4, "person"), finding(0, 15, "email")]}))
    (asked,) = [item for item in PersonalDataQueue(EVERYTHING, 0).waiting(store) if "person" in item.item_id]
    parts = [(stretch.text, stretch.hidden) for stretch in asked.texts[0].stretches]
    assert [part for part in parts if any(part)] == [("jean", "person"), ("[email]", ""), (" wrote", "")]


TOGETHER = ("I am {} from Lyon", "Hello {}!", "Badge: {}", "Card of {}")
"""The question, the answer, and what was read in both images."""


@pytest.mark.parametrize("place", range(4))
def test_a_value_found_in_one_text_of_a_conversation_is_masked_in_its_messages_besides_its_images(tmp_path, place):
    texts, images = [text.format("Ana Lopez") for text in TOGETHER], ["1" * 32, "2" * 32]
    store = store_with(tmp_path, conversations=[conversation("c", *texts[:2], image_ids=images)])
    read = {image: {"text": text} for image, text in zip(images, texts[2:], strict=True)}
    store.append("signals/image_text", facts_frame("image_text", read))
    spans = {text: [finding(0, 4, "phone")] for text in texts}
    start = texts[place].index("Ana")
    spans[texts[place]] = [finding(start, start + 9, "person")]
    store.append("signals/text_pii", found_in(spans))
    queues = (PersonalDataQueue(EVERYTHING, 0), ImageTextsQueue(EVERYTHING, 0))
    waiting = [item for queue in queues for item in queue.waiting(store)]
    assert len(waiting) == 4
    clear = [stretch.text for item in waiting for stretch in item.texts[0].stretches if not stretch.hidden]
    assert not [text for text in clear if "Lopez" in text]


@pytest.mark.parametrize("queue", [PersonalDataQueue, ImageTextsQueue])
def test_a_value_found_on_the_other_side_of_a_battle_is_masked_beside_the_marked_stretch(tmp_path, queue):
    image, card = "1" * 32, "Hello Ana Lopez, it is me"
    left, right = sides("b", "Who?", card, image_ids=[image])
    store = store_with(tmp_path, conversations=[left, right], battles=[battle(left, right)])
    store.append("signals/image_text", facts_frame("image_text", {image: {"text": card}}))
    other = right.turns[1].content
    start = other.index("Ana")
    spans = {card: [finding(0, 5, "phone")], other: [finding(start, start + 9, "person")]}
    store.append("signals/text_pii", found_in(spans))
    asked = [item for item in queue(EVERYTHING, 0).waiting(store) if item.conversation_id == "b"]
    clear = [stretch.text for item in asked for stretch in item.texts[0].stretches if not stretch.hidden]
    assert clear and not [text for text in clear if "Lopez" in text]


@pytest.mark.parametrize(
    ("verdicts", "personal"),
    [(("confirmed", "false_alarm"), "yes"), (("false_alarm", "confirmed"), "yes"), (("false_alarm",) * 2, "no")],
)
def test_a_stretch_found_as_two_types_has_one_label(tmp_path, verdicts, personal):
    text = "Call 555 0100"
    store = store_with(tmp_path, conversations=[conversation("c", text, "Yes.")])
    found = [finding(5, 13, kind) for kind in ("phone", "account")]
    store.append("signals/text_pii", found_in({text: found}))
    waiting = sorted(PersonalDataQueue(EVERYTHING, 0).waiting(store))
    given = {"queue": QueueName.PERSONAL_DATA.value, "conversation_id": "c", "reasons": [], "reviewed_at": NOON}
    rows = [
        Review(**given, content_id=item.content_id, item_id=item.item_id, verdict=verdict, reviewer="Ada")
        for item, verdict in zip(waiting, verdicts, strict=True)
    ]
    add_reviews(store, rows)
    assert list(alarm_labels(store).iter_rows()) == [(text_hash(text), 5, 13, personal)]
