"""Whether what the detectors of faces and personal data found is there: queues over a sample of what they found."""

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

import polars as pl

from schemas.items.review import Choice, Finding, QueueName, ShownText, Stretch, Waiting
from schemas.policy import Over
from tasks.review.review_queue import DrawnQueue
from tasks.storage.content_id import text_id
from tasks.storage.queries.repeated_values import Span, with_repeats
from tasks.storage.reviews import found_faces, of_policy, personal_spans, reviews_of
from tasks.storage.tables import Store

CONTEXT_CHARACTERS = 200
"""Characters of a message on each side of a stretch that are shown."""
_CHOICES = (Choice("y", Finding.CONFIRMED.value, "Yes"), Choice("x", Finding.FALSE_ALARM.value, "No, a false alarm"))


class FacesQueue(DrawnQueue):
    """Images in which a face was found, as strong as the policy's rules ask for."""

    name, title, choices = QueueName.FACES.value, "Faces", _CHOICES
    about = (
        "Does a box hold a human face? `curate review results alarms` and the report give the detector's "
        "precision. A verdict changes no decision."
    )
    tables = ("decisions", "conversations", "images", "signals/faces")

    def waiting(self, store: Store, among: Collection[str] | None = None) -> list[Waiting]:
        """A sample of the images, drawn by hash."""
        shown = _shown(store, set(found_faces(store)["item_id"]))
        return [
            Waiting(image, image, shown[image], "Does a box hold a human face?", image_ids=(image,))
            for image in self.drawn(shown, among)
        ]


class PersonalDataQueue(DrawnQueue):
    """Stretches of messages that were found to be personal data of a type that the policy's rules name."""

    name, title, choices = QueueName.PERSONAL_DATA.value, "Personal data", _CHOICES
    about = (
        "Is the marked stretch personal data of this type? `curate review results alarms` and the report give the "
        "precision for each type. A verdict changes no decision."
    )
    tables = ("decisions", "conversations", "signals/text_pii")

    def waiting(self, store: Store, among: Collection[str] | None = None) -> list[Waiting]:
        """A sample of the stretches of each type in messages, drawn by hash."""
        every = personal_spans(store)
        asked = of_policy(store, every)
        messages = dict(_messages(store, set(asked["content_id"])))
        there = asked.filter(pl.col("content_id").is_in(list(messages)))
        chosen = _of_each_type(there, self, among)
        rows = {row["item_id"]: row for row in there.iter_rows(named=True)}
        places = [messages[rows[item]["content_id"]] for item in chosen]
        spans = _masked(store, every, {conversation_id for conversation_id, _ in places})
        return [
            _stretch(rows[item], *place, spans[place[0], rows[item]["content_id"]])
            for item, place in zip(chosen, places, strict=True)
        ]


class ImageTextsQueue(DrawnQueue):
    """Stretches of the text of images that were found to be personal data of a type that a rule over it names."""

    name, title, choices = QueueName.IMAGE_TEXTS.value, "Personal data in images", _CHOICES
    about = (
        "Is the marked stretch of what was read in the image personal data of this type? `curate review results "
        "alarms` and the report give the precision for each type. A verdict changes no decision."
    )
    tables = ("decisions", "conversations", "images", "signals/text_pii", "signals/image_text")

    def waiting(self, store: Store, among: Collection[str] | None = None) -> list[Waiting]:
        """A sample of the stretches of each type, drawn by hash; each in the first image with that text."""
        every = personal_spans(store)
        asked = of_policy(store, every, Over.IMAGE_TEXTS)
        read = dict(_image_texts(store, set(asked["content_id"])))
        shown = _shown(store, {image_id for image_id, _ in read.values()})
        there = asked.filter(pl.col("content_id").is_in([name for name, (image, _) in read.items() if image in shown]))
        rows = {row["item_id"]: row for row in there.iter_rows(named=True)}
        found = _by_text(every.filter(pl.col("content_id").is_in(list(read))).iter_rows(named=True))
        chosen = _of_each_type(there, self, among)
        waiting = []
        for item in chosen:
            image_id, text = read[rows[item]["content_id"]]
            of_text = found[rows[item]["content_id"]]
            stretch = _stretch(rows[item], shown[image_id], text, of_text, "Text of the image")
            waiting.append(stretch._replace(image_ids=(image_id,)))
        return waiting


def text_hash(text: str) -> str:
    """The first 12 hexadecimal digits of the text's SHA-256."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def alarm_labels(store: Store) -> pl.DataFrame:
    """Verdicts on stretches as benchmarks read them, without any text: text (its hash), start, end, personal.

    `personal` is yes or no. Stretches that reviewers disagree about are left out.
    """
    asked = pl.col("queue").is_in([PersonalDataQueue.name, ImageTextsQueue.name])
    said = reviews_of(store).filter(asked).group_by("item_id").agg(pl.col("verdict").unique())
    agreed = said.filter(pl.col("verdict").list.len() == 1).select("item_id", pl.col("verdict").list.first())
    rows = personal_spans(store).join(agreed, on="item_id")
    ids = set(rows["content_id"])
    texts = {name: text for name, (_, text) in (*_messages(store, ids), *_image_texts(store, ids))}
    labels = {name: text_hash(text) for name, text in texts.items()}
    personal = pl.when(pl.col("verdict") == Finding.CONFIRMED.value).then(pl.lit("yes")).otherwise(pl.lit("no"))
    text = pl.col("content_id").replace_strict(labels, return_dtype=pl.String).alias("text")
    found = rows.filter(pl.col("content_id").is_in(list(labels)))
    return found.select(text, "start", "end", personal=personal).unique().sort("text", "start", "end")


def _of_each_type(found: pl.DataFrame, queue: DrawnQueue, among: Collection[str] | None) -> list[str]:
    of_types = found.sort("type").partition_by("type", maintain_order=True)
    return [item for of_type in of_types for item in queue.drawn(of_type["item_id"], among)]


def _image_texts(store: Store, text_ids: set[str]) -> Iterator[tuple[str, tuple[str, str]]]:
    """(text id, (image id, text)) of what was read in images, for these ids."""
    rows = store.read("signals/image_text", ["content_id", "text", "measured_at"]).sort("measured_at", "content_id")
    last = rows.unique("content_id", keep="last", maintain_order=True)
    for image_id, text in last.select("content_id", "text").iter_rows():
        if text and (name := text_id(text)) in text_ids:
            yield name, (image_id, text)


def _shown(store: Store, image_ids: set[str]) -> dict[str, str]:
    """Image -> the first conversation that shows it."""
    shown: dict[str, str] = {}
    for rows in store.read_slices("conversations", ["conversation_id", "image_ids"]):
        for conversation_id, ids in rows.iter_rows():
            shown |= {each: conversation_id for each in ids if each in image_ids and each not in shown}
    return shown


def _messages(store: Store, text_ids: set[str]) -> Iterator[tuple[str, tuple[str, str]]]:
    """(text id, (conversation id, text)) of the messages with these ids, each once."""
    seen: set[str] = set()
    for rows in store.read_slices("conversations", ["conversation_id", "turns"]):
        turn = pl.col("turns").struct
        text_id, text = turn.field("text_id").alias("text_id"), turn.field("content").alias("text")
        turns = rows.explode("turns").select("conversation_id", text_id, text)
        wanted = turns.filter(pl.col("text_id").is_in(sorted(text_ids - seen)))
        for conversation_id, found, content in wanted.unique("text_id", maintain_order=True).iter_rows():
            seen.add(found)
            yield found, (conversation_id, content)


def _masked(store: Store, every: pl.DataFrame, conversations: set[str]) -> dict[tuple[str, str], list[Span]]:
    """(conversation id, text id) -> what is masked there: what was found, wherever the conversation has it."""
    masked: dict[tuple[str, str], list[Span]] = {}
    for rows in store.read_slices("conversations", ["conversation_id", "turns"]):
        for conversation_id, turns in rows.filter(pl.col("conversation_id").is_in(sorted(conversations))).iter_rows():
            texts = {turn["text_id"]: turn["content"] for turn in turns}
            found = _by_text(every.filter(pl.col("content_id").is_in(list(texts))).iter_rows(named=True))
            repeated = with_repeats([(text, found.get(text_id, [])) for text_id, text in texts.items()])
            masked |= {(conversation_id, text_id): spans or [] for text_id, spans in zip(texts, repeated, strict=True)}
    return masked


def _by_text(rows: Iterable[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    found: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        found.setdefault(row["content_id"], []).append(row)
    return found


def _stretch(
    row: Mapping[str, Any], conversation_id: str, text: str, spans: list[Span], heading: str = "Part of a message"
) -> Waiting:
    """The stretch with what surrounds it; other findings beside it stay masked."""
    start, end = max(0, row["start"] - CONTEXT_CHARACTERS), row["end"] + CONTEXT_CHARACTERS
    kind = row["type"].replace("_", " ")
    parts = tuple(_parts(text, row, spans, start, end))
    why = f"Found by {row['provider']} as {kind}, with confidence {row['confidence']:.2f}"
    question, texts = f"Is the marked stretch personal data, of type {kind}?", (ShownText(heading, parts),)
    return Waiting(row["item_id"], row["content_id"], conversation_id, question, why=why, texts=texts)


def _parts(text: str, row: Mapping[str, Any], spans: list[Span], start: int, end: int) -> Iterator[Stretch]:
    at = start
    others = [each for each in spans if each["end"] <= row["start"] or each["start"] >= row["end"]]
    for span in sorted([row, *others], key=lambda each: int(each["start"])):
        first, last = max(at, span["start"]), min(end, span["end"])
        if first >= last:
            continue
        yield Stretch(text[at:first])
        yield Stretch(text[first:last], span["type"]) if span is row else Stretch(f"[{span['type']}]")
        at = last
    yield Stretch(text[at:end])
