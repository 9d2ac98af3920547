"""The questions of docs/sql.md are answered on a curated arena, and its commands are typed."""

import io
import re
import shlex
import shutil

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
    file, copy = tmp_path / "battles.parquet", tmp_path / "store"
    shutil.copytree(curated.store.root, copy)  # the store notes what is written
    release = copy / curated.release.relative_to(curated.store.root)
    places = {"out": copy, "out/releases/1.0.0": release, file.name: file}
    for command in commands:
        status, _, err = curate(*(places.get(word, word) for word in shlex.split(command)))
        assert status == 0, err
    assert file.is_file()
