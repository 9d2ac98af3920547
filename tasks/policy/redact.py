"""Applies redact rules: placeholders replace spans of texts, black boxes cover regions of images.

Redacted texts and images are measured again. What is still found is redacted in the next round, up to
`REDACTION_ROUNDS` times. The pixels under a box do not influence any byte of the redacted file.
"""

import io
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import PIL.Image
import polars as pl

from schemas.items.conversation import RedactedConversation
from schemas.items.decision import Redaction
from schemas.policy import Over, Policy, Rule
from schemas.signals import EXERCISE_NAME, PERSON
from tasks.images.decode import DecodedImage, from_pixels, open_image
from tasks.policy.redact_text import (
    Placeholders,
    Span,
    is_left,
    moved,
    plain_form,
    redact_text,
    values_of,
    without_left,
)
from tasks.policy.rules import Signals, fires, redact_rules
from tasks.storage.content_id import combined_id, text_id

REDACTION_ROUNDS = 3
"""Rounds of redacting and measuring; after that the conversation is dropped."""
MARGIN = 0.25
"""Added on every side, as a share of the box's shorter side, to cover hair, chin and tall letters."""
MARGIN_PIXELS_MIN = 4
JPEG_BLOCK = 16
"""JPEG's largest block. Boxes are aligned to it, because a partly covered block keeps traces of its content."""
FILL = (0, 0, 0)
_JPEG = {"quality": 95, "subsampling": 0}

ROLES_OVER = {
    Over.MESSAGES: ("user", "assistant"),
    Over.USER_MESSAGES: ("user",),
    Over.ASSISTANT_MESSAGES: ("assistant",),
}


_Counts = Counter[tuple[str, str]]
"""Replaced spans or filled boxes by rule and type."""
_Said = tuple[str, list[Any]]
"""A redacted text, and the images of its message."""
PixelBox = tuple[int, int, int, int]
"""left, top, right, bottom in pixels; right and bottom are exclusive."""


@dataclass(frozen=True)
class Findings:
    """Stretches of texts and boxes of images to redact, by content id. Items with nothing to redact are absent."""

    messages: Mapping[str, Mapping[str, list[tuple[str, Span]]]]
    """Role -> text id -> (rule, span)."""
    images: Mapping[str, list[tuple[str, str, list[int]]]]
    """Image id -> (rule, type or `face`, box x, y, width, height)."""
    image_values: Mapping[str, Mapping[str, str]]
    """Image id -> value found in its text -> type."""
    exercise_names: Mapping[str, list[Span]]
    """Text id -> names of exercises and options in it; empty when a rule redacts those too."""


@dataclass(frozen=True)
class CoveredImage:
    """An image after redaction."""

    image_id: str
    """Id of the image with its boxes filled; the original id when there is no box."""
    counts: _Counts
    """Boxes by rule and type."""
    values: Mapping[str, str]
    """Value found in its text -> type."""


def findings(policy: Policy, signals: Signals) -> Findings:
    """Collect what the redact rules find, from signals of original and redacted texts and images."""
    messages: dict[str, dict[str, list[tuple[str, Span]]]] = {"user": {}, "assistant": {}}
    images: dict[str, list[tuple[str, str, list[int]]]] = {}
    values: dict[str, dict[str, str]] = {}
    for rule in redact_rules(policy):
        if rule.over is Over.IMAGES:
            for image_id, boxes in _faces(rule, signals):
                images.setdefault(image_id, []).extend((rule.reason, "face", box) for box in boxes)
        elif rule.over is Over.IMAGE_TEXTS:
            for image_id, text, kind, boxes in _image_texts(rule, signals):
                images.setdefault(image_id, []).extend((rule.reason, kind, box) for box in boxes)
                values.setdefault(image_id, {}).update(text)
        else:
            for content_id, spans in spans_of(rule, signals).items():
                for role in ROLES_OVER[rule.over]:
                    messages[role].setdefault(content_id, []).extend((rule.reason, span) for span in spans)
    return Findings(messages, images, values, _exercise_names(policy, signals))


def _exercise_names(policy: Policy, signals: Signals) -> dict[str, list[Span]]:
    rules = [rule for rule in redact_rules(policy) if rule.over in ROLES_OVER]
    if any(not rule.contains_any or EXERCISE_NAME in rule.contains_any for rule in rules):
        return {}
    hit = signals("text_pii").filter(pl.col("types").list.contains(EXERCISE_NAME))
    return {
        content_id: [Span(s["start"], s["end"], s["type"]) for s in spans if s["type"] == EXERCISE_NAME]
        for content_id, spans in hit.select("content_id", "spans").iter_rows()
    }


def _faces(rule: Rule, signals: Signals) -> Iterable[tuple[str, list[list[int]]]]:
    """All recorded faces, including low-confidence ones, of images on which the rule fires."""
    column = rule.signal.partition(".")[2]
    hit = signals("faces").filter(fires(rule, pl.col(column)).fill_null(False))
    for image_id, faces in hit.select("content_id", "faces").iter_rows():
        yield image_id, [face["box"] for face in faces]


def spans_of(rule: Rule, signals: Signals) -> dict[str, list[Span]]:
    """Text id -> spans of the types that the rule names."""
    hit = signals("text_pii").filter(fires(rule, pl.col("types")).fill_null(False))
    named_types = set(rule.contains_any or ())
    return {
        content_id: [
            Span(s["start"], s["end"], s["type"]) for s in spans if not named_types or s["type"] in named_types
        ]
        for content_id, spans in hit.select("content_id", "spans").iter_rows()
    }


def _image_texts(rule: Rule, signals: Signals) -> Iterable[tuple[str, dict[str, str], str, list[list[int]]]]:
    """(image id, values of a span, its type, boxes of the text lines that the span overlaps)."""
    spans = spans_of(rule, signals)
    read = signals("image_text").filter(pl.col("text") != "")
    for image_id, text, boxes in read.select("content_id", "text", "boxes").iter_rows():
        for span in spans.get(text_id(text), ()):
            touched = [box["box"] for box in boxes if box["start"] < span.end and span.start < box["end"]]
            yield image_id, values_of(text, [span]), span.type, touched


def redacted_image(
    image_id: str, size: tuple[int, int], evidence: Findings, filled: Callable[[str, tuple[PixelBox, ...]], str]
) -> CoveredImage:
    """Fill all boxes found on the image and on its redacted versions; `size` is (width, height).

    `filled(image_id, boxes)` returns the content id of the image with these boxes filled, creating it if needed.
    """
    covered_id, boxes = image_id, set[PixelBox]()
    values: dict[str, str] = {}
    counts: _Counts = Counter()
    for _ in range(REDACTION_ROUNDS):
        hits = [(reason, kind, grown(box, *size)) for reason, kind, box in evidence.images.get(covered_id, ())]
        fresh = {box for *_, box in hits} - boxes
        values |= evidence.image_values.get(covered_id, {})  # messages may repeat one that has no box
        if not fresh:  # what is found without a box that could be filled stays, and `unproven` drops its conversation
            break
        counts.update((reason, kind) for reason, kind, box in hits if box in fresh)
        boxes |= fresh
        covered_id = filled(image_id, tuple(sorted(boxes)))
    return CoveredImage(covered_id, counts, values)


def redacted(
    rows: Sequence[Mapping[str, Any]], evidence: Findings, images: Mapping[str, CoveredImage], policy_hash: str
) -> list[RedactedConversation]:
    """The redacted forms of rows of `conversations` that belong together, as the two sides of a battle do.

    A value found in one of them is replaced in all, by the same placeholder.
    """
    covered_images = [[images.get(i) or CoveredImage(i, Counter(), {}) for i in row["image_ids"]] for row in rows]
    # A value is one that was found in an image of any of the rows: the others may repeat it.
    values = {
        value: kind for row_images in covered_images for image in row_images for value, kind in image.values.items()
    }
    turns = [turn for row in rows for turn in row["turns"]]
    left_names = exercise_names_in(turns, evidence)
    redacted_turns, counts = redact_texts(turns, evidence, values, left_names)
    forms, start = [], 0
    for row, own_images in zip(rows, covered_images, strict=True):
        end = start + len(row["turns"])
        forms.append(_form(row, redacted_turns[start:end], counts[start:end], own_images, policy_hash, left_names))
        start = end
    return forms


def _form(
    row: Mapping[str, Any],
    redacted_turns: Sequence[_Said],
    counts: Sequence[_Counts],
    images: Sequence[CoveredImage],
    policy_hash: str,
    left_names: Set[str],
) -> RedactedConversation:
    """The redacted form of one row, with content ids of its own."""
    image_ids, texts = [image.image_id for image in images], [text for text, _ in redacted_turns]
    ids = [text_id(text) for text in texts]
    # a conversation has a message, and its user every second one (`Role`)
    prompt_id = ids[0] if len(texts) < 3 else text_id("\n\n".join(texts[::2]))
    changed = {
        "turns": [
            turn | {"content": text, "text_id": own_id, "images": placed}
            for turn, (text, placed), own_id in zip(row["turns"], redacted_turns, ids, strict=True)
        ],
        "prompt_id": prompt_id,
        "document_id": combined_id("document", [prompt_id, *image_ids]),
        "image_ids": image_ids,
        "served": None,
        "consent": None,
        "redactions": [*_listed("message", counts), *_listed("image", [image.counts for image in images])],
        "left_names": sorted(left_names),
        "policy_hash": policy_hash,
    }
    logged_fields = {name: value for name, value in row.items() if name in RedactedConversation.model_fields}
    return RedactedConversation.model_validate(logged_fields | changed)


def redact_texts(
    turns: Sequence[Mapping[str, Any]], evidence: Findings, values: Mapping[str, str], names_that_stay: Set[str]
) -> tuple[list[_Said], list[_Counts]]:
    """Redacted texts with their images, and counts. A value found in one message is replaced in all of them.

    Names in `names_that_stay` stay.
    """
    texts, placed_images = [turn["content"] for turn in turns], [turn["images"] for turn in turns]
    values = {value: kind for value, kind in values.items() if not is_left(value, kind, names_that_stay)}
    placeholders = Placeholders(texts)
    counts: list[_Counts] = [Counter() for _ in turns]
    reason_of: dict[tuple[str, str], str] = {}
    """Role and type -> rule that found it in messages of that role; without a role, in those of any."""
    for _ in range(REDACTION_ROUNDS):
        hits = [evidence.messages[turn["role"]].get(text_id(t), ()) for turn, t in zip(turns, texts, strict=True)]
        for turn, hit in zip(turns, hits, strict=True):
            reason_of |= {(role, span.type): reason for reason, span in hit for role in (turn["role"], "")}
        # names of exercises and options are redacted as persons where they do not stay
        named = [[s._replace(type=PERSON) for s in evidence.exercise_names.get(text_id(text), ())] for text in texts]
        spans = [
            without_left(text, [*(s for _, s in hit), *names], names_that_stay)
            for text, hit, names in zip(texts, hits, named, strict=True)
        ]
        for text, text_spans in zip(texts, spans, strict=True):
            values |= values_of(text, text_spans)
        replaced = [
            redact_text(text, text_spans, values, placeholders) for text, text_spans in zip(texts, spans, strict=True)
        ]
        texts = [text for text, _ in replaced]
        for place, (_, gone) in enumerate(replaced):
            role = turns[place]["role"]
            kinds = [replacement.type for replacement in gone]
            reasons = (reason_of.get((role, kind)) or reason_of.get(("", kind), "repeated") for kind in kinds)
            counts[place].update(zip(reasons, kinds, strict=True))
            placed_images[place] = [
                image | {"character": moved(image["character"], gone)} for image in placed_images[place]
            ]
    return list(zip(texts, placed_images, strict=True)), counts


def exercise_names_in(turns: Sequence[Mapping[str, Any]], evidence: Findings) -> set[str]:
    """Names of exercises and options in messages, in the form in which values are compared; they are not redacted.

    A name that is a person's in a message by a user is of that person, even where an exercise has it too.
    """
    users = [turn for turn in turns if turn["role"] == "user"]
    hits = ((turn["content"], span) for turn in users for _, span in evidence.messages["user"].get(turn["text_id"], ()))
    people = {plain_form(text[span.start : span.end], PERSON) for text, span in hits if span.type == PERSON}
    spans = ((turn["content"], span) for turn in turns for span in evidence.exercise_names.get(turn["text_id"], ()))
    return {plain_form(text[span.start : span.end], PERSON) for text, span in spans} - people


def _listed(part: str, counts: Sequence[_Counts]) -> list[Redaction]:
    return [
        Redaction(reason=reason, part=part, place=place, type=kind, count=count)
        for place, of_part in enumerate(counts)
        for (reason, kind), count in sorted(of_part.items())
    ]


def grown(box: Sequence[int], width: int, height: int) -> PixelBox:
    """Box (x, y, width, height) plus margin, extended to JPEG blocks and clipped to the image."""
    x, y, wide, high = box
    margin = max(MARGIN_PIXELS_MIN, round(MARGIN * min(wide, high)))
    left, top = (max(0, (edge - margin) // JPEG_BLOCK * JPEG_BLOCK) for edge in (x, y))
    right, bottom = (-(-(edge + margin) // JPEG_BLOCK) * JPEG_BLOCK for edge in (x + wide, y + high))
    return min(left, width), min(top, height), max(0, min(right, width)), max(0, min(bottom, height))


def fill_boxes(image: DecodedImage, boxes: Iterable[PixelBox]) -> DecodedImage:
    """A copy of the image in the same format with the boxes black."""
    rgb = image.rgb.copy()
    for left, top, right, bottom in boxes:
        rgb[top:bottom, left:right] = FILL
    if image.format == "png":
        return from_pixels(rgb)
    sink = io.BytesIO()
    PIL.Image.fromarray(rgb).save(sink, "JPEG", **_JPEG)
    return open_image(sink.getvalue())
