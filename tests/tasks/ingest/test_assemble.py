"""Lines -> conversations and battles: what the last of many lines says, once."""

import datetime

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tasks.storage.content_id import text_id
from tests.tasks.ingest.logs import (
    DAY,
    chat,
    conv_id,
    conversations_of,
    image_name,
    ingested,
    rejected,
    state,
    texts,
    vote,
    write,
)

ONE, TWO = image_name("one"), image_name("two")


def test_growing_lines_become_the_final_conversation(tmp_path):
    (row,) = conversations_of(
        tmp_path, chat("a", "Q1", "A1"), chat("a", "Q1", "A1", "Q2", "A2", at=60), chat("a", "Q1", "A1", at=1)
    ).to_dicts()
    assert (texts(row), row["num_turns"], row["line"]) == (["Q1", "A1", "Q2", "A2"], 2, 2)
    assert row["prompt_id"] == text_id("Q1\n\nQ2")
    assert [turn["text_id"] for turn in row["turns"]] == [text_id(text) for text in texts(row)]
    assert [turn["role"] for turn in row["turns"]] == ["user", "assistant"] * 2


def test_a_new_image_under_one_conv_id_is_another_conversation(tmp_path):
    rows = conversations_of(
        tmp_path,
        chat("a", "Q1", "A1", images=[ONE]),
        chat("a", "Q1", "A1", "Q2", "A2", images=[ONE], at=10),
        chat("a", "Q1", "B1", images=[TWO], at=20),
    ).to_dicts()
    assert [texts(row) for row in rows] == [["Q1", "A1", "Q2", "A2"], ["Q1", "B1"]]
    assert rows[0]["conversation_id"] == conv_id("a")
    assert rows[1]["conversation_id"].startswith(conv_id("a") + "-")


def test_an_image_that_comes_after_a_question_about_none_starts_another_conversation(tmp_path):
    asked = (
        chat("a", "What is this?", "I see no picture."),
        chat("a", "What is this?", "I see no picture.", kind="upvote", at=1),
    )
    again = chat("a", "What is this?", "A cat.", images=[ONE], at=9)
    rows = conversations_of(tmp_path, *asked, again).to_dicts()
    assert [(texts(row)[1], len(row["image_problems"]), row["feedback"]) for row in rows] == [
        ("I see no picture.", 0, ["upvote"]),
        ("A cat.", 1, []),
    ]


def test_an_image_in_a_later_turn_starts_no_other_conversation(tmp_path):
    grown = state("a", "Hi", "Hello", "What is this?", "A cat.")
    grown["messages"][2][1] = ["What is this?", [ONE]]
    (row,) = conversations_of(tmp_path, chat("a", "Hi", "Hello"), chat(state=grown, at=9)).to_dicts()
    assert (row["num_turns"], row["image_problems"]) == (2, ["image_missing"])


def test_an_early_vote_without_an_image_finds_the_conversation_of_its_own_image(tmp_path):
    records = [
        chat("a", beside=[ONE]),
        chat("b", beside=[ONE]),
        vote("a", "b", at=5),
        chat("a", beside=[TWO], at=20),
        chat("b", beside=[TWO], at=20),
        vote("a", "b", "rightvote", at=25),
    ]
    assert conversations_of(tmp_path, *records, name="2024-04-20-conv.json").height == 4
    battles = ingested(tmp_path / "logs", tmp_path / "store").read("battles")
    assert battles["winner"].to_list() == ["model_a", "model_b"]
    assert battles["conversation_a"].n_unique() == 2


def test_a_conversation_across_midnight_stays_one_and_keeps_its_first_day(tmp_path):
    logs, half_a_day = tmp_path / "logs", 12 * 3600
    write(logs, DAY, chat("a", "Q1", "A1", at=half_a_day - 60))
    write(logs, "vision-tmp-2024-06-21-conv.json", chat("a", "Q1", "A1", "Q2", "A2", at=half_a_day + 60))
    (row,) = ingested(logs, tmp_path / "store").read("conversations").to_dicts()
    assert (row["num_turns"], row["day"]) == (2, datetime.date(2024, 6, 20))


def test_a_vote_links_two_conversations_and_the_last_vote_counts(tmp_path):
    write(tmp_path / "logs", DAY, chat("a"), chat("b"), vote("a", "b", at=5), vote("a", "b", "tievote", at=9))
    store = ingested(tmp_path / "logs", tmp_path / "store")
    (battle,) = store.read("battles").to_dicts()
    assert (battle["battle_id"], battle["conversation_b"]) == (conv_id("a"), conv_id("b"))
    assert (battle["winner"], battle["model_a"], battle["model_b"], battle["line"]) == ("tie", "x", "y", 4)
    assert store.read("conversations")["voted"].to_list() == [True, True]


def test_a_vote_without_chat_lines_brings_its_own_conversations(tmp_path):
    rows = conversations_of(tmp_path, vote(state("a", "Q", "A", "Q2", "A2"), state("b", "Q", "B"))).to_dicts()
    assert [(row["num_turns"], row["anonymous"]) for row in rows] == [(2, True), (1, True)]
    (battle,) = ingested(tmp_path / "logs", tmp_path / "store").read("battles").to_dicts()
    assert (battle["turns_a"], battle["turns_b"]) == (2, 1)


def test_buttons_are_remembered_once_each(tmp_path):
    pressed = ("upvote", "flag", "upvote")
    records = [chat("a", kind=kind, at=at) for at, kind in enumerate(pressed)]
    (row,) = conversations_of(tmp_path, chat("a"), *records).to_dicts()
    assert row["feedback"] == ["upvote", "flag"]


def test_overlapping_windows_do_not_double_anything(tmp_path):
    logs, store = tmp_path / "logs", tmp_path / "store"
    for day in (19, 20, 21):
        write(logs, f"2024-06-{day}-conv.json", chat(f"c{day}", at=(day - 20) * 86400), vote(f"l{day}", f"r{day}"))
    ingested(logs, store, since="2024-06-19", until="2024-06-20")
    overlapping = ingested(logs, store, since="2024-06-20", until="2024-06-21")
    whole = ingested(logs, tmp_path / "whole")
    for table in ("conversations", "battles"):
        assert (
            overlapping.read(table)
            .drop("user_id", "judge", strict=False)
            .equals(whole.read(table).drop("user_id", "judge", strict=False))
        )
    assert overlapping.read("conversations").height == 9


def test_what_a_voter_wrote_is_kept_with_the_vote_that_counts(tmp_path):
    write(
        tmp_path / "logs",
        DAY,
        vote("a", "b", reason="left is vague"),
        vote("a", "b", at=20, reason="  right reads the sign  "),
        vote("c", "d", reason=" "),
        vote("e", "f", kind="share", reason="not a vote"),
        vote("g", "h", reason=["no text"]),
    )
    store = ingested(tmp_path / "logs", tmp_path / "store")
    words = "right reads the sign"
    assert store.read("battles").select("vote_reason", "vote_reason_id").rows() == [
        (None, None),
        (words, text_id(words)),
    ]
    assert rejected(store) == {(DAY, 5): "bad_vote_reason"}


TURNS = ("Q1", "A1", "Q2", "A2", "Q3", "A3")


def stored(store) -> dict[int, list[list[str] | None]]:
    """Line -> the texts stored with its states."""
    rows = store.read("sightings").sort("line", "side").group_by("line", maintain_order=True).agg("texts")
    return dict(rows.iter_rows())


def test_texts_that_the_next_line_of_a_conversation_begins_with_are_stored_once(tmp_path):
    left, right = state("a", *TURNS[:4]), state("b", *TURNS[:2], model_name="y")
    write(
        tmp_path / "logs", DAY, chat("a", *TURNS[:2]), chat("a", *TURNS[:4]), chat("b", *TURNS[:2]), vote(left, right)
    )
    store = ingested(tmp_path / "logs", tmp_path / "store")
    assert stored(store) == {1: [None], 2: [None], 3: [None], 4: [list(TURNS[:4]), list(TURNS[:2])]}
    assert store.read("sightings").sort("line", "side")["num_messages"].to_list() == [2, 4, 2, 4, 2]
    assert [texts(row) for row in store.read("conversations").to_dicts()] == [list(TURNS[:4]), list(TURNS[:2])]


def test_nothing_leans_on_a_last_line_that_a_server_may_still_be_writing(tmp_path):
    path = write(tmp_path / "logs", DAY, chat("a", *TURNS[:2]), chat("a", *TURNS[:4], at=5), end=b"")
    (row,) = ingested(tmp_path / "logs", tmp_path / "store").read("conversations").to_dicts()
    assert texts(row) == list(TURNS[:4])
    path.write_bytes(path.read_bytes() + b"x\n")
    store = ingested(tmp_path / "logs", tmp_path / "store")
    assert rejected(store) == {(DAY, 2): "not_json"}
    assert [texts(row) for row in store.read("conversations").to_dicts()] == [list(TURNS[:2])]


names = st.sampled_from("ab")
shown = st.none() | st.sampled_from("pq").map(lambda name: [image_name(name)])
grown = st.builds(
    lambda name, count, images, at: (name, TURNS[:count], images, at),
    names,
    st.integers(1, 6),
    shown,
    st.integers(0, 50),
)


@settings(max_examples=12, suppress_health_check=list(HealthCheck))
@given(lines=st.lists(grown, min_size=1, max_size=12))
def test_conversations_are_those_of_lines_that_are_read_one_a_file(tmp_path_factory, lines):
    """Nothing is left out across files, so one line a file is the reading without leaving out."""
    folder = tmp_path_factory.mktemp("lines")
    records = [chat(name, *said, images=images, at=at) for name, said, images, at in lines]
    write(folder / "together", DAY, *records)
    for number, record in enumerate(records):
        write(folder / "apart", f"{number:02d}/{DAY}", record)
    together, apart = (ingested(folder / name, folder / f"{name}-store") for name in ("together", "apart"))
    one, other = (store.read("conversations").drop("source", "line", "user_id") for store in (together, apart))
    assert one.equals(other)
    assert set(one["conversation_id"].str.slice(0, 32)) == {conv_id(name) for name, *_ in lines}
    assert apart.read("sightings")["texts"].null_count() == 0


@pytest.mark.parametrize(
    ("logged", "thinking", "answer"),
    [
        ("<think>Hm.\n</think>\n\nA cat.", "Hm.", "A cat."),
        ("\n<thinking>Hm. <think></thinking>A cat.", "Hm. <think>", "A cat."),
        ("Hm.\n</think>\n\nA cat.", "Hm.", "A cat."),
        ("<think>Cut o", "Cut o", ""),
        ("<think>\n\n</think>\n\nA cat.", None, "A cat."),
        ("Write <think>x</think> first.", None, None),
        ("It ends with `</think>`\nA cat.", None, None),
        ("```\nx\n</think>\n```\n", None, None),
    ],
)
def test_thinking_at_the_head_of_an_answer_is_no_part_of_it(tmp_path, logged, thinking, answer):
    asked, answer = "<think>I ask</think>", logged if answer is None else answer
    served = {"first_word_seconds": 1.5}
    told = chat("a", asked, logged) | {"arena": served}
    voted = vote(state("a", asked, logged), state("b", asked, "No."), at=30)
    rows = conversations_of(tmp_path, told, chat("a", asked, logged, "Q2", logged, at=60), voted)
    rows = rows.sort("conversation_id").to_dicts()
    assert [texts(row) for row in rows] == [[asked, answer, "Q2", answer], [asked, "No."]]
    assert rows[0]["turns"][1]["text_id"] == text_id(answer)
    found = {each["turn"]: each for each in rows[0]["served"]}
    assert [turn for turn, each in found.items() if each["thinking"] == thinking and thinking] == [1, 3] * bool(
        thinking
    )
    assert found[1]["first_word_seconds"] == 1.5, "a vote of the same state takes nothing away"
    assert not thinking or found[3]["thinking_id"] == text_id(thinking)
    assert rows[1]["served"] is None


@pytest.mark.parametrize("shared", [("a", "c"), ("c", "b"), ("b", "c"), ("c", "a")])
@pytest.mark.parametrize("is_earlier_on_turn", [False, True])
def test_a_conversation_that_is_compared_with_two_others_is_a_side_of_its_latest_vote_alone(
    tmp_path, shared, is_earlier_on_turn
):
    turns = ("Why?", "So.", "And then?", "That.")
    talks = {name: state(name, *turns, model_name=name) for name in "abc"}
    opinions = {"opinions": [{"turn": 1, "reasons": ["useful+"]}, None]} if is_earlier_on_turn else {}
    both = [vote(talks["a"], talks["b"], **opinions), vote(*(talks[name] for name in shared), "rightvote", at=20.0)]
    write(tmp_path / "logs", DAY, *both)
    store = ingested(tmp_path / "logs", tmp_path / "store")
    battles = store.read("battles").select("conversation_a", "conversation_b", "winner", "turns_a", "turns_b")
    assert battles.rows() == [(*map(conv_id, shared), "model_b", 2, 2)]
    assert rejected(store) == {}
