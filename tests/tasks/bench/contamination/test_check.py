"""`curate bench check`: which rows of any dataset hold a benchmark question."""

import json
from pathlib import Path

import polars as pl
import pytest

from flows.products import hidden_texts, item_ids
from schemas.benches.bench import BenchItem, HiddenItem
from schemas.errors import BadInput
from tasks.bench.contamination.check import Checker, questions_of_release, questions_of_store
from tests.builders import conversation, store_with

LONG = "The picture shows a triangle with two equal sides and an angle of forty degrees, how large are the others"
ASKED = {"role": "user", "content": LONG}
ANSWER = {"role": "assistant", "content": "Seventy."}


@pytest.fixture
def bench(tmp_path):
    public, hidden = conversation("q1", LONG, "Yes.", image_ids=["1" * 32]), conversation("q2", "What is it?", "It.")
    about = {"topic": 0, "first_month": "2024-09", "last_month": "2024-11", "drawn": True}
    store = store_with(
        tmp_path,
        conversations=[public, hidden],
        bench=[BenchItem(conversation_id="q1", document_id=public.document_id, topic=0)],
        hidden=[HiddenItem(document_id=hidden.document_id, **about)],
    )
    return questions_of_store(store, item_ids(store), hidden_texts(store))


def _check(bench, path, column=None):
    checker = Checker(bench, 0.5)
    return list(checker.overlaps(path, column)), checker.counted


SHAPES = {
    "messages": {"messages": [ASKED, ANSWER]},
    "messages wrapped one by one": {"conversation": [[ASKED], [ANSWER]]},
    "parts": {"messages": [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": LONG}]}]},
    "from and value": {"conversations": [{"from": "human", "value": LONG}, {"from": "gpt", "value": "Seventy."}]},
    "turns of texts": {"turns": [LONG, "And now?"]},
    "a battle": {"conversation_a": [ASKED], "conversation_b": [ASKED]},
    "prompt": {"prompt": LONG},
    "text": {"text": f"Q: {LONG}\nA: Seventy."},
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", ["jsonl", "parquet", "csv"])
def test_a_question_is_found_in_every_published_shape(bench, tmp_path, shape, kind):
    rows = [{name: [] if isinstance(value, list) else "" for name, value in SHAPES[shape].items()}, SHAPES[shape]]
    path = tmp_path / f"outside.{kind}"
    if kind == "jsonl":
        path.write_text("\n".join(map(json.dumps, rows)))
    elif kind == "parquet":
        pl.DataFrame(rows[::-1], infer_schema_length=None).reverse().write_parquet(path)
    else:
        cells = [{n: v if isinstance(v, str) else json.dumps(v) for n, v in row.items()} for row in rows]
        pl.DataFrame(cells).write_csv(path)
    (found,), counted = _check(bench, path)
    assert (found.row, found.question_id, found.split, found.contaminated) == (2, "q1", "public", True)
    assert (counted.rows, counted.questions, counted.questions_found) == (2, 2, 1)


def test_what_a_model_says_is_no_contamination(bench, tmp_path):
    path = tmp_path / "answers.jsonl"
    path.write_text(json.dumps({"messages": [{"role": "user", "content": "Repeat."}, ANSWER | {"content": LONG}]}))
    assert _check(bench, path)[0] == []


def test_a_short_question_is_evidence_only_with_its_image(bench, tmp_path):
    short = bench.with_columns(prompt=pl.lit("What is it?"), image=pl.lit("1" * 32)).head(1)
    path = tmp_path / "short.jsonl"
    rows = [{"text": "what is it"}, {"text": "What is it?", "images": [{"path": "1" * 32 + ".png"}]}]
    path.write_text("\n".join(map(json.dumps, rows)))
    found, counted = _check(short, path)
    assert [(o.row, o.match, o.contaminated) for o in found] == [(1, "normalised", False), (2, "exact", True)]
    assert (counted.short, counted.questions_found, counted.matches["exact"]) == (1, 1, 1)


def test_the_hidden_split_is_looked_for_too(bench):
    assert dict(bench.select("question_id", "split").iter_rows()) == {"q1": "public", "q2": "hidden"}


def test_rows_are_read_some_at_a_time_and_keep_their_numbers(bench, tmp_path, monkeypatch):
    monkeypatch.setattr("tasks.bench.contamination.outside.ROWS_AT_ONCE", 7)
    path = tmp_path / "many.jsonl"
    path.write_text("\n".join(json.dumps({"text": LONG if n % 10 == 0 else f"row {n}"}) for n in range(1, 41)))
    found, counted = _check(bench, path)
    assert [overlap.row for overlap in found] == [10, 20, 30, 40]
    assert counted.rows == 40


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("none.jsonl", None, "does not exist"),
        ("data.xlsx", "x", "unknown kind of dataset"),
        ("bad.jsonl", '{"text": "a"}\n{"text"', "line 2 is not JSON"),
        ("list.jsonl", "[1, 2]", "line 1 is not an object"),
        ("odd.jsonl", '{"body": "a"}', "--column"),
        ("odd.csv", "body,other\na,b\n", "--column: it has body, other"),
        ("bad.parquet", "PAR1", "cannot be read"),
    ],
)
def test_a_file_that_cannot_be_checked_is_one_clear_line(bench, tmp_path, name, content, told):
    path = tmp_path / name
    if content is not None:
        path.write_text(content)
    with pytest.raises(BadInput, match=told) as refused:
        _check(bench, path)
    assert "\n" not in str(refused.value)


def test_a_column_can_be_named(bench, tmp_path):
    path = tmp_path / "odd.jsonl"
    path.write_text(json.dumps({"body": LONG, "text": "other"}))
    assert _check(bench, path)[0] == []
    assert len(_check(bench, path, "body")[0]) == 1


def test_a_release_holds_its_own_benchmark(released_store, tmp_path):
    folder = Path(released_store.at("releases/first"))
    bench = questions_of_release(folder)
    found, counted = _check(bench, folder / "bench" / "data")
    assert counted.questions == counted.questions_found == 1
    assert found[0].same_image
    assert _check(bench, folder / "chat" / "data")[1].questions_found == 0
    with pytest.raises(BadInput, match="is not a release with a benchmark"):
        questions_of_release(tmp_path)
