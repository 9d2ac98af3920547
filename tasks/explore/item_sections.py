"""Sections of an item of a store. Texts that no run searched for personal data are searched when they are shown."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from schemas.benches.judging import verdict_words
from tasks.explore.masking import PII_TABLE, MaskedStore, masked_parts, searched_now, spans_found
from tasks.product import Product
from tasks.release.registered import ShownSection
from tasks.shown import Section, Text
from tasks.storage.content_id import text_id
from tasks.storage.queries.repeated_values import FoundSpan
from tasks.storage.tables import Store

VERDICTS_MAX = 200
"""Verdicts on one page; the others are counted."""


_ANSWERS = """
    -- a row is one model's answer to a form of the item
    SELECT model, version, state, text
    FROM answers
    WHERE question_id = $item_id
    ORDER BY model, version, document_id NULLS FIRST
"""
_VERDICTS = """
    -- a row is one verdict on two answers to a form of the item
    SELECT judge, judge_version, model_a, model_b, protocol, label, text
    FROM verdicts
    WHERE question_id = $item_id
    ORDER BY judge, judge_version, model_a, model_b
"""


def sections_of_item(store: Store, conversation_id: str, products: Sequence[Product]) -> list[ShownSection]:
    """The sections of a conversation that is an item of a benchmark, not masked yet; none for others.

    Answers and verdicts are those on any form of it, redacted or not.
    """
    return [
        *(section for product in products for section in product.item_sections(store, conversation_id)),
        *_answers(store, conversation_id),
        *_verdicts(store, conversation_id),
    ]


def texts_of(sections: Iterable[ShownSection]) -> list[str]:
    """The texts of sections."""
    return [text for section in sections for _, _, text in section.texts]


def found_in(store: MaskedStore, texts: Iterable[str]) -> dict[str, Sequence[FoundSpan] | None]:
    """Text -> the personal data found in it; None for one that was not searched and cannot be searched now."""
    texts_by_id = {text_id(text): text for text in texts}
    spans = spans_found(store, texts_by_id)
    may_search = PII_TABLE not in store.damaged
    return {
        text: spans[content_id] if content_id in spans else searched_now(text) if may_search else None
        for content_id, text in texts_by_id.items()
    }


def masked_section(section: ShownSection, spans: Mapping[str, Sequence[FoundSpan] | None], opened: bool) -> Section:
    """The section as a page shows it: personal data is left out unless `opened`. `spans`: those of all its texts."""
    texts = [Text(label, note, masked_parts(text, spans[text], opened)) for label, note, text in section.texts]
    return Section(section.title, [*section.facts], texts, section.beside)


def _answers(store: Store, item_id: str) -> Iterator[ShownSection]:
    rows = store.ask(_ANSWERS, item_id=item_id).to_dicts()
    if rows:
        versions = _numbered(rows, "model", "version")
        texts = [
            (row["model"], _joined(row["state"], versions[row["model"], row["version"]]), row["text"]) for row in rows
        ]
        yield ShownSection("Answers", texts=texts, beside=True)


def _verdicts(store: Store, item_id: str) -> Iterator[ShownSection]:
    rows = store.ask(_VERDICTS, item_id=item_id).to_dicts()
    if not rows:
        return
    versions, first_rows = _numbered(rows, "judge", "judge_version"), rows[:VERDICTS_MAX]
    texts = [
        (
            verdict_words(row["label"], row["model_a"], row["model_b"]),
            _joined(row["judge"], versions[row["judge"], row["judge_version"]], row["protocol"])
            + f"; first {row['model_a']}, then {row['model_b']}",
            row["text"],
        )
        for row in first_rows
    ]
    more = [("Not shown", f"{len(rows) - len(first_rows):,} more")] if len(rows) > len(first_rows) else []
    yield ShownSection("Verdicts", facts=more, texts=texts, beside=True)


def _numbered(rows: list[dict[str, Any]], name: str, version: str) -> Mapping[tuple[str, str], str]:
    """(name, version) -> `version 2`; empty for a name with one version."""
    versions_of_name: dict[str, list[str]] = {}
    for row in rows:
        versions = versions_of_name.setdefault(row[name], [])
        if row[version] not in versions:
            versions.append(row[version])
    return {
        (model_or_judge, text): f"version {place + 1}" if len(versions) > 1 else ""
        for model_or_judge, versions in versions_of_name.items()
        for place, text in enumerate(versions)
    }


def _joined(*words: str) -> str:
    return ", ".join(filter(None, words))


def has_masked(sections: list[Section]) -> bool:
    """Whether a text of a section is masked."""
    return any(part.hidden for section in sections for text in section.texts for part in text.parts)
