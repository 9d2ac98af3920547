"""What chooses rows of the listing besides facets: items like one, an area of the map, a question in SQL.

Also what becomes of a selection: a CSV of ids, a board, a queue of a review.
"""

import csv
import io
import re
from urllib.parse import quote

import numpy as np
import polars as pl
import pytest
from matplotlib.path import Path as Outline

from schemas.rating import RatingMethod
from tasks.explore.alike import NEAREST
from tasks.explore.asked_place import asked_place
from tasks.explore.facets import NoSelection, in_area, query_of
from tasks.explore.of_store import OfStore
from tasks.explore.summaries import selection_board
from tasks.leaderboard.leaderboard import rate_slice
from tasks.leaderboard.votes import rateable, votes
from tasks.policy.explained import explained
from tasks.shown import item_key
from tests.builders import battle, conversation, decision, measure_clean, sides, store_with
from tests.looked_store import EMAIL, client, strict

SEED = 7
VERSIONS = {"text_embedding": "1", "image_embedding": "1"}
ITEMS = 300


@pytest.fixture(scope="module")
def near(tmp_path_factory):
    """A store of conversations with random vectors: its source, and the unit vectors, float32 (ITEMS, 16)."""
    draws = np.random.default_rng(SEED)
    vectors = draws.normal(size=(ITEMS, 16)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    chats = [conversation(f"n{n:03d}", f"prompt number {n}", "Yes.") for n in range(ITEMS)]
    bare = conversation("bare", "a prompt without vector", "No.")
    store = store_with(tmp_path_factory.mktemp("near"), conversations=[*chats, bare])
    found = {chat.prompt_id: {"vector": vector.tolist()} for chat, vector in zip(chats, vectors, strict=True)}
    measure_clean(store, [*chats, bare], text_embedding=found | {bare.prompt_id: None})
    return OfStore(store, explained, (), lambda: VERSIONS), vectors


def _number(page: str) -> int:
    return int(re.findall(r'id="total">([\d,]+)', page)[0].replace(",", ""))


@pytest.mark.parametrize("number", [0, 41, ITEMS - 1])
def test_more_like_this_lists_the_nearest_by_exact_products(near, number):
    source, vectors = near
    page = client(source).get(f"/?like={item_key('conversation', f'n{number:03d}')}").text
    cosines = vectors @ vectors[number]
    nearest = [each for each in np.argsort(-cosines, kind="stable") if each != number][:24]
    shown = re.findall(r'href="/items/(\w+)">\n<span class="text', page)
    assert shown == [item_key("conversation", f"n{each:03d}") for each in nearest]
    assert _number(page) == NEAREST
    assert f"cosine {cosines[nearest[0]]:.2f}" in page


def test_an_item_links_to_more_like_it(near):
    key = item_key("conversation", "n001")
    assert f'href="/?like={key}"' in client(near[0]).get(f"/items/{key}").text


@pytest.mark.parametrize(
    ("link", "says"),
    [
        ("/?like=0123456789abcdef", "There is no such item to be like"),
        (f"/?like={item_key('conversation', 'bare')}", "This item has no vector of the model in use"),
        ("/?area=1,2_3,4", "needs 3 to 200 corners"),
        ("/topics?area=1,2_3,x_4,5", "needs 3 to 200 corners"),
        ("/?area=nan,2_3,4_5,6", "needs 3 to 200 corners"),
        ("/?sql=SELECT+1", "The answer names no items"),
        ("/?sql=DROP+TABLE+battles", "only questions are asked here"),
        ("/?sql=SELECT+nothing+FROM+battles", "nothing"),
        (f"/?sql={'x' * 5000}", "more than 4,000 characters"),
        (f"/?q={'x' * 201}", "more than 200 characters"),
        ("/?" + "&".join(f"tag={number}" for number in range(101)), "more than 100 parameters"),
        ("/?tpic=maps", "There is no filter"),
        ("/selection/ids.csv?Language=German", "language, like, model"),
        ("/selection/board?langauge=German", "There is no filter"),
        ("/selection/ids.csv?area=1", "needs 3 to 200 corners"),
        ("/selection/board?like=zz", "There is no such item"),
    ],
)
def test_a_link_that_selects_nothing_is_one_page_with_one_sentence(near, link, says):
    answer = client(near[0]).get(link)
    assert answer.status_code == 400
    assert "Nothing is selected" in answer.text and says in answer.text
    strict(answer.text)


def test_an_area_has_the_points_that_another_library_finds_inside():
    draws = np.random.default_rng(SEED)
    rows = pl.DataFrame({"x": draws.uniform(-2, 2, 2_000), "y": draws.uniform(-2, 2, 2_000)})
    for corners in (3, 5, 12, 40):
        angles = np.sort(draws.uniform(0, 2 * np.pi, corners))
        ends = np.column_stack([np.cos(angles), np.sin(angles)]) * draws.uniform(0.3, 2, (corners, 1))
        expected = Outline(ends).contains_points(rows.to_numpy())
        assert (in_area(rows, [(x, y) for x, y in ends]).to_numpy() == expected).all()


def test_points_without_a_place_are_in_no_area():
    rows = pl.DataFrame({"x": [0.0, None], "y": [0.0, None]}, schema={"x": pl.Float32, "y": pl.Float32})
    assert in_area(rows, [(-1, -1), (1, -1), (0, 2)]).to_list() == [True, False]


def test_a_selection_comes_back_from_its_link():
    pairs = [("q", "cat"), ("kind", "battle"), ("like", "0" * 16), ("area", "1.5,2_-3,4_5,6"), ("sql", "FROM battles")]
    query = query_of(pairs)
    assert query_of(query.pairs) == query and query.area == ((1.5, 2.0), (-3.0, 4.0), (5.0, 6.0))


def test_a_question_selects_the_items_whose_ids_it_answers(near):
    question = "SELECT conversation_id FROM conversations WHERE conversation_id < 'n010'"
    page = client(near[0]).get(f"/?sql={quote(question)}").text
    assert _number(page) == 11  # n000 to n009, and bare


def test_the_page_for_sql_answers_as_the_command_does(browser, looked):
    question = 'SELECT conversation_id, "turns.content" AS said FROM conversations ORDER BY 1'
    page = browser.get(f"/sql?q={quote(question)}").text
    strict(page)
    with asked_place(looked.store.root, False, dict) as asked:
        rows = [row for batch in asked.answer(question) for row in batch.to_pylist()]
    assert f"{len(rows)} rows" in page
    assert EMAIL not in page and "[email]" in page and f"<bdi>{looked.quarantined}<" not in page


@pytest.mark.parametrize(
    ("question", "says"),
    [
        ("SELECT * FROM read_csv('/etc/passwd')", "may not stand behind FROM"),
        ("SELECT * FROM battels", "did you mean battles?"),
        ("DELETE FROM battles", "only questions are asked here"),
        ("SELECT 1; SELECT 2", "one statement at a time"),
        ("SELECT '<script>window.ran = 1</script>' FROM", "SQL: "),
        ("SELECT count(*) FROM quarantine", "there is no table"),
    ],
)
def test_a_question_that_may_not_be_asked_is_one_line_on_the_page(browser, question, says):
    answer = browser.get(f"/sql?q={quote(question)}")
    alert = re.findall(r'role="alert" dir="auto">(.*)</p>', answer.text)
    assert answer.status_code == 200 and len(alert) == 1 and says in alert[0]
    strict(answer.text)


def test_a_question_that_is_too_long_is_not_cut_to_another_one(browser):
    every = "SELECT count(*) AS counted FROM conversations"
    page = browser.get("/sql", params={"q": f"{every} {' ' * 4_000} WHERE false"}).text
    assert "more than 4,000 characters" in page and "<th" not in page


def test_hostile_answers_are_texts_on_the_page(browser):
    page = browser.get("/sql?q=" + quote("SELECT model, '<svg onload=x>' AS \"<b>\" FROM conversations")).text
    strict(page)
    assert "<svg onload" not in page and "&lt;svg onload=x&gt;" in page


def test_no_private_text_is_asked_by_a_comparison(browser):
    question = (
        f"""SELECT conversation_id FROM conversations WHERE array_to_string("turns.content", '') LIKE '%{EMAIL}%'"""
    )
    assert _number(browser.get(f"/?sql={quote(question)}").text) == 0


def test_ids_of_a_selection_are_a_file_that_the_audit_log_knows_of(looked, tmp_path):
    chats = [conversation("=cmd", "A formula", "No."), conversation("plain", "None", "Yes.")]
    store = store_with(tmp_path, conversations=chats)
    answer = client(OfStore(store, explained)).get("/selection/ids.csv?kind=conversation")
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert sorted(row["id"] for row in rows) == ["'=cmd", "plain"]
    assert answer.headers["content-disposition"] == 'attachment; filename="selection.csv"'
    (entry,) = (store.read_bytes(name) for name in store.fs.glob(store.at("audit/*.json")) and ["audit/00000001.json"])
    assert b'"exported"' in entry and b'"ids":2' in entry


def test_without_an_audit_log_no_ids_are_given(tmp_path):
    store = store_with(tmp_path, conversations=[conversation("c", "Hello", "Yes.")])
    store.write_bytes("audit", b"a file in the way")
    answer = client(OfStore(store, explained)).get("/selection/ids.csv")
    assert answer.status_code == 500 and "c\n" not in answer.text.split("\n")


def test_the_board_of_a_selection_is_that_of_its_kept_votes(tmp_path):
    draws = np.random.default_rng(SEED)
    rows, cast = [], []
    for n in range(60):
        left, right = sides(f"b{n}", f"question {n}", "Yes.")
        names = draws.choice(["ant", "bee", "cow"], 2, replace=False)
        pair = [side.model_copy(update={"model": str(name)}) for side, name in zip((left, right), names, strict=True)]
        rows += pair
        cast.append(battle(*pair, winner=str(draws.choice(["model_a", "model_b", "tie"]))))
    decided = [decision(each, *(["face"] if n == 0 else [])) for n, each in enumerate(cast)]
    store = store_with(tmp_path, conversations=rows, battles=cast, decisions=decided)
    source = OfStore(store, explained)
    board, count = selection_board(source.listing, source.boards())
    kept = [{"model_a": each.model_a, "model_b": each.model_b, "winner": each.winner.value} for each in cast[1:]]
    expected = rate_slice(votes(rateable(pl.DataFrame(kept))), "selection", RatingMethod())
    assert count == 59
    assert [(row.model, round(row.rating, 6)) for row in board] == [
        (row.model, round(row.rating, 6)) for row in expected
    ]
    assert "59 kept votes among 60 selected" in client(source).get("/selection/board?kind=battle").text
    assert "a board needs 30" in client(source).get("/selection/board?q=question+5").text


def test_no_area_has_more_corners_than_a_link_may_name():
    with pytest.raises(NoSelection):
        query_of([("area", "_".join(["1,2"] * 201))])
