"""Judgement files of both benchmarks are read, and what cannot be read is one clear line."""

import json

import pytest

from schemas.errors import BadInput
from tasks.judging.files.judgement_files import parsed, read_judgements

SAME = [{"type": "text", "text": "".join(f"<|The Start of Assistant {s}'s Answer|>\nx\n<|The End of" for s in "AB")}]


def line(question="q1", model="m", *games, **more):
    return {"question_id": question, "model": model, "judge": "j", "games": list(games)} | more


def game(text, score=None, key="judgment"):
    return {key: text, "score": score}


def write(folder, *rows, name="m.jsonl"):
    (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder / name


def test_arena_hard_lines_have_two_games_and_the_model_is_first_in_the_second(tmp_path):
    second = {"answer": "so [A>>B]"}
    row = line("q1", "m", game("[[A>B]]", "A>B"), game(second, "A>>B"), uid="q1", baseline="base", category="hard")
    del row["question_id"]
    found = read_judgements([write(tmp_path, row)])
    assert found.baseline == "base"
    shown = found.verdicts.select("question_id", "model_a", "model_b", "label", "category:hard").rows()
    assert shown == [("q1", "base", "m", "A>B", True), ("q1", "m", "base", "A>>B", True)]


def test_the_text_decides_and_not_the_stored_score(tmp_path):
    rows = [
        line("q1", "m", game("[[A>B]]", "A=B")),
        line("q2", "m", game("$ERROR$\n$ERROR$", "A=B", "judgement")),
        line("q3", "m", game("[[A>B]] [[B>A]]", None)),
        line("q4", "m", game("on and on", "A=B")),
        line("q5", "m", game("", "")),
        line("q6", "m", None),
        line("q7", "m", {"score": "B<A"}),
    ]
    found = read_judgements([write(tmp_path, *rows)], "base")
    assert found.verdicts["label"].to_list() == ["A>B", *[None] * 5, "A>B"]
    (counted,) = parsed(found)
    assert counted.model_dump(exclude={"model"}) == {
        "judgements": 7,
        "labels": 2,
        "conflicting": 1,
        "error_marks": 1,
        "without_label": 1,
        "empty": 2,
        "stored_differs": 1,
        "stored_as_tie": 2,
    }


def test_the_baseline_is_found_in_the_folder_or_as_the_model_compared_with_itself(tmp_path):
    folder = tmp_path / "judge_j_reference_base"
    folder.mkdir()
    write(folder, line("q1", "m", game("[[A>B]]")))
    assert read_judgements([folder]).baseline == "base"
    own = line("q1", "me", game("[[A=B]]") | {"user_prompt": SAME})
    other = line("q1", "m", game("[[A=B]]") | {"user_prompt": None})
    assert read_judgements([write(tmp_path, own, other)]).baseline == "me"


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ([{"question_id": "q1", "model": "m"}], ":1 has no list of games"),
        ([line(None, "m", game("[[A>B]]"))], ":1 has no question_id"),
        ([line("q1", "", game("[[A>B]]"))], ":1 has no model"),
        ([line("q1", "m")], ":1 has 0 games"),
        ([line("q1", "m", {"score": "C"})], "unknown label 'C'. Known: A=B, A>>B, A>B, B>>A, B>A"),
        ([line("q1", "m", game("[[A>B]]")), line("q2", "m", game(""), judge="k")], r"2 judges \(j, k\)"),
        ([line("q1", "m", game(""), baseline="other")], "'base', but the files were compared with other"),
        (["x"], ":1: not a JSON object"),
        ([], "no judgement"),
    ],
)
def test_bad_files_are_one_clear_line(tmp_path, rows, told):
    with pytest.raises(BadInput, match=told):
        read_judgements([write(tmp_path, *rows)], "base")
