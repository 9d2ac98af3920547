"""Rows whose id is not stated stay as many conversations as they are; a person who is not named is nobody."""

from typing import Any

import pytest

from schemas.items.conversation import UNDATED_BEFORE
from tests import comparia
from tests.tasks.ingest.foreign import put_rows
from tests.tasks.ingest.logs import ingested, rejected
from tests.tasks.ingest.test_formats import ROWS
from tests.tasks.ingest.test_front_ends import SIBLINGS, chatgpt, librechat, open_webui
from tests.tasks.ingest.test_requests import anthropic_batch, stored
from tests.tasks.ingest.test_text_arenas import row_of_55k, row_of_ppe, row_of_wildchat

Row = dict[str, Any]
VOTES = comparia.older_sets().votes
# Name -> (a row, its column of ids, the kind of file that can hold every value)
ROWS_WITH_IDS: dict[str, tuple[Row, str, str]] = {
    "55k": (row_of_55k(0), "id", "csv"),
    "PPE": (row_of_ppe(0), "question_id", "jsonl"),
    "WildChat": (row_of_wildchat(0), "conversation_hash", "parquet"),
    "human-preference": (ROWS["human-preference"], "id", "jsonl"),
    "lmsys-chat": (ROWS["lmsys-chat"], "conversation_id", "jsonl"),
    "stored completions": (stored(0), "id", "jsonl"),
    "batches": (anthropic_batch(0), "custom_id", "jsonl"),
    "sharegpt": (ROWS["sharegpt"], "id", "jsonl"),
    "Open WebUI": (open_webui(SIBLINGS), "id", "jsonl"),
    "LibreChat": (librechat(SIBLINGS), "conversationId", "jsonl"),
    "ChatGPT": (chatgpt(SIBLINGS), "conversation_id", "jsonl"),
    "compar:IA": (VOTES[0], "conversation_pair_id", "parquet"),
}


@pytest.mark.parametrize("missing", [None, "", "  "])
@pytest.mark.parametrize("name", ROWS_WITH_IDS)
def test_rows_without_an_id_are_as_many_conversations_as_rows_with_ids(tmp_path, name, missing):
    row, column, kind = ROWS_WITH_IDS[name]
    counts = []
    for number, ids in enumerate(([f"row-{place:08d}" for place in range(3)], [missing] * 3)):
        data = put_rows(tmp_path / f"data{number}", [row | {column: each} for each in ids], kind)
        store = ingested(data, tmp_path / f"store{number}")
        assert rejected(store) == {}
        counts.append((store.height("conversations"), store.height("battles")))
    assert counts[0] == counts[1]


@pytest.mark.parametrize("name", ["55k", "PPE", "sharegpt"])
def test_an_id_is_the_same_in_a_column_of_numbers_with_a_null(tmp_path, name):
    row, column, _ = ROWS_WITH_IDS[name]
    ids = []
    for number in (7, 7.0):
        data = put_rows(tmp_path / f"data-{number}", [row | {column: number}], "parquet")
        ids.append(ingested(data, tmp_path / f"store-{number}").read("conversations")["conversation_id"].sort())
    assert ids[0].equals(ids[1])


def test_several_choices_without_an_id_are_several_conversations(tmp_path):
    choices = [{"message": {"role": "assistant", "content": words}} for words in ("One.", "Two.")]
    rows = [stored(0) | {"id": "", "choices": choices}] * 2
    store = ingested(put_rows(tmp_path / "data", rows, "jsonl"), tmp_path / "store")
    assert store.height("conversations") == 4


@pytest.mark.parametrize("missing", [None, "", " ", float("nan")])
def test_a_person_without_a_name_is_nobody(tmp_path, missing):
    sessions = {"evaluation_session_id": None}
    rows = [ROWS["human-preference"] | sessions | {"judge": missing, "id": f"row-{place:08d}"} for place in range(2)]
    kind = "parquet" if isinstance(missing, float) else "jsonl"
    store = ingested(put_rows(tmp_path / "data", rows, kind), tmp_path / "store")
    assert store.read("battles")["judge"].to_list() == [None, None]


@pytest.mark.parametrize("missing", [None, "", " "])
def test_a_row_without_a_time_is_read_and_has_none(tmp_path, missing):
    rows = [ROWS["lmsys-chat"] | {"conversation_id": f"row-{place:08d}", "tstamp": missing} for place in range(2)]
    store = ingested(put_rows(tmp_path / "data", rows, "jsonl"), tmp_path / "store")
    assert rejected(store) == {}
    assert (store.read("sightings")["tstamp"] < UNDATED_BEFORE).all()


def test_a_person_is_the_same_in_a_column_of_numbers_with_a_null(tmp_path):
    rows = [
        ROWS["human-preference"] | {"id": f"{name}-row-0000", "judge": judge} for name, judge in (("a", 7), ("b", 7.0))
    ]
    store = ingested(put_rows(tmp_path / "data", rows, "jsonl"), tmp_path / "store")
    assert store.height("battles") == 2
    assert store.read("battles")["judge"].n_unique() == 1
