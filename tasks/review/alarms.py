"""Whether what the detectors of faces and personal data found is there: queues over a sample of what they found."""

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import polars as pl

from schemas.items.review import Choice, Finding, QueueName, ShownText, Stretch, Waiting
from schemas.policy import Over
from tasks.review_queue import DrawnQueue
from tasks.storage.queries.repeated_values import FoundSpan, values_of_items, with_repeats
from tasks.storage.queries.signals import latest_query
from tasks.storage.reviews import found_faces, of_policy, personal_spans, reviews_of
from tasks.storage.tables import Store

CONTEXT_CHARACTERS = 200
"""Characters of a message on each side of a stretch that are shown."""
_READ_IN_IMAGES = f"""
    -- a row is one of the wanted texts that was read in one image
    SELECT image_id, content_id, text
    FROM (
        SELECT content_id AS image_id, text_id(text) AS content_id, text
        FROM ({latest_query("image_text", ["text"])})
        WHERE text <> ''
    )
    SEMI JOIN wanted USING (content_id)
"""  # noqa: S608 - a query of our own
_FIRST_OF_IMAGES = """
    -- a row is one of the wanted images, and the first conversation that shows it
    SELECT image_id, arg_min(conversation_id, (tstamp, conversation_id)) AS conversation_id
    FROM (SELECT tstamp, conversation_id, unnest(image_ids) AS image_id FROM conversations)
    SEMI JOIN wanted USING (image_id)
    GROUP BY image_id
"""
_FIRST_OF_MESSAGES = """
    -- a row is one of the wanted texts that is a message, and the first conversation that has it
    SELECT content_id, arg_min(conversation_id, (tstamp, conversation_id)) AS conversation_id
    FROM (SELECT tstamp, conversation_id, unnest("turns.text_id") AS content_id FROM conversations)
    SEMI JOIN wanted USING (content_id)
    GROUP BY content_id
"""
_FIRST_OF_READ_TEXTS = f"""
    -- a row is one of the wanted texts that was read in an image: the first conversation that shows such an image, the
    -- image, and the text
    SELECT
        content_id,
        arg_min(conversation_id, (tstamp, conversation_id, image_id)) AS conversation_id,
        arg_min(image_id, (tstamp, conversation_id, image_id)) AS image_id,
        any_value(text) AS text
    FROM (SELECT tstamp, conversation_id, unnest(image_ids) AS image_id FROM conversations)
    JOIN ({_READ_IN_IMAGES}) AS read_in_images USING (image_id)
    GROUP BY content_id
"""  # noqa: S608 - a query of our own
_MESSAGES = """
    -- a row is one of the wanted conversations as it was logged: the ids and the texts of its messages
    SELECT conversation_id, "turns.text_id" AS text_ids, "turns.content" AS texts
    FROM conversations SEMI JOIN wanted USING (conversation_id)
"""
_OF_WANTED = "SELECT unnest(image_ids) AS content_id FROM conversations SEMI JOIN wanted USING (conversation_id)"
_BESIDE_MESSAGES = f"""
    -- a row is one of the wanted conversations in whose images something was read: the ids and the texts of that
    SELECT conversation_id, list(text_id(text)) AS text_ids, list(text) AS texts
    FROM (
        SELECT conversation_id, unnest(image_ids) AS content_id
        FROM conversations SEMI JOIN wanted USING (conversation_id)
    ) AS shown
    JOIN ({latest_query("image_text", ["text"], _OF_WANTED)}) AS read_in_images USING (content_id)
    WHERE text <> ''
    GROUP BY conversation_id
"""  # noqa: S608 - a query of our own
_TEXTS = f"""
    -- a row is one of the wanted texts: a message, or what was read in an image
    SELECT content_id, text
    FROM (SELECT unnest("turns.text_id") AS content_id, unnest("turns.content") AS text FROM conversations)
    SEMI JOIN wanted USING (content_id)
    UNION
    SELECT content_id, text FROM ({_READ_IN_IMAGES})
"""  # noqa: S608 - a query of our own
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
        faces = found_faces(store).select(image_id="item_id")
        first_conversations = pl.concat(store.batches(_FIRST_OF_IMAGES, wanted=faces))
        conversation_of = dict(first_conversations.iter_rows())
        return [
            Waiting(image, image, conversation_of[image], "Does a box hold a human face?", image_ids=(image,))
            for image in self.drawn(conversation_of, among)
        ]


class PersonalDataQueue(DrawnQueue):
    """Stretches of messages that were found to be personal data of a type that the policy's rules name."""

    name, title, choices = QueueName.PERSONAL_DATA.value, "Personal data", _CHOICES
    about = (
        "Is the marked stretch personal data of this type? `curate review results alarms` and the report give the "
        "precision for each type. A verdict changes no decision."
    )
    tables = ("decisions", "conversations", "signals/text_pii", "signals/image_text")

    def waiting(self, store: Store, among: Collection[str] | None = None) -> list[Waiting]:
        """A sample of the stretches of each type in messages, drawn by hash."""
        every = personal_spans(store)
        policy_spans = of_policy(store, every)
        first_conversations = pl.concat(
            store.batches(_FIRST_OF_MESSAGES, wanted=policy_spans.select("content_id").unique())
        )
        stretches = _of_each_type(policy_spans.join(first_conversations, on="content_id"), self, among)
        texts = _masked_texts(store, every, stretches)
        return [
            _stretch(row, texts[row["conversation_id"], row["content_id"]], "Part of a message") for row in stretches
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
        """A sample of the stretches of each type, drawn by hash; each in the first conversation with such an image."""
        every = personal_spans(store)
        policy_spans = of_policy(store, every, Over.IMAGE_TEXTS)
        first_images = pl.concat(store.batches(_FIRST_OF_READ_TEXTS, wanted=policy_spans.select("content_id").unique()))
        stretches = _of_each_type(policy_spans.join(first_images, on="content_id"), self, among)
        texts = _masked_texts(store, every, stretches)
        return [
            _stretch(row, texts[row["conversation_id"], row["content_id"]], "Text of the image")._replace(
                image_ids=(row["image_id"],)
            )
            for row in stretches
        ]


def text_hash(text: str) -> str:
    """The first 12 hexadecimal digits of the text's SHA-256."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def alarm_labels(store: Store) -> pl.DataFrame:
    """Verdicts on stretches as benchmarks read them, without any text: text (its hash), start, end, personal.

    `personal` is yes or no. Findings that reviewers disagree about are left out. A stretch that was found as several
    types is personal if it was confirmed as one of them.
    """
    of_stretches = pl.col("queue").is_in([PersonalDataQueue.name, ImageTextsQueue.name])
    # A row is one finding and the verdicts that reviewers gave about it, each once; then, those with one verdict.
    verdicts = reviews_of(store).filter(of_stretches).group_by("item_id").agg(pl.col("verdict").unique())
    agreed = verdicts.filter(pl.col("verdict").list.len() == 1).select("item_id", pl.col("verdict").list.first())
    judged = personal_spans(store).join(agreed, on="item_id")
    texts = pl.concat(store.batches(_TEXTS, wanted=judged.select("content_id").unique()))
    hashes = texts.select("content_id", text=pl.col("text").map_elements(text_hash, return_dtype=pl.String))
    is_confirmed = (pl.col("verdict") == Finding.CONFIRMED.value).any()
    personal = pl.when(is_confirmed).then(pl.lit("yes")).otherwise(pl.lit("no"))
    # A row is one stretch, whatever types it was found as.
    labels = judged.join(hashes, on="content_id").group_by("text", "start", "end").agg(personal=personal)
    return labels.sort("text", "start", "end")


def _of_each_type(spans: pl.DataFrame, queue: DrawnQueue, among: Collection[str] | None) -> list[dict[str, Any]]:
    """The rows of the stretches that a queue asks about: of each type a sample, or those `among` others."""
    # A frame has the stretches of one type.
    stretches_by_type = spans.select("item_id", "type").sort("type").partition_by("type", maintain_order=True)
    drawn_ids = [item_id for of_type in stretches_by_type for item_id in queue.drawn(of_type["item_id"], among)]
    drawn_rows = spans.filter(pl.col("item_id").is_in(drawn_ids)).iter_rows(named=True)
    row_of = {row["item_id"]: row for row in drawn_rows}
    return [row_of[item_id] for item_id in drawn_ids]


class _MaskedText(NamedTuple):
    text: str
    spans: Sequence[FoundSpan]
    """Spans of it that are masked."""


def _masked_texts(
    store: Store, every: pl.DataFrame, stretches: Sequence[Mapping[str, Any]]
) -> dict[tuple[str, str], _MaskedText]:
    """(conversation id, text id) -> the text, for all texts of the conversations of some stretches.

    Texts are messages, and what was read in images. What was found in one of a conversation is masked in all of them,
    and so is what was found in its battle.
    """
    conversation_ids = sorted({row["conversation_id"] for row in stretches})
    id_rows = pl.DataFrame({"conversation_id": conversation_ids}, {"conversation_id": pl.String})
    texts_of = dict[str, dict[str, str]]()
    """Conversation id -> text id -> text; a text that stands twice in a conversation is masked once."""
    for query in (_MESSAGES, _BESIDE_MESSAGES):
        for conversations in store.batches(query, wanted=id_rows):
            for conversation_id, text_ids, texts in conversations.iter_rows():
                texts_of.setdefault(conversation_id, {}).update(zip(text_ids, texts, strict=True))
    spans_of = _by_text(every, {text_id for texts_by_id in texts_of.values() for text_id in texts_by_id})
    items = values_of_items(store).filter(pl.col("conversation_id").is_in(conversation_ids))
    values_of = dict(items.iter_rows())
    masked = dict[tuple[str, str], _MaskedText]()
    for conversation_id, texts_by_id in texts_of.items():
        found = [(text, spans_of.get(text_id, [])) for text_id, text in texts_by_id.items()]
        repeated = with_repeats(found, values_of.get(conversation_id, ()))
        for (text_id, text), spans in zip(texts_by_id.items(), repeated, strict=True):
            masked[conversation_id, text_id] = _MaskedText(text, spans or [])
    return masked


def _by_text(spans: pl.DataFrame, text_ids: Collection[str]) -> dict[str, list[FoundSpan]]:
    """Text id -> its spans, for those of the texts that have some."""
    spans_by_text = dict[str, list[FoundSpan]]()
    for span in spans.filter(pl.col("content_id").is_in(list(text_ids))).iter_rows(named=True):
        spans_by_text.setdefault(span["content_id"], []).append(span)
    return spans_by_text


def _stretch(row: Mapping[str, Any], masked: _MaskedText, heading: str) -> Waiting:
    """The stretch with what surrounds it; other findings stay masked, also where one of them overlaps it."""
    start, end = max(0, row["start"] - CONTEXT_CHARACTERS), row["end"] + CONTEXT_CHARACTERS
    kind = row["type"].replace("_", " ")
    parts = tuple(_parts(masked, row, start, end))
    why = f"Found by {row['provider']} as {kind}, with confidence {row['confidence']:.2f}"
    question, texts = f"Is the marked stretch personal data, of type {kind}?", (ShownText(heading, parts),)
    return Waiting(row["item_id"], row["content_id"], row["conversation_id"], question, why=why, texts=texts)


def _parts(masked: _MaskedText, row: Mapping[str, Any], start: int, end: int) -> Iterator[Stretch]:
    text, at = masked.text, start
    marked = (row["start"], row["end"], row["type"])
    # (start, end, type) of the marked stretch, and of what each other finding has before and behind it
    others = [(span["start"], min(span["end"], row["start"]), span["type"]) for span in masked.spans]
    others += [(max(span["start"], row["end"]), span["end"], span["type"]) for span in masked.spans]
    for piece in sorted([marked, *others]):
        first, last = max(at, piece[0]), min(end, piece[1])
        if first >= last:
            continue
        yield Stretch(text[at:first])
        yield Stretch(text[first:last], piece[2]) if piece is marked else Stretch(f"[{piece[2]}]")
        at = last
    yield Stretch(text[at:end])
