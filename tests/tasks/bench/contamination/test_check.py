"""`curate bench check`: which rows of any dataset hold a benchmark question, and what counts as holding it."""

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flows.products import hidden_texts, item_ids
from schemas.benches.bench import BenchItem, HiddenItem
from schemas.errors import BadInput
from tasks.bench.contamination.check import CHECKED_AT_ONCE, Checker, questions_of_release, questions_of_store
from tasks.bench.contamination.prompt_index import (
    DISTINCTIVE_WORDS,
    RUN_WORDS,
    PromptIndex,
    joined_words,
    words_of_each,
)
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
    "messages as indented JSON": {"messages": json.dumps([ASKED, ANSWER], indent=2)},
    "parts": {"messages": [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": LONG}]}]},
    "from and value": {"conversations": [{"from": "human", "value": LONG}, {"from": "gpt", "value": "Seventy."}]},
    "turns of texts": {"turns": [LONG, "And now?"]},
    "a battle": {"conversation_a": [ASKED], "conversation_b": [ASKED]},
    "prompt": {"prompt": LONG},
    "text": {"text": f"Q: {LONG}\nA: Seventy."},
}


@pytest.mark.parametrize("sign", [",", ";", "\t"])
def test_cells_of_a_csv_file_are_separated_as_spreadsheets_do(bench, tmp_path, sign):
    path = tmp_path / "data.csv"
    pl.DataFrame({"id": ["1"], "prompt": [LONG]}).write_csv(path, separator=sign)
    overlaps, _ = _check(bench, path)
    assert [overlap.question_id for overlap in overlaps] == ["q1"]


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


@pytest.fixture
def short_question(bench, tmp_path):
    """What is found of a short question with an image, alone in one row and with its image in another."""
    short = bench.with_columns(prompt=pl.lit("What is it?"), image=pl.lit("1" * 32)).head(1)
    path = tmp_path / "short.jsonl"
    rows = [{"text": "what is it"}, {"text": "What is it?", "images": [{"path": "1" * 32 + ".png"}]}]
    path.write_text("\n".join(map(json.dumps, rows)))
    return _check(short, path)


def test_a_short_question_is_evidence_only_with_its_image(short_question):
    found, _ = short_question
    assert [(o.row, o.match, o.contaminated) for o in found] == [(1, "normalised", False), (2, "exact", True)]


def test_a_short_question_without_its_image_is_counted_apart(short_question):
    _, counted = short_question
    assert (counted.short, counted.questions_found, counted.matches["exact"]) == (1, 1, 1)


def test_questions_of_both_splits_are_looked_for(bench):
    assert dict(bench.select("question_id", "split").iter_rows()) == {"q1": "public", "q2": "hidden"}


def test_what_a_model_says_is_no_contamination(bench, tmp_path):
    path = tmp_path / "answers.jsonl"
    path.write_text(json.dumps({"messages": [{"role": "user", "content": "Repeat."}, ANSWER | {"content": LONG}]}))
    assert _check(bench, path)[0] == []


@pytest.mark.parametrize("indent", [None, 2, "\t"])
def test_what_a_model_says_in_json_of_a_cell_is_no_contamination(bench, tmp_path, indent):
    path = tmp_path / "answers.jsonl"
    messages = [{"role": "user", "content": "Repeat."}, ANSWER | {"content": LONG}]
    path.write_text(json.dumps({"messages": json.dumps(messages, indent=indent)}))
    assert _check(bench, path)[0] == []


def test_a_list_of_texts_is_a_row_a_text(bench, tmp_path):
    path = tmp_path / "texts.json"
    path.write_text(json.dumps(["Another question", LONG]))
    found, counted = _check(bench, path)
    assert [overlap.row for overlap in found] == [2]
    assert counted.rows == 2


def test_rows_that_are_read_some_at_a_time_keep_their_numbers(bench, tmp_path):
    path, count = tmp_path / "many.jsonl", 2 * CHECKED_AT_ONCE + 1
    copies = [10, CHECKED_AT_ONCE, CHECKED_AT_ONCE + 1, count]
    texts = (LONG if number in copies else f"row {number}" for number in range(1, count + 1))
    path.write_text("\n".join(json.dumps({"text": text}) for text in texts))
    found, counted = _check(bench, path)
    assert ([overlap.row for overlap in found], counted.rows) == (copies, count)


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("none.jsonl", None, "does not exist"),
        ("data.xlsx", "x", "unknown kind of dataset"),
        ("bad.jsonl", '{"text": "a"}\n{"text"', "line 2 is not JSON"),
        ("list.jsonl", "[1, 2]", "line 1 is not an object"),
        ("odd.jsonl", '{"body": "a"}', "--column"),
        ("odd.csv", "body,other\na,b\n", "--column: it has body, other"),
        ("wide.csv", "body,other\n1,2,3\n", "--column: it has body, other"),
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


@pytest.mark.parametrize(("column", "count"), [(None, 0), ("body", 1)])
def test_a_column_can_be_named(bench, tmp_path, column, count):
    path = tmp_path / "odd.jsonl"
    path.write_text(json.dumps({"body": LONG, "text": "other"}))
    assert len(_check(bench, path, column)[0]) == count


@pytest.fixture
def released(released_store):
    """The folder of a release, and the questions of its benchmark."""
    folder = Path(released_store.at("releases/first"))
    return folder, questions_of_release(folder)


def test_a_release_holds_its_own_benchmark(released):
    folder, questions = released
    found, counted = _check(questions, folder / "bench" / "data")
    assert counted.questions == counted.questions_found == 1
    assert found[0].same_image


def test_the_chats_of_a_release_hold_no_question_of_its_benchmark(released):
    folder, questions = released
    assert _check(questions, folder / "chat" / "data")[1].questions_found == 0


def test_a_folder_that_is_no_release_has_no_questions(tmp_path):
    with pytest.raises(BadInput, match="is not a release with a benchmark"):
        questions_of_release(tmp_path)


QUESTION = "The picture shows a triangle with two equal sides and an angle of forty degrees; how large are the others?"
TEXTS = st.lists(st.lists(st.sampled_from("abc"), max_size=20).map(" ".join), max_size=8)


def _found(prompts, texts, overlap_min=0.5):
    rows = PromptIndex(pl.Series(prompts, dtype=pl.String), overlap_min).find(pl.Series(texts, dtype=pl.String))
    return {(row, prompt): (match, round(overlap, 3)) for row, prompt, match, overlap in rows.iter_rows()}


@pytest.mark.parametrize(
    ("text", "match"),
    [
        (QUESTION, "exact"),
        (QUESTION.upper(), "normalised"),
        ("  " + QUESTION.replace(" ", "\n") + "!", "normalised"),
        ("Please answer: " + QUESTION + " Explain every step you take.", "near"),
        (QUESTION.replace("forty", "fifty"), "near"),
        (" ".join(QUESTION.split()[:16]), "near"),
    ],
)
def test_a_prompt_is_found_in_a_text_that_says_the_same(text, match):
    assert _found([QUESTION], [text])[0, 0][0] == match


@pytest.mark.parametrize("text", ["", "?!", "The picture shows a triangle", " ".join(reversed(QUESTION.split()))])
def test_a_prompt_is_not_found_in_a_text_that_says_something_else(text):
    assert _found([QUESTION], [text]) == {}


def test_a_short_prompt_is_found_only_as_a_whole_text():
    short = "What is in this picture?"
    assert _found([short], ["what is in this picture", f"{short} {QUESTION}"]) == {(0, 0): ("normalised", 1.0)}


def test_a_prompt_without_words_is_found_as_it_stands_alone():
    assert _found(["???", "!"], ["???", "…", ""]) == {(0, 0): ("exact", 1.0)}


def test_wide_letters_or_ligatures_are_the_words_they_spell():
    assert joined_words(pl.Series(["ﬁne Ｗide"])).to_list() == ["fine wide"]


def test_each_sign_of_a_script_without_blanks_is_a_word():
    assert words_of_each(pl.Series(["三角形 ABC 的面积"])).to_list() == [["三", "角", "形", "abc", "的", "面", "积"]]


WITHOUT_BLANKS = {
    "Chinese": "图中三角形两条边相等请问另外两个角各是多少度",
    "Thai": "ภาพนี้แสดงอะไรและถ่ายที่ไหน",
    "Lao": "ຮູບນີ້ສະແດງຫຍັງແລະຖ່າຍຢູ່ໃສ",
    "Khmer": "តើរូបភាពនេះបង្ហាញអ្វីហើយថតនៅឯណា",
    "Burmese": "ဤပုံတွင်မည်သည့်အရာကိုပြထားသနည်း",
}


@pytest.mark.parametrize("prompt", WITHOUT_BLANKS.values(), ids=WITHOUT_BLANKS)
def test_a_prompt_in_a_script_without_blanks_is_found_in_a_part_of_it(prompt):
    assert _found([prompt], [prompt[2:]])[0, 0][0] == "near"


@settings(max_examples=50)
@given(TEXTS, TEXTS, st.sampled_from([0.3, 0.5, 0.8, 1.0]))
def test_the_index_finds_what_comparing_everything_finds(prompts, texts, overlap_min):
    expected = {}
    for row, text in enumerate(texts):
        for number, prompt in enumerate(prompts):
            mine, theirs = _runs(prompt), _runs(text)
            shared = len(mine & theirs)
            if text == prompt:
                expected[row, number] = ("exact", 1.0)
            elif text.split() == prompt.split() != []:
                expected[row, number] = ("normalised", 1.0)
            elif mine and shared >= math.ceil(overlap_min * len(mine)):
                expected[row, number] = ("near", round(shared / len(mine), 3))
    assert _found(prompts, texts, overlap_min) == expected


@contextmanager
def _pieces_of(size: int) -> Iterator[None]:
    """Texts are processed in pieces of about so many bytes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tasks.bench.contamination.prompt_index.INDEXED_BYTES", size)
        yield


PIECE_BYTES = st.sampled_from([1, 20, 10_000])


@settings(max_examples=50)
@given(TEXTS, TEXTS, PIECE_BYTES)
def test_however_many_texts_are_looked_at_together_the_same_are_found(prompts, texts, piece_bytes):
    prompts, texts = (pl.Series(some, dtype=pl.String) for some in (prompts, texts))
    index = PromptIndex(prompts, 0.5)
    alone = [index.find(texts[row : row + 1]).with_columns(pl.col("row") + row) for row in range(len(texts))]
    with _pieces_of(piece_bytes):
        assert index.find(texts).equals(pl.concat([index.find(texts[:0]), *alone]))


@settings(max_examples=50)
@given(TEXTS, PIECE_BYTES)
def test_joined_words_are_those_of_each_text(texts, piece_bytes):
    texts = pl.Series(texts, dtype=pl.String)
    with _pieces_of(piece_bytes):
        assert joined_words(texts).to_list() == [" ".join(words) for words in words_of_each(texts)]


def _runs(text):
    said = text.split()
    if len(said) < DISTINCTIVE_WORDS:
        return set()
    return {tuple(said[start : start + RUN_WORDS]) for start in range(len(said) - RUN_WORDS + 1)}
