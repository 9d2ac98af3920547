"""Facts that published sets state beside a vote: place in the session of the voter, the set's own tags, languages.

In: a row of a battle and the record of its vote. Out: the record with an opinion on the last answer of each side, which
ingest reads into the table `reactions`. Another column of a set is a name in one of the tuples below.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from tasks.ingest.formats.adapter import whole_number
from tasks.ingest.formats.parts import ASSISTANT
from tasks.ingest.formats.pictures import SourceRow, as_list
from tasks.ingest.log_line import Record, is_word

_ORDER = "evaluation_order"
"""Column of arena-human-preference-140k: the number of the vote in `evaluation_session_id`."""
_TAGS = ("category_tag", "categories", "domain", "primary_intent", "secondary_intent")
"""Columns of tags: a text, a list of texts, or objects whose true fields are tags."""
_FLAGS = ("is_code", "is_refusal")
"""Columns of which each is a tag where it is true."""
_LANGUAGES = ("language", "languages")
FACTS_OF_VOTES = (_ORDER, *_TAGS, *_FLAGS, *_LANGUAGES)
"""All these columns."""


def with_facts_of_vote(record: Record, row: SourceRow) -> Record:
    """The record with what its row says beside the vote; as it is where the row says nothing.

    Both sides must end with an answer, because an opinion is on one.
    """
    order = whole_number(row.get(_ORDER))
    tags = [word for column in _TAGS for word in _true_words(row.get(column))]
    tags += [column for column in _FLAGS if row.get(column) is True]
    languages = [word for column in _LANGUAGES for word in _true_words(row.get(column))]
    talks = [state["messages"] for state in record["states"]]
    has_answers = all(messages and messages[-1][0] == ASSISTANT for messages in talks)
    if not has_answers or (order is None and not tags and not languages):
        return record
    facts = {"session_order": order, "categories": list(dict.fromkeys(tags)), "languages": languages}
    return {**record, "opinions": [{"turn": len(messages) // 2, **facts} for messages in talks]}


def _true_words(value: Any) -> Iterator[str]:
    """The texts of a value that may stand in a table, and the names of its fields that are true, at any depth."""
    if isinstance(value, Mapping):
        for name, field in value.items():
            if field is True and name and is_word(name):
                yield name
            elif isinstance(field, Mapping):
                yield from _true_words(field)
    else:
        yield from (word for word in as_list(value) if word and is_word(word))
