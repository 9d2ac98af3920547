"""Text metrics against people: known values, each text scored once, ties as half, and a published data set's figure."""

import csv
import json

import numpy as np
import polars as pl
import pytest

from schemas.errors import CurateError
from tasks.judging.agreement.metrics import Cider, text_metrics
from tasks.judging.agreement.reproduced import board_agreement, judged, read_comparisons, reproduced, scored
from tests.places import PUBLISHED

REFERENCES = ["a red bus on a wet road", "two cats sleep on the old sofa"]


class Letters:
    """An encoder that counts letters; it remembers what it was asked."""

    version = "letters"

    def __init__(self):
        self.asked = []

    def embed_texts(self, texts):
        self.asked += texts
        counts = np.array([[text.count(letter) for letter in "abcdefghijklmnopqrstuvwxyz"] for text in texts], float)
        return (counts / np.linalg.norm(counts, axis=1, keepdims=True)).astype(np.float32)


def test_known_values_of_each_metric():
    known = text_metrics(REFERENCES, Letters(), 0)
    same, other = REFERENCES[0], "nothing like it"
    score = {name.split("_letters")[0]: metric.score for name, metric in known.items()}
    assert [round(score[name](same, same), 2) for name in ("bleu_4", "rouge_l", "cider_d")] == [100, 1, 10]
    assert score["meteor_exact_stem"](same, same) == pytest.approx(1, abs=0.01)
    assert score["bertscore_words"](same, same) == pytest.approx(1)
    assert score["meteor_exact_stem"]("two cats sleep", "two cat slept") > 0.5  # by the stem
    assert all(score[n](same, other) < score[n](same, same) / 2 for n in ("bleu_4", "rouge_l", "cider_d"))
    assert score["length"]("", other) == 3
    assert score["rouge_l"](same, "a red bus") == pytest.approx(2 * 1 * (3 / 7) / (1 + 3 / 7))
    assert all(metric.score(same, "") == 0 for name, metric in known.items() if metric.needs_reference)


def test_cider_weighs_rare_words_and_lengths_as_its_paper():
    cider = Cider(REFERENCES)  # "on" and "a"... in both references weigh nothing
    assert cider.score(REFERENCES[0], "on") == 0
    full = cider.score(REFERENCES[0], REFERENCES[0])
    longer = cider.score(REFERENCES[0], f"{REFERENCES[0]} {' '.join(['on'] * 6)}")
    assert 0 < longer < full * np.exp(-36 / 72) + 1e-9


@pytest.fixture
def votes(tmp_path):
    """Five votes on three comparisons, with answers and a reference."""
    rows = [
        (item, *(("x", "y") if rater % 2 else ("y", "x")), winner, rater)
        for item, wins in (("i", 5), ("j", 4), ("k", 3))
        for rater in range(5)
        for winner in ["model_a" if (rater < wins) == bool(rater % 2) else "model_b"]
    ]
    file = tmp_path / "votes.csv"
    with file.open("w", newline="") as out:
        csv.writer(out).writerows([("item", "model_a", "model_b", "winner", "rater"), *rows])
    return file


ANSWERS = {(item, model): text for item in "ijk" for model, text in (("x", "a red bus"), ("y", "two"))}


def test_bins_shares_and_ties_as_half_and_a_text_is_scored_once(votes):
    rows = read_comparisons(votes, 5).rows
    assert rows.select("item", "a_wins", "bin").rows() == [("i", True, "5/5"), ("j", True, "4/5"), ("k", True, "3/5")]
    letters = Letters()
    known = text_metrics(REFERENCES, letters, 0)
    references = dict.fromkeys("ijk", REFERENCES[0])
    said = {name: scored(metric, rows, ANSWERS, references) for name, metric in known.items()}
    assert len(letters.asked) == len({*letters.asked}) == 7  # the words of one reference and two answers
    shares = {row.bin: row.reproduced for row in reproduced("rouge_l", said["rouge_l"], rows, 50, 0)}
    assert shares == {"5/5": 1, "4/5": 1, "3/5": 1, "all": 1}
    winners = {("i", "x", "y"): "tie", ("j", "x", "y"): "model_b"}
    (five, four, *_, every) = reproduced("judge", judged(winners, rows), rows, 50, 0)
    assert (five.reproduced, five.ties, four.reproduced) == (0.5, 1, 0)
    assert (every.bin, every.comparisons, every.missing, every.reproduced) == ("all", 2, 1, 0.25)
    board = board_agreement("judge", judged(winners, rows), rows)
    assert (board.models, board.comparisons, round(board.spearman)) == (2, 2, -1)


def test_a_rater_who_votes_twice_and_too_few_votes_end_with_one_line(votes):
    with pytest.raises(CurateError, match="none of its 3 comparisons has 7 votes"):
        read_comparisons(votes, 7)
    votes.write_text(votes.read_text() + "i,y,x,model_a,0\n")
    with pytest.raises(CurateError, match="rater '0' votes twice on 'x' and 'y' at item 'i'"):
        read_comparisons(votes, 5)


def test_the_command_prints_shares_and_boards_and_says_what_it_could_not_score(votes, tmp_path, curate):
    answers = tmp_path / "answers.jsonl"
    lines = [{"question_id": item, "model": model, "output": text} for (item, model), text in ANSWERS.items()]
    answers.write_text("\n".join(map(json.dumps, lines)))
    code, out, err = curate("judge", "metrics", votes, "--answers", answers, "--json")
    rows = [json.loads(line) for line in out.splitlines()]
    assert code == 0 and "without a reference" in err
    lengths = {row["bin"]: row["reproduced"] for row in rows if row["metric"] == "length" and "bin" in row}
    assert lengths == {"5/5": 1, "4/5": 1, "3/5": 1, "all": 1}
    assert {"random", "length"} == {row["metric"] for row in rows}


def test_on_llmfao_people_who_agree_prefer_the_shorter_answer():
    rows = read_comparisons(PUBLISHED / "llmfao-votes.csv", 5).rows.filter(bin="5/5")
    lengths = pl.read_csv(PUBLISHED / "llmfao-answer-lengths.csv").select("prompt", "name", "words")
    answers = {(str(prompt), name): "word " * words for prompt, name, words in lengths.iter_rows()}
    length = text_metrics([], Letters(), 0)["length"]
    (five, _) = reproduced("length", scored(length, rows, answers, {}), rows, 200, 0)
    assert (five.comparisons, round(five.reproduced, 3)) == (117, 0.197)
    assert five.ci95_low < 0.197 < five.ci95_high
