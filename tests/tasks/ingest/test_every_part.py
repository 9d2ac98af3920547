"""The law of parts for each format: a part is stored, or counted as unread in its place, or its row is a reject."""

import json
from collections import Counter

import pytest

from tasks.ingest.formats import ARENA_LOGS, BUILT_IN, format_names
from tasks.ingest.log_line import Place, Seen
from tasks.ingest.read_logs import LogContent
from tasks.storage.keyed_ids import Pseudonyms
from tests.tasks.ingest.drawn_talks import WRITERS, Case, Drawn, Row, words_in
from tests.tasks.ingest.logs import ingested, write

ROWS_DRAWN = 200
TEXTS_ALONE = ("arena-logs", "human-preference-55k", "bench-items")
"""Formats whose contents are texts: rows with other parts are rejects."""


def read(row: Row, name: str) -> LogContent:
    """What becomes of one row of a format."""
    content = LogContent()
    place, people = Place("rows", 1), Pseudonyms(b"k" * 16)
    if name == ARENA_LOGS:
        content.add_line(json.dumps(row).encode(), place, False, people, {})
    else:
        content.add_row(row, place, False, BUILT_IN[name], people)
    return content


def talks_read(content: LogContent) -> list[list[Seen]]:
    """The sightings of each conversation, its final state last."""
    by_talk: dict[str, list[Seen]] = {}
    for sighting in content.sightings:
        by_talk.setdefault(sighting.conv_id, []).append(sighting)
    return list(by_talk.values())


def assert_lawful(row: Row, drawn: Drawn, number: int, seen: list[Seen]) -> None:
    """Every part of a talk is in its sightings once, or counted in the place where it stands."""
    in_row = set(words_in(row))
    words = {word: message for word, message in drawn.words_of(number).items() if word in in_row}
    stored = Counter(words_in([seen[-1].texts, [(sighting.served or {}).get("thinking") for sighting in seen]]))
    assert stored.total() == len(stored), (row, "a part is stored twice")
    lost = words.keys() - stored.keys()
    unread = Counter(part["message"] for part in seen[-1].unread_parts)
    counted = unread.total() + len(seen[-1].image_places) + len(seen[-1].name_problems)
    # values without a word may be a part that nobody can name, or none
    unnamed = drawn.unnamed_of(number)
    assert len(lost) <= counted <= len(lost) + unnamed.total(), (row, lost, seen[-1])
    assert unread <= Counter(words[word] for word in lost) + unnamed, (row, "a part is counted in another place")


def drawn_rows(case: Case, name: str) -> list[tuple[Row, Drawn]]:
    """Rows of a format and what was drawn for each: half of them with few odd contents, so that they are read."""
    drawn_talks = [case.drawn(f"{name} {seed}", 0.3 if seed % 2 else 0.1) for seed in range(ROWS_DRAWN)]
    return [(case.write(drawn.talks), drawn) for drawn in drawn_talks]


@pytest.mark.parametrize("name", WRITERS)
def test_every_part_of_a_row_is_stored_or_counted_in_its_place_or_the_row_is_a_reject(name):
    case, format_name = WRITERS[name], name.partition(" ")[0]
    outcomes = Counter[str]()
    for row, drawn in drawn_rows(case, name):
        content = read(row, format_name)
        if content.rejects:
            assert (len(content.rejects), content.rejects[0].line, content.sightings) == (1, 1, []), row
            continue
        talks = talks_read(content)
        assert len(talks) == case.talks, row
        for number, seen in enumerate(talks):
            assert_lawful(row, drawn, number, seen)
            outcomes["read"] += 1
            outcomes["unread"] += bool(seen[-1].unread_parts)
    assert outcomes["read"] > ROWS_DRAWN / 4
    assert outcomes["unread"] or format_name in TEXTS_ALONE


def test_every_format_has_a_case():
    built_in = format_names()[: len(BUILT_IN) + 1]
    assert {name.partition(" ")[0] for name in WRITERS} == set(built_in)


def test_what_was_thought_before_each_answer_is_beside_it(tmp_path):
    answers = [{"role": "assistant", "content": f"A{turn}", "reasoning_content": f"T{turn}"} for turn in range(3)]
    messages = [each for turn in range(3) for each in ({"role": "user", "content": f"Q{turn}"}, answers[turn])]
    sides = {**dict.fromkeys(("conversation_a", "conversation_b"), messages), "model_a": "x", "model_b": "y"}
    write(tmp_path / "data", "chats.jsonl", {"id": "chat-0001", "messages": messages, "model": "x"})
    write(tmp_path / "data", "votes.jsonl", {"question_id": "vote-0001", "winner": "model_a", **sides})
    store = ingested(tmp_path / "data", tmp_path / "store")
    conversations = store.read("conversations").to_dicts()
    assert [[turn["content"] for turn in row["turns"]] for row in conversations] == [
        ["Q0", "A0", "Q1", "A1", "Q2", "A2"]
    ] * 3
    told = [[(answer["turn"], answer["thinking"]) for answer in row["served"]] for row in conversations]
    assert told == [[(1, "T0"), (3, "T1"), (5, "T2")]] * 3
    assert store.read("battles").select("winner", "turns_a").rows() == [("model_a", 3)]
