"""compar:IA's sets: a vote is on its turn, a chat is there once and whole, and no marked row comes through."""

import random
from collections import Counter
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from schemas.errors import BadInput
from tasks.ingest.formats.comparia_tables import rows_of_comparison
from tasks.ingest.log_files import source_files
from tasks.storage.tables import Store
from tests.comparia import CHOICES, MODELS, OLDER_MARKS, REASONS, comparison, new_set, older_sets
from tests.tasks.ingest.logs import ingested

WINNERS = {"a_better": "model_a", "b_better": "model_b", "both_good": "tie", "both_bad": "tie_bothbad"}
VOTES = "SELECT battle_id, turn, winner, counts, seconds_to_vote, categories FROM votes ORDER BY battle_id, turn"


def taken_in(folder: Path, *sets: list[dict], **settings: object) -> Store:
    """The store of a Parquet file for each set of rows."""
    (folder / "logs").mkdir(parents=True)
    for number, rows in enumerate(sets):
        pq.write_table(pa.Table.from_pylist(rows), folder / "logs" / f"set-{number}.parquet")
    return ingested(folder / "logs", folder / "store", **settings)


def one(turns: int = 2, seed: int = 3, raw: bool = False, **changes: object) -> list[dict]:
    """The rows of one comparison, with a vote on its first turn."""
    return comparison(random.Random(seed), 0, turns, raw, **changes)


def rejects(store: Store) -> list[tuple]:
    """Line, reason and evidence of rejected lines."""
    return store.read("rejects").drop_nulls("line").select("line", "reason", "evidence").rows()


def test_every_choice_but_idk_is_the_vote_on_its_turn(tmp_path):
    rows = new_set(comparisons=30)
    stored = taken_in(tmp_path, rows).ask(VOTES)
    expected = {
        (row["comparison_id"], row["turn"] + 1): WINNERS[row["choice"]] for row in rows if row["choice"] in WINNERS
    }
    assert {(row["battle_id"], row["turn"]): row["winner"] for row in stored.iter_rows(named=True)} == expected
    assert {row["choice"] for row in rows} == set(CHOICES)


def test_what_the_source_says_beside_a_vote_is_stored_with_both_answers(tmp_path):
    rows = new_set()
    reactions = taken_in(tmp_path, rows).read("reactions")
    voted = [row for row in rows if row["choice"] in WINNERS]
    assert reactions.height == 2 * len(voted)
    for row in voted:
        of_row = reactions.filter(turn=row["turn"] + 1).filter(
            pl.col("conversation_id").str.starts_with(row["comparison_id"])
        )
        told = of_row.select("side", "model", "seconds_to_vote", "categories", "languages").sort("side").rows()
        metadata = row["metadata"]
        same = (metadata["time_to_vote"], metadata["categories"] or [], metadata["languages"] or [])
        assert told == [("a", row["model_a"], *same), ("b", row["model_b"], *same)]


def test_of_the_votes_on_turns_of_a_comparison_the_latest_is_the_battle(tmp_path):
    rows = new_set(comparisons=30)
    store = taken_in(tmp_path, rows)
    latest = {row["comparison_id"]: row["turn"] + 1 for row in rows if row["choice"] in WINNERS}
    battles = store.read("battles")
    assert dict(battles.select("battle_id", "turns_a").iter_rows()) == latest
    counted = store.ask(VOTES).filter("counts")
    assert dict(counted.select("battle_id", "turn").iter_rows()) == latest


def test_each_chat_is_there_once_in_whatever_order_its_rows_come(tmp_path):
    rows = new_set(comparisons=20)
    shuffled = random.Random(5).sample(rows, len(rows))
    tables = []
    for name, some in (("as written", rows), ("shuffled", shuffled)):
        store = taken_in(tmp_path / name, some)
        sort = {"conversations": "conversation_id", "battles": "battle_id", "reactions": ["conversation_id", "turn"]}
        tables.append([store.read(table).drop("line").sort(by) for table, by in sort.items()])
    assert all(first.equals(second) for first, second in zip(*tables, strict=True))
    num_turns = dict(tables[0][0].select("conversation_id", "num_turns").iter_rows())
    turns = Counter(row["comparison_id"] for row in rows)
    assert num_turns == dict(turns) | {f"{name}-b": count for name, count in turns.items()}


@pytest.mark.parametrize("seed", range(3))
def test_every_row_is_kept_dropped_or_rejected_once(tmp_path, seed):
    rows = new_set(seed, comparisons=20, raw=True)
    rng = random.Random(seed)
    for row in rng.sample(rows, 9):
        damage = rng.choice(("turn", "choice", "model_a", "full_conversation_a", "excluded"))
        row[damage] = {"turn": 99, "choice": "maybe", "model_a": "", "full_conversation_a": [], "excluded": True}[
            damage
        ]
    store = taken_in(tmp_path, rows)
    outcomes = store.ask("SELECT line, count(*) AS n FROM line_outcomes GROUP BY line")
    assert sorted(outcomes.rows()) == [(line, 1) for line in range(1, len(rows) + 1)]
    assert len(rejects(store)) == 9


def test_results_of_a_search_are_counted_beside_what_was_typed(tmp_path):
    rows = [
        row
        for row in new_set()
        if row["full_conversation_a"][-2]["content"] != row["full_conversation_a"][-2]["user_content"]
    ]
    store = taken_in(tmp_path, rows)
    for turns, unread in store.read("conversations").select("turns", "unread_parts").iter_rows():
        assert not any("Web:" in turn["content"] for turn in turns)
        assert unread == ["search_results"] * (len(turns) // 2)


def test_a_mark_in_a_column_excludes_a_row_whose_metadata_say_otherwise(tmp_path):
    (row,) = one(turns=1, raw=True)
    store = taken_in(tmp_path, [row | {"archived": True}])
    assert rejects(store) == [(1, "excluded_by_source", "by archived")]


def test_where_no_model_was_chosen_nobody_voted_even_if_a_model_has_no_name(tmp_path):
    votes = older_sets()[1]
    nobody = {"chosen_model_name": None, "both_equal": False, "model_a_name": None}
    store = taken_in(tmp_path, [votes[0] | nobody, *votes[1:]])
    assert votes[0]["conversation_pair_id"] not in store.read("battles")["battle_id"].to_list()


MARKS = {
    "excluded": True,
    "contains_pii": True,
    "contains_spam": True,
    "archived": True,
    "cohorts": "pix",
    "llm_analyzed": False,
    "error": {"code": "provider_error", "message": "x", "pos": "a", "is_timeout": False},
}
"""Mark of the raw export -> a value that alone excludes a row, whatever the others say."""
UNKNOWN = ("archived", "llm_analyzed", "contains_pii")
"""Marks that exclude a row also while they are null: nobody has looked."""


def marked(name: str, value: object) -> list[dict]:
    (row,) = one(turns=1, raw=True)
    if name == "excluded":
        return [row | {"excluded": value}]
    return [row | {"extra_metadata": row["extra_metadata"] | {name: value}}]


@pytest.mark.parametrize(("name", "value"), [*MARKS.items(), *((name, None) for name in UNKNOWN)])
def test_every_mark_of_the_raw_export_alone_excludes_its_row(tmp_path, name, value):
    store = taken_in(tmp_path, marked(name, value))
    assert rejects(store) == [(1, "excluded_by_source", f"by {name}")]
    assert [store.height(table) for table in ("sightings", "conversations", "battles", "reactions")] == [0] * 4


def test_a_row_of_the_raw_export_without_a_mark_is_kept(tmp_path):
    store = taken_in(tmp_path, one(turns=1, raw=True))
    assert rejects(store) == []
    assert store.height("battles") == 1


def _without_answer(side: str) -> list[dict]:
    rows = one(turns=1)
    rows[0][f"full_conversation_{side}"] = rows[0][f"full_conversation_{side}"][:-1]
    return rows


CONTRADICTIONS = {
    "a turn that the talk has not": (
        one(turns=1, turn=1),
        "bad_reaction",
        "turn: not one of 0 to 0, the turns of the talk",
    ),
    "an unknown choice": (one(turns=1, choice="a_good"), "unknown_winner", "not a_better"),
    "a vote on a missing answer": (_without_answer("b"), "bad_reaction", "turn: not one of 1 to 0"),
    "no model": (one(turns=1, model_b=""), "bad_model", "str, not a printable name"),
    "no talk": (one(turns=1, full_conversation_b=None), "unexpected_row", "TypeError where comparia"),
}


@pytest.mark.parametrize("what", CONTRADICTIONS)
def test_a_row_that_contradicts_the_format_is_a_reject_with_its_place(tmp_path, what):
    rows, reason, evidence = CONTRADICTIONS[what]
    found = rejects(taken_in(tmp_path, [*new_set(comparisons=1), *rows]))
    assert [(line, why) for line, why, _ in found] == [(2, reason)]
    assert evidence in found[0][2]


def test_numbers_of_a_column_with_nulls_are_read_as_the_whole_numbers_that_they_are(tmp_path):
    rows = new_set(comparisons=6)
    of_fractions = [row | {"turn": float(row["turn"])} for row in rows]
    of_fractions[0]["metadata"] = of_fractions[0]["metadata"] | {"time_to_vote": float("nan")}
    store = taken_in(tmp_path / "new", of_fractions)
    assert rejects(store) == []
    assert store.ask(VOTES)["turn"].to_list() == taken_in(tmp_path / "as written", rows).ask(VOTES)["turn"].to_list()
    reactions = [row | {"msg_index": float(row["msg_index"])} for row in older_sets().reactions]
    store = taken_in(
        tmp_path / "older", [*reactions, reactions[0] | {"msg_index": None}, reactions[0] | {"msg_index": 0.5}]
    )
    assert [(line, reason) for line, reason, _ in rejects(store)] == [(13, "bad_reaction"), (14, "bad_reaction")]


PRINTED = "ModelResponseStream(id='chatcmpl-1', created=1, model='heron-2', object='chat.completion.chunk')"


@pytest.mark.parametrize("words", [PRINTED, f"A heron. {PRINTED}", PRINTED.replace("Stream", "")])
@pytest.mark.parametrize("side", "ab")
def test_an_object_of_the_server_is_no_answer_in_any_of_the_sets(tmp_path, side, words):
    sets = [one(turns=1), *(rows[:1] for rows in older_sets())]
    for (row,), column in zip(sets, (f"full_conversation_{side}", *[f"conversation_{side}"] * 3), strict=True):
        row[column] = [*row[column][:-1], row[column][-1] | {"content": words}]
    store = taken_in(tmp_path, *sets)
    assert rejects(store) == [(1, "bad_messages", "an answer is a printed object of the server")] * 4
    assert store.height("sightings") == 0


def test_a_person_may_ask_what_an_object_of_the_server_is(tmp_path):
    (row,) = one(turns=1)
    for side in "ab":
        asked = row[f"full_conversation_{side}"][0] | {"content": PRINTED, "user_content": PRINTED}
        row[f"full_conversation_{side}"] = [asked, *row[f"full_conversation_{side}"][1:]]
    assert rejects(taken_in(tmp_path, [row])) == []


@pytest.mark.parametrize("given", [None, "comparia"])
def test_a_renamed_column_is_one_line_that_names_it(tmp_path, given):
    renamed = [{("vote" if name == "choice" else name): value for name, value in row.items()} for row in new_set()]
    with pytest.raises(BadInput, match="choice" if given else "neither a log nor a known dataset") as told:
        taken_in(tmp_path, renamed, format=given)
    assert "\n" not in str(told.value)


def test_the_set_is_known_by_its_columns_also_in_json(tmp_path):
    (tmp_path / "logs").mkdir()
    pl.DataFrame(new_set()).write_ndjson(tmp_path / "logs" / "set.jsonl")
    assert [name for _, name in source_files(tmp_path / "logs")] == ["comparia"]
    store = ingested(tmp_path / "logs", tmp_path / "store")
    assert set(store.read("conversations")["model"]) == set(MODELS)
    assert store.read("rejects").drop_nulls("line").is_empty()


def test_each_of_the_older_sets_is_known_by_its_columns(tmp_path):
    for name, rows in older_sets()._asdict().items():
        pq.write_table(pa.Table.from_pylist(rows), tmp_path / f"{name}.parquet")
    formats = [name for _, name in source_files(tmp_path)]
    assert formats == ["comparia-conversations", "comparia-reactions", "comparia-votes"]


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0)])
def test_the_older_sets_together_give_each_chat_once(tmp_path, order):
    sets = older_sets(pairs=24)
    store = taken_in(tmp_path, *(sets[place] for place in order))
    stored = store.ask("SELECT model, num_turns FROM conversations").rows()
    expected = [(row[f"model_{side}_name"], row["conv_turns"]) for row in sets.conversations for side in "ab"]
    assert Counter(stored) == Counter(expected)
    assert store.height("battles") == len(sets.votes)
    assert rejects(store) == []
    assert store.ask("SELECT count(*) AS n FROM line_outcomes").item() == sum(map(len, sets))


def test_a_vote_of_the_older_set_has_what_is_said_of_each_answer(tmp_path):
    votes = older_sets().votes
    rows = taken_in(tmp_path, votes).read("reactions").sort("source", "line", "side")
    told = rows.select("winner", "reasons", "comment", "turn").rows()
    expected = []
    for vote in votes:
        winner = "tie" if vote["both_equal"] else "model_" + "ab"[vote["chosen_model_name"] == vote["model_b_name"]]
        for side in "ab":
            reasons = [name for name in REASONS if vote[f"conv_{name}_{side}"]]
            signed = [f"{name}{'+' if REASONS.index(name) < 4 else '-'}" for name in reasons]
            expected.append((winner, signed, vote[f"conv_comments_{side}"] or None, vote["conv_turns"]))
    assert told == expected


def test_a_reaction_is_to_the_answer_that_msg_index_names_instructions_included(tmp_path):
    reactions = older_sets().reactions
    store = taken_in(tmp_path, reactions)
    rows = store.read("reactions").sort("line")
    told = rows.select("model", "turn", "liked", "comment").rows()
    liked = {(True, False): True, (False, True): False, (False, False): None}
    assert told == [
        (row["refers_to_model"], row["msg_rank"] + 1, liked[row["liked"], row["disliked"]], row["comment"])
        for row in reactions
    ]
    people = {row["visitor_id"] for row in reactions} - {None}
    files = [path.read_bytes() for path in Path(store.root).rglob("*") if path.is_file()]
    assert not any(name.encode() in content for name in people for content in files)
    assert rows["user_id"].null_count() == 1


def _reaction(**changes: object) -> list[dict]:
    return [older_sets().reactions[1] | changes]


OLDER_CONTRADICTIONS = {
    "an index past the end": (_reaction(msg_index=40), "bad_reaction", "msg_index: not one of 0 to"),
    "an index of a question": (_reaction(msg_index=0), "bad_reaction", "that of no answer"),
    "another talk": (_reaction(refers_to_conv_id="f" * 32), "bad_reaction", "refers to neither talk"),
    "liked and disliked": (_reaction(liked=True, disliked=True), "bad_reaction", "both liked and disliked"),
    "a number for a button": (_reaction(liked=2), "unexpected_row", "ValueError"),
    "a third model": ([older_sets().votes[0] | {"chosen_model_name": "z"}], "unknown_winner", "not one of the two"),
    "equal and chosen": ([older_sets().votes[0] | {"both_equal": True}], "unknown_winner", "and one is chosen"),
}


@pytest.mark.parametrize("what", OLDER_CONTRADICTIONS)
def test_an_older_row_that_contradicts_the_format_is_a_reject_with_its_place(tmp_path, what):
    rows, reason, evidence = OLDER_CONTRADICTIONS[what]
    found = rejects(taken_in(tmp_path, rows))
    assert [(line, why) for line, why, _ in found] == [(1, reason)]
    assert evidence in found[0][2]


OLDER_MARKED = {
    "archived": True,
    "pii_analyzed": False,
    "contains_pii": True,
    "postprocess_failed": True,
    "cohorts": "pix",
}


@pytest.mark.parametrize("name", OLDER_MARKED)
@pytest.mark.parametrize("which", ["conversations", "votes", "reactions"])
def test_every_mark_of_an_older_raw_row_alone_excludes_it(tmp_path, which, name):
    (row, *_) = getattr(older_sets(), which)
    clean, raw = row | OLDER_MARKS, row | OLDER_MARKS | {name: OLDER_MARKED[name]}
    store = taken_in(tmp_path, [clean, raw])
    assert rejects(store) == [(2, "excluded_by_source", f"by {name}")]
    assert set(store.read("sightings")["line"]) == {1}


OTHER_TYPES = {
    "comparia": ({"full_conversation_b": "a text", "turn": "0"}, "full_conversation_b is text in place of list"),
    "comparia-conversations": ({"conversation_a": 1}, "conversation_a is number, time or truth value in place of list"),
    "comparia-votes": ({"both_equal": "no"}, "both_equal is text in place of number, time or truth value"),
    "comparia-reactions": ({"msg_index": [3]}, "msg_index is list in place of number, time or truth value"),
}


@pytest.mark.parametrize("name", OTHER_TYPES)
def test_a_column_of_another_type_is_one_line_that_names_it(tmp_path, name):
    change, words = OTHER_TYPES[name]
    older = older_sets(pairs=4)
    rows = {
        "comparia": new_set(comparisons=2), "comparia-conversations": older.conversations,
        "comparia-votes": older.votes, "comparia-reactions": older.reactions,
    }[name]  # fmt: skip
    with pytest.raises(BadInput, match=f"has the columns of {name}, but .*{words}") as raised:
        taken_in(tmp_path, [row | change for row in rows])
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("signs", "stored"),
    [
        (None, ["useful+", "incorrect-", "off_topic", "tag_2cool"]),
        ({"off-topic": "negative", "2cool": "neutral"}, ["useful+", "incorrect-", "off_topic-", "tag_2cool"]),
    ],
)
def test_a_reason_of_the_database_whose_sign_nobody_knows_is_stored_without_one(signs, stored):
    of_sides = ("content", "answered_at", "reasoning", "trace", "model", "reasons", "comment")
    names = ["comparison_id", "turn", "choice", "created_at", "guardrail", "voted_at", "categories", "languages"]
    names += ["cohorts", "error", "llm_analyzed", "contains_pii", "contains_spam", "archived", "typed"]
    record = dict.fromkeys([*names, "search_results", *(f"{name}_{side}" for name in of_sides for side in "ab")])
    record |= {"signs": signs, "reasons_a": ["useful", "incorrect", "off-topic", "2cool"]}
    (row,) = rows_of_comparison([record])
    assert (row["reasons_a"], row["reasons_b"]) == (stored, [])


def test_words_about_answers_that_nobody_voted_on_are_reactions(tmp_path):
    row = older_sets(pairs=1).votes[0] | {"chosen_model_name": None, "both_equal": False}
    row |= {"conv_useful_a": True, "conv_comments_b": "Too long."}
    (silent,) = older_sets(seed=8, pairs=1).votes
    silent |= {"chosen_model_name": None} | {name: None for name in silent if name.startswith("conv_comments")}
    silent |= {name: False for name in silent if name.startswith("conv_") and type(silent[name]) is bool}
    store = taken_in(tmp_path, [row, silent])
    assert store.height("battles") == 0
    reactions = store.read("reactions").select("model", "winner", "liked", "comment").sort("comment", nulls_last=True)
    said = zip((row["model_a_name"], row["model_b_name"]), (row["conv_comments_a"], "Too long."), strict=True)
    assert reactions.rows() == [(model, None, None, comment) for model, comment in said]
    assert "useful+" in store.read("reactions")["reasons"].explode().to_list()
