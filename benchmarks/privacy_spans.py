"""Personal data found in labelled sentences: recall and precision of every kind, with what was missed."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from schemas.signals import PiiSpan
from tasks.providers.capabilities import PiiFinder

TYPES = {
    "EMAIL_ADDRESS": "email",
    "PHONE_NUMBER": "phone",
    "CREDIT_CARD": "card",
    "IBAN_CODE": "iban",
    "IP_ADDRESS": "ip",
    "US_SSN": "national_id",
    "US_DRIVER_LICENSE": "national_id",
    "PERSON": "person",
    "STREET_ADDRESS": "address",
}
"""Label -> our type."""
BESIDE = {"GPE": "address", "ZIP_CODE": "address"}
"""Labels that may lie within a finding of the type without being counted as found."""
STRUCTURED = ("email", "phone", "card", "iban", "ip", "national_id")

Label = Mapping[str, Any]
Figure = tuple[str, int, int, list[str]]


def pii_figures(rows: Sequence[Mapping[str, Any]], finder: PiiFinder) -> Iterator[Figure]:
    """Name, hits, number and failures of each figure.

    A label is found when findings of its type cover half of its characters, and a finding is right when labels of its
    type cover half of it; town and postal code beside a street belong to an address.
    """
    found = list(zip(rows, finder.find_pii([row["full_text"] for row in rows]), strict=True))
    labels = [(TYPES[each["entity_type"]], _recalled(each, spans), _shown(row, *_place(each))) for row, spans in found
              for each in row["spans"] if each["entity_type"] in TYPES]  # fmt: skip
    findings = [(span.type, _right(span, row["spans"]), _shown(row, span.start, span.end)) for row, spans in found
                for span in spans if span.type in TYPES.values()]  # fmt: skip
    for name, kinds in [("structured", STRUCTURED), *((kind, (kind,)) for kind in dict.fromkeys(TYPES.values()))]:
        for measure, judged in (("recall", labels), ("precision", findings)):
            of_kind = [(good, text) for kind, good, text in judged if kind in kinds]
            wrong = [] if name == "structured" else [text for good, text in of_kind if not good]
            yield f"pii {name}: {measure}", sum(good for good, _ in of_kind), len(of_kind), wrong


def _place(label: Label) -> tuple[int, int]:
    return int(label["start_position"]), int(label["end_position"])


def _recalled(label: Label, spans: Sequence[PiiSpan]) -> bool:
    start, end = _place(label)
    same = [(span.start, span.end) for span in spans if span.type == TYPES[label["entity_type"]]]
    return 2 * _covered(start, end, same) >= end - start


def _right(span: PiiSpan, labels: Sequence[Label]) -> bool:
    own = [_place(each) for each in labels if TYPES.get(each["entity_type"]) == span.type]
    beside = [_place(each) for each in labels if BESIDE.get(each["entity_type"]) == span.type]
    covered = _covered(span.start, span.end, own)
    return covered > 0 and 2 * (covered + _covered(span.start, span.end, beside)) >= span.end - span.start


def _covered(start: int, end: int, stretches: Sequence[tuple[int, int]]) -> int:
    return sum(max(0, min(end, right) - max(start, left)) for left, right in stretches)


def _shown(row: Mapping[str, Any], start: int, end: int) -> str:
    text = row["full_text"]
    return repr(f"{text[max(0, start - 20) : start]}[{text[start:end]}]{text[end : end + 15]}")
