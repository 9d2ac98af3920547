"""Sections of an item of a store. Texts that no run searched for personal data are searched when they are shown."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from schemas.benches.judging import verdict_words
from tasks.explore.masking import PII_TABLE, MaskedStore, masked_parts, searched_now, spans_found
from tasks.product import Product
from tasks.shown import Section, Text
from tasks.storage.content_id import text_id
from tasks.storage.queries.repeated_values import with_repeats
from tasks.storage.tables import Store

VERDICTS_MAX = 200
"""Verdicts on one page; the others are counted."""


class _Masked:
    """Texts of a store, masked unless somebody asked for them."""

    def __init__(self, store: MaskedStore, opened: bool) -> None:
        self._store, self._opened = store, opened

    def texts(self, labelled_texts: Sequence[tuple[str, str, str]]) -> list[Text]:
        """The texts as a page shows them; `labelled_texts` has label, note and text."""
        texts_by_id = {text_id(text): text for _, _, text in labelled_texts}
        spans = spans_found(self._store, texts_by_id)
        if PII_TABLE not in self._store.damaged:
            new_spans = {key: searched_now(text) for key, text in texts_by_id.items() if key not in spans}
            spans |= {key: text_spans for key, text_spans in new_spans.items() if text_spans is not None}
        repeated = with_repeats([(text, spans.get(key)) for key, text in texts_by_id.items()])
        masks = dict(zip(texts_by_id, repeated, strict=True))
        return [
            Text(label, note, masked_parts(text, masks[text_id(text)], self._opened))
            for label, note, text in labelled_texts
        ]


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


def sections_of_item(
    store: MaskedStore, conversation_id: str, opened: bool, products: Sequence[Product]
) -> list[Section]:
    """The sections of a conversation that is an item of a benchmark; none for others.

    Answers and verdicts are those on any form of it, redacted or not.
    """
    masked = _Masked(store, opened)
    return [
        *(
            Section(section.title, [*section.facts], masked.texts(section.texts), section.beside)
            for product in products
            for section in product.item_sections(store, conversation_id)
        ),
        *_answers(store, conversation_id, masked),
        *_verdicts(store, conversation_id, masked),
    ]


def _answers(store: Store, item_id: str, masked: _Masked) -> Iterator[Section]:
    rows = store.ask(_ANSWERS, item_id=item_id).to_dicts()
    if rows:
        versions = _numbered(rows, "model", "version")
        yield Section(
            "Answers",
            texts=masked.texts(
                [
                    (row["model"], _joined(row["state"], versions[row["model"], row["version"]]), row["text"])
                    for row in rows
                ]
            ),
            beside=True,
        )


def _verdicts(store: Store, item_id: str, masked: _Masked) -> Iterator[Section]:
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
    yield Section("Verdicts", facts=more, texts=masked.texts(texts), beside=True)


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
