"""Open WebUI's feedback: a rating is a reaction, and a vote where another model's answer was beside it."""

import base64
import json
import random
from collections import Counter
from copy import deepcopy
from pathlib import Path

import pytest

from schemas.errors import BadInput
from tasks.ingest.log_files import source_files
from tasks.storage.tables import Store
from tests.builders import USER_KEY, image_bytes
from tests.openwebui import feedback, feedbacks
from tests.tasks.ingest.foreign import put_rows
from tests.tasks.ingest.logs import ingested, rejected


def taken_in(folder: Path, rows: list[dict]) -> Store:
    """The store of an export with these rows: a JSON array."""
    (folder / "logs").mkdir(parents=True)
    (folder / "logs" / "feedback-history-export.json").write_text(json.dumps(rows))
    return ingested(folder / "logs", folder / "store")


def one(kind: str, seed: int = 3, **data: object) -> dict:
    return feedback(random.Random(seed), 11, kind, **data)


def rejects(store: Store) -> list[tuple]:
    return store.read("rejects").drop_nulls("line").select("line", "reason", "evidence").rows()


def history(row: dict) -> dict:
    return row["snapshot"]["chat"]["chat"]["history"]["messages"]


def test_the_export_is_known_by_its_keys_and_every_row_has_one_outcome(tmp_path):
    rows = feedbacks(count=18)
    store = taken_in(tmp_path, rows)
    assert [name for _, name in source_files(tmp_path / "logs")] == ["openwebui-feedback"]
    assert rejects(store) == []
    outcomes = store.ask("SELECT line, count(*) AS n FROM line_outcomes GROUP BY line ORDER BY line")
    assert outcomes.rows() == [(line, 1) for line in range(1, 19)]


def test_a_rating_is_a_reaction_to_its_answer_with_reason_comment_and_tags(tmp_path):
    rows = feedbacks()
    store = taken_in(tmp_path, rows)
    stored = store.read("reactions").drop_nulls("liked").sort("line")
    told = stored.select("model", "liked", "comment", "categories", "turn").rows()
    expected = []
    for row in rows:
        data = row["data"]
        turn = 2 if any("b: and" in each["content"] for each in history(row).values()) else 1
        expected.append((data["model_id"], data["rating"] == 1, data["comment"], data["tags"] or [], turn))
    assert told == expected
    signed = {True: "accurate_information+", False: "not_factually_correct-"}
    without = [line for line, row in enumerate(rows, 1) if row["data"]["reason"] is None]
    for line, liked, reasons in stored.select("line", "liked", "reasons").iter_rows():
        assert reasons == ([] if line in without else [signed[liked]])


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("rating", [1, -1, "1", "-1"])
@pytest.mark.parametrize("kind", ["beside", "arena"])
def test_beside_another_answer_the_rated_one_won_or_lost(tmp_path, kind, rating, seed):
    row = one(kind, seed, rating=rating)
    (battle,) = taken_in(tmp_path, [row]).read("battles").to_dicts()
    winner = battle[battle["winner"]]
    assert (winner == row["data"]["model_id"]) == (str(rating) == "1")
    assert {battle["model_a"], battle["model_b"]} == {row["data"]["model_id"], *row["data"]["sibling_model_ids"]}
    assert battle["anonymous"] == (kind == "arena")


def test_sides_are_in_the_order_in_which_the_answers_were_shown(tmp_path):
    rows = [one("beside", seed) for seed in range(12)]
    battles = taken_in(tmp_path, rows).read("battles")
    by_line = {row["line"]: row["model_a"] for row in battles.iter_rows(named=True)}
    shown = {
        line: [each["model"] for each in history(row).values() if "model" in each] for line, row in enumerate(rows, 1)
    }
    assert by_line == {line: models[0] for line, models in shown.items()}
    assert Counter(rows[line - 1]["data"]["model_id"] == model for line, model in by_line.items()).keys() == {
        True,
        False,
    }


def test_an_answer_that_was_made_again_is_no_battle(tmp_path):
    store = taken_in(tmp_path, [one("again")])
    assert (store.height("battles"), store.height("reactions")) == (0, 1)


def test_a_table_of_feedback_is_read_as_its_json_is(tmp_path):
    rows = feedbacks()
    for row in rows:
        del row["meta"]["base_models"]  # Parquet has no empty objects
    facts = []
    for kind in ("array", "parquet"):
        store = ingested(put_rows(tmp_path / kind, rows, kind), tmp_path / f"{kind}-store")
        assert rejected(store) == {}
        facts.append(store.read("reactions").drop("source", "line", "user_id").rows())
    assert facts[0] == facts[1]


def test_two_ratings_along_one_talk_are_of_one_whole_conversation(tmp_path):
    second = one("second turn")
    first = deepcopy(second)
    rated = history(second)[second["meta"]["message_id"]]
    first["meta"]["message_id"] = history(second)[rated["parentId"]]["parentId"]
    first["updated_at"] += 60
    store = taken_in(tmp_path, [second, first])
    assert store.read("conversations")["num_turns"].to_list() == [2]
    assert sorted(store.read("reactions")["turn"]) == [1, 2]


def test_pictures_are_read_and_thoughts_are_kept_apart(tmp_path):
    row = one("beside")
    asked, *answers = history(row).values()
    url = f"data:image/png;base64,{base64.b64encode(image_bytes(1)).decode()}"
    asked["files"] = [{"type": "image", "url": url}]
    for answer in answers:
        thought = '<details type="reasoning" done="true" duration="2">\n<summary>Thought</summary>\n> Hm.\n</details>\n'
        answer["content"] = thought + answer["content"]
    store = taken_in(tmp_path, [row])
    for turns, images in store.read("conversations").select("turns", "image_ids").iter_rows():
        assert len(images) == 1 and "details" not in turns[1]["content"] and "Hm" not in turns[1]["content"]


def test_no_user_id_is_in_the_store(tmp_path):
    rows = feedbacks()
    store = taken_in(tmp_path, rows)
    content = b"".join(path.read_bytes() for path in Path(store.root).rglob("*") if path.is_file())
    assert not any(row["user_id"].encode() in content for row in rows)
    assert store.read("reactions")["user_id"].n_unique() == 3


def _changed(kind: str, change: str) -> dict:
    row = one(kind)
    rated = history(row)[row["meta"]["message_id"]]
    if change == "loop":
        history(row)[rated["parentId"]]["parentId"] = rated["id"]
    elif change == "file":
        history(row)[rated["parentId"]]["files"] = [{"type": "file", "url": "x"}]
    elif change == "tool":
        rated["content"] = '<details type="tool_calls" done="true"><summary>x</summary></details>' + rated["content"]
    elif change == "gone":
        del history(row)[rated["id"]]
    elif change == "snapshot":
        row["snapshot"] = None
    elif change == "mixed":
        first = history(row)[history(row)[rated["parentId"]]["parentId"]]
        first["model"] = "another"
    return row


CONTRADICTIONS = {
    "a rating of 5": (one("alone", rating=5), "bad_reaction", "neither 1 nor -1"),
    "another model": (one("alone", model_id="z"), "model_mismatch", "not the model of the rated answer"),
    "a sibling that is not there": (one("alone", sibling_model_ids=["z"]), "bad_reaction", "lacks the answers"),
    "no rating": (one("alone") | {"type": "report"}, "unknown_type", "no rating"),
    "a loop": (_changed("alone", "loop"), "bad_messages", "its own parent"),
    "a file": (_changed("alone", "file"), "part_not_read", "no image"),
    "a tool": (_changed("alone", "tool"), "part_not_read", "a tool or a program"),
    "an answer that is not there": (_changed("alone", "gone"), "bad_reaction", "lacks the rated answer"),
    "no snapshot": (_changed("alone", "snapshot"), "bad_state", "no snapshot"),
    "two models in one talk": (_changed("second turn", "mixed"), "bad_messages", "several models"),
    "no data": (one("alone") | {"data": None}, "unexpected_row", "AttributeError"),
}


@pytest.mark.parametrize("what", CONTRADICTIONS)
def test_a_row_that_contradicts_the_format_is_a_reject_with_its_place(tmp_path, what):
    row, reason, evidence = CONTRADICTIONS[what]
    found = rejects(taken_in(tmp_path, [one("alone", 4), row]))
    assert [(line, why) for line, why, _ in found] == [(2, reason)]
    assert evidence in found[0][2]


@pytest.mark.parametrize("column", ["data", "meta", "snapshot"])
def test_a_column_of_another_type_is_one_line_that_names_it(tmp_path, column):
    with pytest.raises(BadInput, match=f"openwebui-feedback, but {column} is text in place of object"):
        taken_in(tmp_path, [row | {column: "a text"} for row in feedbacks(count=4)])


@pytest.mark.parametrize(("rating", "stored"), [(1, "too_long+"), (-1, "too_long-"), (None, "too_long")])
def test_a_reason_has_the_sign_of_its_rating_or_none(tmp_path, rating, stored):
    row = one("alone", rating=rating, reason="Too long")
    reactions = taken_in(tmp_path, [row]).read("reactions")
    assert reactions["reasons"].to_list() == [[stored]]


@pytest.mark.parametrize("seed", range(4))
def test_an_answer_that_two_ratings_compare_with_others_is_a_side_of_the_later_battle(tmp_path, seed):
    first = one("three", seed)
    shown = [name for name, each in history(first).items() if each["role"] == "assistant"]
    models = {name: history(first)[name]["model"] for name in shown}

    def rated(answer: str, at: int) -> dict:
        row = deepcopy(first) | {"id": f"rating-{at}", "updated_at": first["updated_at"] + at}
        row["meta"]["message_id"] = answer
        others = [models[name] for name in shown if name != answer]
        row["data"] |= {"rating": 1, "model_id": models[answer], "sibling_model_ids": others}
        return row

    store = taken_in(tmp_path, [rated(shown[0], 0), rated(shown[2], 60)])
    assert rejects(store) == []
    battles = store.read("battles").select("line", "winner", "model_a", "model_b").rows()
    assert battles == [(2, "model_b", models[shown[0]], models[shown[2]])]


@pytest.mark.parametrize("seed", range(3))
def test_fields_that_nobody_knows_change_nothing_of_what_is_stored(tmp_path, monkeypatch, seed):
    monkeypatch.setenv("CURATE_USER_KEY", USER_KEY)
    rows = feedbacks(seed)
    more = deepcopy(rows)
    for row in more:
        holders = [row, row["data"], row["meta"], row["snapshot"], row["snapshot"]["chat"], *history(row).values()]
        for holder in random.Random(seed).sample(holders, 4):
            holder |= {"details": {"rating": 7}, "zeta": None, "eta": [1, {"theta": "iota"}]}
    plain, odd = (taken_in(tmp_path / name, each) for name, each in (("plain", rows), ("odd", more)))
    for table in ("conversations", "battles", "reactions", "rejects"):
        columns = [name for name in plain.read(table).columns if not name.startswith("source")]
        assert odd.read(table).select(columns).equals(plain.read(table).select(columns))
