"""Applies redact rules: placeholders replace spans of texts, black boxes cover regions of images.

Redacted texts and images are measured again. What is still found is redacted in the next round, up to `ROUNDS` times.
The pixels under a box do not influence any byte of the redacted file.
"""

import io
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import PIL.Image
import polars as pl

from schemas.conversation import RedactedConversation
from schemas.decision import Redaction
from schemas.policy import Action, Over, Policy, Rule
from tasks.images.decode import DecodedImage, from_pixels, open_image
from tasks.policy.rules import Signals, fires
from tasks.storage.content_id import combined_id, text_id

ROUNDS = 3
"""Rounds of redacting and measuring; after that the conversation is dropped."""
REPEATED_CHARACTERS_MIN = 4
"""Shorter values are replaced only where the PII finder reported them, not where they are repeated."""
MARGIN = 0.25
"""Added on every side, as a share of the box's shorter side, to cover hair, chin and tall letters."""
MARGIN_PIXELS_MIN = 4
BLOCK = 16
"""JPEG's largest block. Boxes are aligned to it, because a partly covered block keeps traces of its content."""
FILL = (0, 0, 0)
_JPEG = {"quality": 95, "subsampling": 0}

_ROLES = {
    Over.MESSAGES: ("user", "assistant"),
    Over.USER_MESSAGES: ("user",),
    Over.ASSISTANT_MESSAGES: ("assistant",),
}


Box = tuple[int, int, int, int]
"""left, top, right, bottom in pixels; right and bottom are exclusive."""


class Span(NamedTuple):
    """Characters `start` (inclusive) to `end` (exclusive) to replace."""

    start: int
    end: int
    type: str


@dataclass(frozen=True)
class Findings:
    """What to redact in texts and images, by content id. Items with nothing to redact are absent."""

    messages: Mapping[str, Mapping[str, list[tuple[str, Span]]]]
    """Role -> text id -> (rule, span)."""
    images: Mapping[str, list[tuple[str, str, list[int]]]]
    """Image id -> (rule, type or `face`, box x, y, width, height)."""
    image_values: Mapping[str, Mapping[str, str]]
    """Image id -> value found in its text -> type."""


@dataclass(frozen=True)
class CoveredImage:
    """An image after redaction."""

    image_id: str
    """Id of the image with its boxes filled; the original id when there is no box."""
    counts: Counter[tuple[str, str]]
    """Boxes by rule and type."""
    values: Mapping[str, str]
    """Value found in its text -> type."""


def redact_rules(policy: Policy) -> list[Rule]:
    """The policy's rules that redact."""
    return [rule for rule in policy.rules if rule.action is Action.REDACT]


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
            for found, spans in _spans(rule, signals).items():
                for role in _ROLES[rule.over]:
                    messages[role].setdefault(found, []).extend((rule.reason, span) for span in spans)
    return Findings(messages, images, values)


def _faces(rule: Rule, signals: Signals) -> Iterable[tuple[str, list[list[int]]]]:
    """All recorded faces, including low-confidence ones, of images on which the rule fires."""
    column = rule.signal.partition(".")[2]
    hit = signals("faces").with_columns(value=column).filter(fires(rule).fill_null(False))
    for image_id, faces in hit.select("content_id", "faces").iter_rows():
        yield image_id, [face["box"] for face in faces]


def _spans(rule: Rule, signals: Signals) -> dict[str, list[Span]]:
    """Text id -> spans of the types that the rule names."""
    hit = signals("text_pii").with_columns(value="types").filter(fires(rule).fill_null(False))
    wanted = set(rule.contains_any or ())
    return {
        found: [Span(s["start"], s["end"], s["type"]) for s in spans if not wanted or s["type"] in wanted]
        for found, spans in hit.select("content_id", "spans").iter_rows()
    }


def _image_texts(rule: Rule, signals: Signals) -> Iterable[tuple[str, dict[str, str], str, list[list[int]]]]:
    """(image id, values of a span, its type, boxes of the text lines that the span overlaps)."""
    spans = _spans(rule, signals)
    read = signals("image_text").filter(pl.col("text") != "")
    for image_id, text, boxes in read.select("content_id", "text", "boxes").iter_rows():
        for span in spans.get(text_id(text), ()):
            touched = [box["box"] for box in boxes if box["start"] < span.end and span.start < box["end"]]
            yield image_id, values_of(text, [span]), span.type, touched


def redacted_image(
    image_id: str, size: tuple[int, int], found: Findings, filled: Callable[[str, tuple[Box, ...]], str]
) -> CoveredImage:
    """Fill all boxes found on the image and on its redacted versions; `size` is (width, height).

    `filled(image_id, boxes)` returns the content id of the image with these boxes filled, creating it if needed.
    """
    shown, boxes = image_id, set[Box]()
    values: dict[str, str] = {}
    counts: Counter[tuple[str, str]] = Counter()
    for _ in range(ROUNDS):
        hits = found.images.get(shown, ())
        fresh = {grown(box, *size) for _, _, box in hits} - boxes
        if not fresh:
            break
        counts.update((reason, kind) for reason, kind, _ in hits)
        values |= found.image_values.get(shown, {})
        boxes |= fresh
        shown = filled(image_id, tuple(sorted(boxes)))
    return CoveredImage(shown, counts, values)


def redacted(
    row: Mapping[str, Any], found: Findings, images: Mapping[str, CoveredImage], policy_hash: str
) -> RedactedConversation:
    """The redacted form of a row of `conversations`."""
    shown = [images.get(image_id) or CoveredImage(image_id, Counter(), {}) for image_id in row["image_ids"]]
    values = {value: kind for image in shown for value, kind in image.values.items()}
    said, of_texts = redact_texts(row["turns"], found, values)
    texts = [text for text, _ in said]
    image_ids = [image.image_id for image in shown]
    ids = [text_id(text) for text in texts]
    prompt_id = ids[0] if len(texts) < 3 else text_id("\n\n".join(texts[::2]))
    changed = {
        "turns": [
            turn | {"content": text, "text_id": own_id, "images": placed}
            for turn, (text, placed), own_id in zip(row["turns"], said, ids, strict=True)
        ],
        "prompt_id": prompt_id,
        "document_id": combined_id("document", [prompt_id, *image_ids]),
        "image_ids": image_ids,
        "redactions": [*of_texts, *_listed("image", [image.counts for image in shown])],
        "policy_hash": policy_hash,
    }
    known = {name: value for name, value in row.items() if name in RedactedConversation.model_fields}
    return RedactedConversation.model_validate(known | changed)


def redact_texts(
    turns: Sequence[Mapping[str, Any]], found: Findings, values: Mapping[str, str]
) -> tuple[list[tuple[str, list[Any]]], list[Redaction]]:
    """Redacted texts with their images, and counts. A value found in one message is replaced in all of them."""
    texts, values = [turn["content"] for turn in turns], dict(values)
    shown = [turn["images"] for turn in turns]
    counts: list[Counter[tuple[str, str]]] = [Counter() for _ in turns]
    reason_of: dict[str, str] = {}
    for _ in range(ROUNDS):
        hits = [found.messages[turn["role"]].get(text_id(t), ()) for turn, t in zip(turns, texts, strict=True)]
        reason_of |= {span.type: reason for hit in hits for reason, span in hit}
        spans = [[span for _, span in hit] for hit in hits]
        for text, own in zip(texts, spans, strict=True):
            values |= values_of(text, own)
        replaced = [redact_text(text, own, values) for text, own in zip(texts, spans, strict=True)]
        texts = [text for text, _ in replaced]
        for place, (_, gone) in enumerate(replaced):
            types = Counter(span.type for span in gone)
            counts[place].update({(reason_of.get(kind, "repeated"), kind): n for kind, n in types.items()})
            shown[place] = [each | {"character": moved(each["character"], gone)} for each in shown[place]]
    return list(zip(texts, shown, strict=True)), _listed("message", counts)


def _listed(part: str, counts: Sequence[Counter[tuple[str, str]]]) -> list[Redaction]:
    return [
        Redaction(reason=reason, part=part, place=place, type=kind, count=count)
        for place, of_part in enumerate(counts)
        for (reason, kind), count in sorted(of_part.items())
    ]


def values_of(text: str, spans: Iterable[Span]) -> dict[str, str]:
    """Value -> type of the spans that are long enough to be searched for elsewhere in the conversation."""
    held = ((text[span.start : span.end].strip(), span.type) for span in spans)
    return {value: kind for value, kind in held if len(value) >= REPEATED_CHARACTERS_MIN}


def redact_text(text: str, spans: Iterable[Span], values: Mapping[str, str]) -> tuple[str, list[Span]]:
    """Replace all spans and all other occurrences of the values. Returns the text and what was replaced, in order."""
    pieces: list[str] = []
    end = 0
    gone = _without_overlaps([*spans, *_repeats(text, values)])
    for span in gone:
        pieces += [text[end : span.start], _placeholder(span)]
        end = span.end
    return "".join([*pieces, text[end:]]), gone


def _placeholder(span: Span) -> str:
    return f"<{span.type.upper()}>"


def moved(character: int, gone: Iterable[Span]) -> int:
    """Where a place of a text is after `gone` was replaced; a place within a span moves to its beginning."""
    place = character
    for span in gone:
        if span.end <= character:
            place += len(_placeholder(span)) - (span.end - span.start)
        elif span.start < character:
            place -= character - span.start
    return place


def _repeats(text: str, values: Mapping[str, str]) -> Iterable[Span]:
    """Occurrences of the values as whole words, except inside placeholders."""
    for value, kind in values.items():
        if value in text:
            for found in re.finditer(rf"(?<![\w<]){re.escape(value)}(?![\w>])", text):
                yield Span(found.start(), found.end(), kind)


def _without_overlaps(spans: Iterable[Span]) -> list[Span]:
    """Spans sorted by position; overlapping spans are merged and get the type of the first."""
    merged: list[Span] = []
    for span in sorted(spans, key=lambda span: (span.start, -span.end, span.type)):
        if merged and span.start < merged[-1].end:
            merged[-1] = merged[-1]._replace(end=max(merged[-1].end, span.end))
        else:
            merged.append(span)
    return merged


def grown(box: Sequence[int], width: int, height: int) -> Box:
    """Box (x, y, width, height) plus margin, extended to JPEG blocks and clipped to the image."""
    x, y, wide, high = box
    margin = max(MARGIN_PIXELS_MIN, round(MARGIN * min(wide, high)))
    left, top = (max(0, (edge - margin) // BLOCK * BLOCK) for edge in (x, y))
    right, bottom = (-(-(edge + margin) // BLOCK) * BLOCK for edge in (x + wide, y + high))
    return min(left, width), min(top, height), max(0, min(right, width)), max(0, min(bottom, height))


def fill_boxes(image: DecodedImage, boxes: Iterable[Box]) -> DecodedImage:
    """A copy of the image in the same format with the boxes black."""
    rgb = image.rgb.copy()
    for left, top, right, bottom in boxes:
        rgb[top:bottom, left:right] = FILL
    if image.format == "png":
        return from_pixels(rgb)
    sink = io.BytesIO()
    PIL.Image.fromarray(rgb).save(sink, "JPEG", **_JPEG)
    return open_image(sink.getvalue())
