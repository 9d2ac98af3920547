"""The questions of docs/sql.md are answered on a curated arena, and its commands are typed."""

import io
import re
import shlex

import pytest

from tests.places import ROOT

PAGE = (ROOT / "docs" / "sql.md").read_text("utf-8")
QUESTIONS = re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL)


def test_the_page_has_ten_questions():
    assert len(QUESTIONS) == 10


@pytest.mark.parametrize("number", range(len(QUESTIONS)))
def test_a_question_of_the_page_has_an_answer(curate, curated, number):
    status, out, err = curate("sql", curated.store.root, QUESTIONS[number])
    assert (status, err) == (0, ""), err
    assert len(out.splitlines()) > 1


def test_commands_of_the_page_are_typed(curate, curated, tmp_path, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO())  # the prompt ends at once
    commands = [line.removeprefix("$ curate ") for line in PAGE.splitlines() if line.startswith("$ curate ")]
    assert len(commands) == 4
    file = tmp_path / "battles.parquet"
    places = {"out": curated.store.root, "out/releases/1.0.0": curated.release, file.name: file}
    for command in commands:
        places = {"out": curated.store.root, "out/releases/1.0.0": str(curated.release)}
        words = [
            places.get(word, word).replace("battles.parquet", str(tmp_path / "b.parquet"))
            for word in shlex.split(command)
        ]
        status, _, err = curate(*words)
        assert status == 0, err
    assert file.is_file()
