"""Requests to APIs of models and what these answered: stored completions, batches, logs of proxies."""

import json
import random
from typing import Any

import polars as pl
import pytest

from tests.tasks.ingest.foreign import assert_conserved, put_rows, sentence, with_each_null
from tests.tasks.ingest.logs import ingested, rejected, texts

Row = dict[str, Any]
SECONDS = 1_718_884_800


def asked(number: int) -> list[Row]:
    return [{"role": "user", "content": sentence(random.Random(number))}]


def answer(number: int) -> str:
    return sentence(random.Random(1000 + number))


def stored(number: int) -> Row:
    """A stored completion; `messages` is what OpenAI gives at /chat/completions/ID/messages."""
    listed = [{"id": f"m{number}", "name": None, **message} for message in asked(number)]
    said = {"role": "assistant", "content": answer(number), "refusal": None, "tool_calls": None}
    return {
        "object": "chat.completion", "id": f"chatcmpl-{number:08d}", "model": "heron-2", "created": SECONDS + number,
        "choices": [{"index": 0, "message": said, "finish_reason": "stop"}], "usage": {"total_tokens": 9},
        "metadata": {}, "messages": {"object": "list", "data": listed, "has_more": False},
    }  # fmt: skip


def anthropic_answer(number: int) -> Row:
    parts = [{"type": "text", "text": answer(number)}]
    return {"id": f"msg_{number}", "type": "message", "role": "assistant", "model": "heron-2", "content": parts}


def anthropic_request(number: int) -> Row:
    return {"model": "heron-2", "max_tokens": 99, "system": "Be kind.", "messages": asked(number)}


def anthropic_batch(number: int) -> Row:
    result = {"type": "succeeded", "message": anthropic_answer(number)}
    return {"custom_id": f"request-{number}", "params": anthropic_request(number), "result": result}


def openai_batch(number: int) -> Row:
    body = {"model": "heron-2", "messages": asked(number)}
    choices = [{"index": 0, "message": {"role": "assistant", "content": answer(number)}}]
    response = {"status_code": 200, "body": {"id": "x", "model": "heron-2", "choices": choices}}
    return {"custom_id": f"request-{number}", "method": "POST", "url": "/v1", "body": body, "response": response}


FORMS = {
    "stored completions": (stored, "list"),
    "stored completions, printed": (stored, "printed"),
    "Anthropic's batch": (anthropic_batch, "jsonl"),
    "OpenAI's batch": (openai_batch, "jsonl"),
    "Anthropic beside": (lambda number: anthropic_request(number) | {"response": anthropic_answer(number)}, "jsonl"),
    "a proxy's pairs": (lambda n: {"request": anthropic_request(n), "response": anthropic_answer(n)}, "array"),
    "a text beside": (lambda n: {"messages": asked(n), "model": "heron-2", "response": answer(n)}, "jsonl"),
    "a proxy's text": (lambda n: {"request": anthropic_request(n), "response": answer(n)}, "jsonl"),
    "JSON in a text": (
        lambda n: {"messages": asked(n), "model": "heron-2", "response": json.dumps(stored(n), indent=1)},
        "jsonl",
    ),
    "a completion of a text": (
        lambda n: {"messages": asked(n), "model": "heron-2", "choices": [{"index": 0, "text": answer(n)}]},
        "jsonl",
    ),
    "choices beside": (lambda n: {"messages": asked(n), "model": "heron-2", "choices": stored(n)["choices"]}, "jsonl"),
}


@pytest.mark.parametrize("form", FORMS)
def test_questions_and_their_answers_are_conversations(tmp_path, form):
    row, kind = FORMS[form]
    store = ingested(put_rows(tmp_path / "data", map(row, range(9)), kind), tmp_path / "store")
    assert rejected(store) == {}
    assert_conserved(store, 9)
    conversations = store.read("conversations").sort("line").to_dicts()
    assert [texts(each) for each in conversations] == [[asked(n)[0]["content"], answer(n)] for n in range(9)]
    assert {each["model"] for each in conversations} == {"heron-2"}
    assert all(each["unread_parts"] == [] for each in conversations)


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_a_request_without_a_model_or_a_time_has_those_of_its_answer(tmp_path, kind):
    none_stated = {"model": None, "created": None, "request": None, "messages": None}
    answers = [{**stored(n), "messages": None, "metadata": None} for n in range(4)]
    rows = [none_stated | {"messages": asked(n), "response": answers[n]} for n in range(2)]
    rows += [none_stated | {"request": {"messages": asked(2)}, "response": answers[2]}]
    rows += [rows[0] | {"model": "wren-1", "created": SECONDS + 9}]
    store = ingested(put_rows(tmp_path / "data", rows, kind), tmp_path / "store")
    facts = store.read("conversations").sort("line").select("model", pl.col("tstamp").dt.epoch("s"))
    assert facts.rows() == [
        ("heron-2", SECONDS),
        ("heron-2", SECONDS + 1),
        ("heron-2", SECONDS + 2),
        ("wren-1", SECONDS + 9),
    ]


def test_a_model_that_is_null_is_as_unknown_as_one_that_is_not_there(tmp_path):
    rows = [{"messages": asked(n), **model} for n, model in enumerate(({}, {"model": None}, {"model": "heron-2"}))]
    store = ingested(put_rows(tmp_path / "data", rows, "jsonl"), tmp_path / "store")
    assert rejected(store) == {}
    assert store.read("conversations").sort("line")["model"].to_list() == ["unknown", "unknown", "heron-2"]


def with_choices(row: Row, answers: list[str]) -> Row:
    """The row with several choices in place of one."""
    choices = [{"index": n, "message": {"role": "assistant", "content": words}} for n, words in enumerate(answers)]
    if "response" not in row:
        return row | {"choices": choices}
    answered = row["response"]
    inside = {"body": answered["body"] | {"choices": choices}} if "body" in answered else {"choices": choices}
    return row | {"response": answered | inside}


SEVERAL = {
    "stored completions": (stored, "list"),
    "OpenAI's batch": (openai_batch, "jsonl"),
    "a proxy's pairs": (lambda n: {"request": anthropic_request(n), "response": {"id": "x"}}, "array"),
    "choices beside": (lambda n: {"messages": asked(n), "model": "heron-2"}, "jsonl"),
}


@pytest.mark.parametrize("form", SEVERAL)
def test_each_of_several_choices_is_a_conversation(tmp_path, form):
    row, kind = SEVERAL[form]
    answers = [[sentence(random.Random(f"{n} {choice}")) for choice in range(1 + n % 4)] for n in range(8)]
    rows = [with_choices(row(n), words) for n, words in enumerate(answers)]
    store = ingested(put_rows(tmp_path / "data", rows, kind), tmp_path / "store")
    assert rejected(store) == {}
    assert_conserved(store, len(rows))
    conversations = store.read("conversations").to_dicts()
    expected = [[asked(n)[0]["content"], words] for n, of_row in enumerate(answers) for words in of_row]
    assert sorted(map(texts, conversations)) == sorted(expected)
    assert all(each["unread_parts"] == [] for each in conversations)


def test_the_first_of_several_choices_has_the_id_of_its_request(tmp_path):
    row = with_choices(stored(0), ["One.", "Two.", "Three."])
    store = ingested(put_rows(tmp_path / "data", [row], "list"), tmp_path / "store")
    ids = {texts(each)[1]: each["conversation_id"] for each in store.read("conversations").to_dicts()}
    assert ids == {"One.": row["id"], "Two.": f"{row['id']}-1", "Three.": f"{row['id']}-2"}


BEGUN = '{"bird":'
ANSWERED = {
    "the rest": (' "heron"}', '{"bird": "heron"}'),
    "the beginning and the rest": ('{"bird": "wren"}', '{"bird": "wren"}'),
    "what stands in the request": (BEGUN, BEGUN),
}


@pytest.mark.parametrize("answered", ANSWERED)
@pytest.mark.parametrize("form", ["choices", "Anthropic's message", "Anthropic's batch"])
def test_an_answer_that_the_request_begins_is_whole(tmp_path, form, answered):
    said, whole = ANSWERED[answered]
    begun = [*asked(1), {"role": "assistant", "content": BEGUN}]
    message = {"role": "assistant", "content": said}
    request = {"model": "heron-2", "messages": begun}
    anthropic = {"type": "message", "role": "assistant", "content": [{"type": "text", "text": said}]}
    row = {
        "choices": request | {"choices": [{"message": message}]},
        "Anthropic's message": request | {"response": anthropic},
        "Anthropic's batch": {
            "custom_id": "r-1",
            "params": request,
            "result": {"type": "succeeded", "message": anthropic},
        },
    }[form]
    store = ingested(put_rows(tmp_path / "data", [row], "jsonl"), tmp_path / "store")
    (conversation,) = store.read("conversations").to_dicts()
    assert texts(conversation) == [asked(1)[0]["content"], whole]
    assert conversation["unread_parts"] == []


@pytest.mark.parametrize(("words", "is_read"), [("One.", True), ("One. Two.", True), ("", True), ("Three.", False)])
def test_a_text_beside_an_answer_is_read_where_it_begins_with_it(tmp_path, words, is_read):
    rows = [{"messages": [*asked(1), {"role": "assistant", "content": "One."}], "response": words}]
    store = ingested(put_rows(tmp_path / "data", rows, "jsonl"), tmp_path / "store")
    said = [texts(row)[-1] for row in store.read("conversations").to_dicts()]
    assert said == ([words or "One."] if is_read else [])
    assert set(rejected(store).values()) == (set() if is_read else {"bad_messages"})


def test_each_nullable_key_of_a_stored_completion_may_be_null(tmp_path):
    rows = with_each_null(stored, ["id", "created", "usage", "metadata", "object"])
    store = ingested(put_rows(tmp_path / "data", rows, "list"), tmp_path / "store")
    assert rejected(store) == {}
    assert_conserved(store, len(rows))


def test_an_answer_without_its_question_is_a_reject_that_says_what_lacks(tmp_path):
    rows = [stored(0), stored(1) | {"messages": None}]
    store = ingested(put_rows(tmp_path / "data", rows, "list"), tmp_path / "store")
    evidence = "an answer without its question; put the request, or its messages, beside it"
    assert store.read("rejects").select("line", "reason", "evidence").rows() == [(2, "bad_messages", evidence)]
    results = [{name: value for name, value in anthropic_batch(n).items() if name != "params"} for n in range(3)]
    store = ingested(put_rows(tmp_path / "results", results, "jsonl"), tmp_path / "other")
    assert set(store.read("rejects")["evidence"]) == {evidence}
    assert_conserved(store, 3)


def test_a_call_of_a_batch_that_failed_leaves_its_question_without_an_answer(tmp_path):
    rows = [anthropic_batch(0), anthropic_batch(1) | {"result": {"type": "errored", "error": {"type": "overloaded"}}}]
    store = ingested(put_rows(tmp_path / "data", rows, "jsonl"), tmp_path / "store")
    lengths = [len(texts(each)) for each in store.read("conversations").sort("line").to_dicts()]
    assert lengths == [2, 1]


def test_one_custom_id_in_two_files_is_two_conversations(tmp_path):
    folder = put_rows(tmp_path / "data", [anthropic_batch(0)], "jsonl")
    (folder / "other.jsonl").write_text(json.dumps(anthropic_batch(0)) + "\n")
    assert ingested(folder, tmp_path / "store").read("conversations").height == 2


def test_a_list_whose_data_comes_first_is_one_row_of_several_conversations(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "page.json").write_text(json.dumps({"data": [stored(0), stored(1)], "has_more": False}))
    store = ingested(folder, tmp_path / "store")
    assert (store.read("conversations").height, rejected(store)) == (2, {})
    assert store.read("sightings")["side"].to_list() == [0, 1]
